# What Makefile and tools/Makefile share: environments, locks, `help`, and the check of variables. Both give each target's
# variables as TARGET.reads.

# Looked for only where it is used. GPU=0 installs TensorFlow for CPUs, GPU=1 insists on a GPU, else it is as nvidia-smi says.
PYTHON ?= $(shell scripts/find-python)
RUN ?= runs/latest

# Work is sent to Azure only by STACK on the command line, and options of a job count only there: a variable exported in some
# shell must not cost money.
NAMED_STACK := $(filter command,$(firstword $(origin STACK)))
STACK ?= dev
CLUSTER :=
NAME :=
SERIES :=
REPEAT :=
DATA_SET :=
JOB_ARGS :=

# A variable of the command line that no target reads is an error: without it, the job would run with other options. A goal
# without TARGET.reads is refused for itself.
GIVEN = $(foreach name,$(sort $(filter-out MAKE% .% -% PYTHON GPU JOBS SHELL,$(.VARIABLES))),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
UNREAD = $(filter-out $(foreach goal,$(MAKECMDGOALS),$(if $(filter undefined,$(flavor $(goal).reads)),%,$($(goal).reads))),$(GIVEN))
REFUSE_UNREAD = $(if $(filter 0,$(MAKELEVEL)),$(if $(UNREAD),$(error $(subst $() $(),$(COMMA) ,$(strip $(UNREAD))): not read by `$(MAKE_HERE) $(MAKECMDGOALS)`$(if $(NAMED_STACK),$(COMMA) without STACK); `$(MAKE_HERE) help` shows the variables of each target$(COMMA) and ARGS takes options of its command$(COMMA) such as ARGS="--epochs 5")))
COMMA := ,

TARGETS = $(patsubst %.reads,%,$(filter %.reads,$(.VARIABLES)))
LIST_TARGETS = awk -F ':.*\#\# ' '/^\#\# / { printf "%s%s:\n", (n++ ? "\n" : ""), substr($$0, 4) } \
	/^[a-z-]+:.* \#\# / { printf "  %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

UV := .tools/uv/bin/uv
INFRA := .venv/.ready
TRAINER := .venv-trainer/.ready
INFRA_PYTHON := .venv/bin/python
TRAINER_PYTHON := .venv-trainer/bin/python
XPROF_BIN := .tools/xprof/bin
XPROF := .tools/xprof/.ready
AZURITE := .tools/azurite/.ready
PULUMI := .tools/pulumi/.ready
# An installed Pulumi is used; otherwise its engine is built.
ENGINE := $(if $(shell command -v pulumi 2>/dev/null),,$(PULUMI))
HADOLINT := .tools/hadolint
ACTIONLINT := .tools/actionlint/.ready
SBOM := .tools/sbom/.ready
AUDIT := .tools/audit/.ready
SERVING := .tools/serving/.ready
DOCS := .tools/docs/.ready
VALIDATORS := .tools/validators/.ready
SPARKS := .tools/spark-3/.ready .tools/spark-4/.ready
JOBS := $(shell nproc 2>/dev/null || echo 1)

# One lock for each entry: one or several groups of pyproject.toml, named after the first. Packages that the
# images share with the trainer have the versions that are tested here; pyspark lies beside the trainer's own numpy.
# They are resolved for Python 3.11; lock-check shows that 3.12 and 3.13 get the same versions.
LOCKS := trainer+medical+evidence+dev+benchmarks workstation+medical+evidence+dev+benchmarks infra+rehearsal+dev profile cpu gpu serving images sbom audit docs validators spark-3 spark-4 checkov python-client scoring azure-cli
COMPILE := $(UV) pip compile pyproject.toml --generate-hashes --no-emit-index-url --quiet \
	--python-version $${python:-3.11} --python-platform x86_64-manylinux_2_28 --custom-compile-command "make lock"

LOCKED := $$(echo "+$$groups" | sed 's/+/ --group /g'; \
	case $$groups in cpu|gpu|workstation+*) echo --constraints locks/trainer.txt;; \
	spark-*) echo --constraints locks/trainer.txt --no-emit-package numpy;; esac)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

$(UV): locks/uv.txt scripts/check-machine
	@scripts/check-machine $(PYTHON)
	@echo "Installing uv into .tools/ (seconds)"
	@rm -rf .tools/uv && $(PYTHON) -m venv .tools/uv
	@.tools/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r locks/uv.txt
	@touch $@

# MAKEFLAGS lets the build of Horovod use all cores. The lock also constrains Horovod's build dependencies, so that
# it is compiled against the versions that it runs with.
# Horovod is the same in both locks: it exchanges with Gloo.
SYNC_TRAINER = VIRTUAL_ENV=.venv-trainer MAKEFLAGS=-j$(JOBS) HOROVOD_CMAKE=$(CURDIR)/environments/shared/horovod-cmake \
	$(UV) pip sync --compile-bytecode --require-hashes --build-constraints locks/trainer.txt
ifneq ($(GPU),)
.PHONY: $(TRAINER)
endif
$(TRAINER): locks/trainer.txt locks/workstation.txt pyproject.toml environments/shared/horovod-cmake | $(UV)
	@test -x $(TRAINER_PYTHON) || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv-trainer
	@choice=$$($(TRAINER_PYTHON) -m environments.workstation $(GPU)) && lock=$${choice%% *} && \
		echo "Installing the trainer into .venv-trainer: $${choice#* }" && \
		echo "500 MB to download, with a GPU 3 GB; then Horovod is compiled, once (2 to 5 minutes on 2 cores)" && \
		$(SYNC_TRAINER) locks/$$lock.txt && \
		{ $(TRAINER_PYTHON) -m environments.horovod_build || $(SYNC_TRAINER) --reinstall-package horovod locks/$$lock.txt; } && \
		VIRTUAL_ENV=.venv-trainer $(COMMANDS) && \
		echo "$${choice#* }" >.venv-trainer/processor.txt
	@touch $@

# The commands ml-trainer and ml-jobs, which work in any folder. Nothing is downloaded: setuptools is locked with the rest.
COMMANDS = $(UV) pip install --quiet --no-deps --no-build-isolation --editable .

$(INFRA): locks/infra.txt | $(UV)
	@echo "Installing Pulumi and the Azure SDK into .venv (about a minute)"
	@test -x .venv/bin/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv
	@VIRTUAL_ENV=.venv $(UV) pip sync --compile-bytecode --require-hashes locks/infra.txt
	@VIRTUAL_ENV=.venv $(COMMANDS)
	@touch $@

$(AZURITE): rehearsal/azurite/package.json rehearsal/azurite/package-lock.json
	@command -v npm >/dev/null || { echo "error: npm is not installed; Azurite, the blob server of tests and rehearsals, needs it: install Node.js 20 or newer" >&2; exit 1; }
	@echo "Installing Azurite into .tools/azurite (half a minute)"
	@mkdir -p $(@D) && cp rehearsal/azurite/package.json rehearsal/azurite/package-lock.json rehearsal/azurite/.npmrc $(@D)
	@cd $(@D) && npm ci --silent --no-progress --ignore-scripts --omit=dev
	@touch $@

# Pulumi's SDK asks the program for its version, which only the linker can put into it. Without inlining and debugging
# information the compiler takes a third less time; rehearsals do not notice.
$(PULUMI): rehearsal/pulumi/go.mod rehearsal/pulumi/go.sum
	@command -v go >/dev/null || { echo "error: neither pulumi nor go is installed; rehearsals need Pulumi: install it (https://www.pulumi.com/docs/install), or Go 1.26 or newer, which builds it" >&2; exit 1; }
	@echo "Building Pulumi's engine into .tools/pulumi, once (3 to 10 minutes on 2 cores)"
	@mkdir -p $(@D)/bin
	@version=$$(awk '$$1 == "github.com/pulumi/pulumi/pkg/v3" {print $$2}' rehearsal/pulumi/go.mod) && \
		go -C rehearsal/pulumi build -mod=readonly -trimpath -o $(abspath $(@D))/bin/ \
		-gcflags "all=-dwarf=false -l" -ldflags "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=$$version" tool
	@touch $@

$(ACTIONLINT): .github/actionlint/go.mod .github/actionlint/go.sum
	@command -v go >/dev/null || { echo "error: go is not installed; actionlint is built with it: install Go 1.26 or newer" >&2; exit 1; }
	@echo "Building actionlint into .tools/actionlint (seconds)"
	@mkdir -p $(@D)/bin && go -C .github/actionlint build -mod=readonly -trimpath -o $(abspath $(@D))/bin/ tool
	@touch $@

$(XPROF): locks/profile.txt | $(UV)
	@echo "Installing xprof into .tools/xprof (seconds)"
	@test -x $(XPROF_BIN)/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .tools/xprof
	@VIRTUAL_ENV=.tools/xprof $(UV) pip sync --quiet --require-hashes locks/profile.txt
	@touch $@

# Folders beside the trainer's environment, which stays as it is. pyspark is built from its source, 300 to 450 MB.
$(SPARKS): .tools/%/.ready: locks/%.txt | $(UV) $(TRAINER)
	@echo "Installing the packages of $< into $(@D) (a minute or two)"
	@$(UV) pip sync --quiet --python $(TRAINER_PYTHON) --target $(@D) --require-hashes $<
	@touch $@

# The scripts of the site come with npm: MkDocs' theme would load them from the internet.
$(DOCS): locks/docs.txt tools/references/site/package.json tools/references/site/package-lock.json | $(UV)
	@command -v npm >/dev/null || { echo "error: npm is not installed; two scripts of the site come with it: install Node.js 20 or newer" >&2; exit 1; }
	@echo "Installing MkDocs into .tools/docs (half a minute)"
	@test -x $(@D)/bin/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(@D)
	@VIRTUAL_ENV=$(@D) $(UV) pip sync --quiet --require-hashes locks/docs.txt
	@cp tools/references/site/package.json tools/references/site/package-lock.json tools/references/site/.npmrc $(@D)
	@cd $(@D) && npm ci --silent --no-progress --ignore-scripts --omit=dev
	@touch $@

$(SBOM) $(AUDIT) $(SERVING) $(VALIDATORS): .tools/%/.ready: locks/%.txt | $(UV)
	@echo "Installing the packages of $< into $(@D) (seconds)"
	@test -x $(@D)/bin/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(@D)
	@VIRTUAL_ENV=$(@D) $(UV) pip sync --quiet --require-hashes $<
	@touch $@

$(HADOLINT)/.ready: locks/images.txt | $(UV)
	@echo "Installing hadolint into $(HADOLINT) (seconds)"
	@test -x $(HADOLINT)/bin/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(HADOLINT)
	@VIRTUAL_ENV=$(HADOLINT) $(UV) pip sync --quiet --require-hashes locks/images.txt
	@touch $@
