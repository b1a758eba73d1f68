# `make train` installs what it needs and trains; `make help` lists the targets of users, `make -C tools help` those of
# engineers of this repository.
MAKE_HERE := make
include environments/setup.mk

ARGS ?=
DATA ?= data/images
# The project's own checks set REHEARSAL=tests.requests_sent, which fails if a kind of request was never judged as well.
REHEARSAL ?= rehearsal

## Start

help.reads =
help: ## List the targets
	@$(LIST_TARGETS)

setup.reads =
setup: $(TRAINER) $(INFRA) ## Install both environments into this folder
	@echo "ready: .venv-trainer (TensorFlow, Horovod) and .venv (Pulumi, Azure SDK)"

setup-platform.reads =
setup-platform: $(INFRA) ## Install the platform's environment alone, to deploy and to submit jobs
	@echo "ready: .venv (Pulumi, Azure SDK)"

## Data

prepare.reads = INPUT DATA ARGS
prepare: $(TRAINER) ## Write a data set from a folder of images: INPUT=photos, DATA=data/images
	@$(TRAINER_PYTHON) -m trainer prepare folder --input "$(INPUT)" --output "$(DATA)" $(ARGS)

verify.reads = DATA ARGS
verify: $(TRAINER) ## Compare a data set with its manifest: DATA=data/images, ARGS=--deep
	@$(TRAINER_PYTHON) -m trainer verify "$(DATA)" $(ARGS)

inspect.reads = DATA ARGS
inspect: $(TRAINER) ## Write a page about a data set: DATA=data/images
	@$(TRAINER_PYTHON) -m trainer inspect "$(DATA)" $(ARGS)

## Train

# ARGS are options of the trainer here and on Azure; options of the job have variables of their own.
train.reads = $(if $(NAMED_STACK),STACK PRESET NODES CLUSTER NAME DATA_SET BUDGET JOB_ARGS ARGS,IMAGES PRESET DATA NAME ARGS)
train: $(if $(NAMED_STACK),$(INFRA),$(TRAINER)) ## Train here: IMAGES=photos chooses the run; or PRESET=digits, DATA=data/images, NAME=first, ARGS="--epochs 5"; on Azure: STACK=dev, and NODES, CLUSTER, DATA_SET=NAME:VERSION, BUDGET, JOB_ARGS
ifdef NAMED_STACK
	$(if $(filter --,$(ARGS)),$(error ARGS: are options of the trainer, without `--`; give options of the job in JOB_ARGS))
	@$(INFRA_PYTHON) -m jobs submit --stack $(STACK) $(if $(PRESET),--preset $(PRESET)) $(if $(NODES),--nodes $(NODES)) $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(NAME),--name $(NAME)) $(if $(DATA_SET),--data.asset $(DATA_SET)) $(if $(BUDGET),--budget $(BUDGET)) $(JOB_ARGS) $(if $(ARGS),-- $(ARGS))
else
	@cat .venv-trainer/processor.txt
	$(if $(IMAGES),$(if $(PRESET),$(error PRESET: IMAGES chooses the run; leave one of them out, or name the data set as DATA)))
	@$(if $(IMAGES),$(TRAINER_PYTHON) -m trainer fit "$(IMAGES)" $(if $(filter command,$(firstword $(origin DATA))),--data "$(DATA)") $(if $(NAME),--name $(NAME)) $(ARGS),$(TRAINER_PYTHON) -m trainer train $(if $(PRESET),--preset $(PRESET)) $(if $(filter command,$(firstword $(origin DATA))),--data.source tfrecords --data.dir "$(DATA)") $(if $(NAME),--name $(NAME)) $(ARGS))
endif

evaluate.reads = RUN ARGS
evaluate: $(TRAINER) ## Evaluate a run's newest checkpoint: RUN=runs/NAME (default: the latest run)
	@$(TRAINER_PYTHON) -m trainer evaluate --run $(RUN) $(ARGS)

report.reads = RUN ARGS
report: $(TRAINER) ## Write the report of a run, or compare several: RUN="runs/A runs/B"
	@$(TRAINER_PYTHON) -m trainer report $(RUN) $(ARGS)

## Use a model

predict.reads = RUN IMAGES ARGS
predict: $(TRAINER) ## Classify images with a run's exported model: IMAGES="a.jpg b/", RUN=runs/NAME
	@$(TRAINER_PYTHON) -m trainer predict --run $(RUN) $(ARGS) $(if $(IMAGES),-- $(IMAGES))

score.reads = INPUT OUTPUT ARGS $(if $(NAMED_STACK),STACK MODEL NODES,RUN)
score: $(if $(NAMED_STACK),$(INFRA),$(TRAINER)) ## Classify a folder of images, and write Parquet: INPUT=photos OUTPUT=scores; with STACK=dev MODEL=digits:1 on Azure
ifdef NAMED_STACK
	@$(INFRA_PYTHON) -m jobs score-batch "$(MODEL)" --stack $(STACK) --input "raw/$(INPUT)" --output "scores/$(OUTPUT)" $(if $(NODES),--nodes $(NODES)) $(ARGS)
else
	@$(TRAINER_PYTHON) -m trainer score --run $(RUN) --input "$(INPUT)" --output "$(OUTPUT)" $(ARGS)
endif

export.reads = RUN ARGS
export: $(TRAINER) ## Export a run's model as a SavedModel: RUN=runs/NAME, ARGS=--onnx
	@$(TRAINER_PYTHON) -m trainer export --run $(RUN) $(ARGS)

serve.reads = RUN ARGS
serve: $(TRAINER) $(SERVING) ## Serve a run's exported model over HTTP on this machine: RUN=runs/NAME
	@$(TRAINER_PYTHON) -m trainer serve --run $(RUN) $(ARGS)

## Platform

configure.reads = STACK DATA_OF REGISTRY_OF HUB_OF
configure: ## Pin a stack to the subscription that the Azure CLI is signed in to: STACK=dev, DATA_OF, HUB_OF=another stack
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

render.reads = STACK ARGS
render: $(INFRA) ## List what a stack declares, without Azure: STACK=dev
	@$(INFRA_PYTHON) -m infra.render.render $(STACK) --output build/$(STACK).resources.json $(ARGS)

costs.reads = STACK ARGS
costs: $(INFRA) ## Show the monthly cost of a stack while no job runs: STACK=dev
	@$(INFRA_PYTHON) -m infra.render.costs $(STACK) $(ARGS)

roles.reads = STACK ARGS
roles: $(INFRA) ## List the roles that a stack assigns, or that the owner of the subscription does (roles: existing): STACK=dev, ARGS=--script or --json
	@$(INFRA_PYTHON) -m infra.render.roles $(STACK) $(ARGS)

egress.reads = STACK ARGS
egress: $(INFRA) ## List what nodes must reach, for the owner of an existing network: STACK=dev
	@$(INFRA_PYTHON) -m infra.render.egress $(STACK) $(ARGS)

preview.reads = STACK ARGS
preview: $(INFRA) ## Show what deploying the platform would change: STACK=dev
	@$(INFRA_PYTHON) -m jobs preview --stack $(STACK) $(ARGS)

up.reads = STACK YES ARGS
up: $(INFRA) ## Deploy the platform, or its changes: STACK=dev, YES=1
	@$(INFRA_PYTHON) -m jobs up --stack $(STACK) $(if $(YES),--yes) $(ARGS)

drift.reads = STACK ARGS
drift: $(INFRA) ## Show which resources were changed in Azure outside of Pulumi: STACK=dev
	@$(INFRA_PYTHON) -m jobs drift --stack $(STACK) $(ARGS)

status.reads = STACK ARGS
status: $(INFRA) ## Show the Azure nodes that cost money now, and the runs: STACK=dev
	@$(INFRA_PYTHON) -m jobs status --stack $(STACK) $(ARGS)

plan.reads = STACK PRESET MODEL DEADLINE BUDGET NODES ARGS
plan: $(INFRA) ## Estimate hours and cost of a run before anything is rented: PRESET=imagenet-ndv2, DEADLINE=2h or BUDGET=60
	@$(INFRA_PYTHON) -m jobs plan $(if $(PRESET),--preset $(PRESET)) $(if $(MODEL),--model $(MODEL)) $(if $(DEADLINE),--deadline $(DEADLINE)) $(if $(BUDGET),--budget $(BUDGET)) $(if $(NODES),--nodes $(NODES)) $(if $(NAMED_STACK),--stack $(STACK)) $(ARGS)

backend.reads = STACK ARGS
backend: $(INFRA) ## Set up a place for Pulumi's state, after asking once: STACK=dev, ARGS="--repository ORGANISATION/REPOSITORY"
	@$(INFRA_PYTHON) -m jobs backend --stack $(STACK) $(ARGS)

teardown.reads = STACK CLUSTER YES ARGS
teardown: $(INFRA) ## Delete the platform and all that is in it, or only CLUSTER=gpu: STACK=dev, YES=1
	@$(INFRA_PYTHON) -m jobs teardown --stack $(STACK) $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(YES),--yes) $(ARGS)

## Try without Azure

rehearse.reads = IMAGE KEEP UNTIL REHEARSAL ARGS
rehearse: $(INFRA) $(TRAINER) $(AZURITE) $(ENGINE) ## Deploy, train and tear down on this machine: KEEP=1, UNTIL=up
	@$(INFRA_PYTHON) -m $(REHEARSAL) cycle $(if $(IMAGE),--image localhost/trainer-$(IMAGE):latest) $(if $(KEEP),--keep) $(if $(UNTIL),--until $(UNTIL)) $(ARGS)

## Develop

# Both halves at once, as that of the platform often waits; one shows all that it has written when it has ended.
test.reads = AGAIN ARGS
test: $(INFRA) $(TRAINER) $(AZURITE) $(SBOM) $(SERVING) $(VALIDATORS) ## Run the tests (about 30 minutes on 2 cores)
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target -f tools/Makefile test-trainer test-platform

lint.reads =
lint: $(TRAINER) ## Check style, common mistakes (ruff) and imports between packages (import-linter)
	$(TRAINER_PYTHON) -m ruff check .
	$(TRAINER_PYTHON) -m ruff format --check .
	.venv-trainer/bin/lint-imports

types.reads =
types: $(TRAINER) $(INFRA) ## Check types (mypy)
	@$(MAKE) --no-print-directory -f tools/Makefile types-trainer types-platform

format.reads =
format: $(TRAINER) ## Format the code, and fix what ruff can fix
	$(TRAINER_PYTHON) -m ruff format .
	$(TRAINER_PYTHON) -m ruff check --fix .

docs.reads = ARGS
docs: $(DOCS) ## Build the site of docs/ in build/site, without the internet; open build/site/index.html
	@NO_MKDOCS_2_WARNING=1 .tools/docs/bin/mkdocs build --strict --quiet $(ARGS)
	@echo "build/site/index.html"

map.reads = ARGS
map: ## Print the folders of the code, a sentence each, or the modules of some: ARGS="trainer/data jobs"
	@$(PYTHON) -m tools.references.code_map $(ARGS)

lock.reads = UPGRADE
lock: $(UV) ## Write locks/ from pyproject.toml; locked versions stay unless UPGRADE=--upgrade
	@for groups in $(LOCKS); do \
		$(COMPILE) $(LOCKED) $(UPGRADE) -o locks/$${groups%%+*}.txt || exit 1; \
	done; echo "locks/ matches pyproject.toml"

clean.reads =
clean: ## Remove environments and caches; runs/ and data/ stay
	rm -rf .tools .venv .venv-trainer build .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Targets of earlier versions.
commission diagram:
	@echo "error: make $@: version 0.1.0 was the last with it; $(if $(filter diagram,$@),make roles STACK=dev lists the roles,run the commands of docs/first-day-on-azure.md)" >&2; exit 2

# A target of tools/Makefile is refused with its command.
.DEFAULT:
	@echo "error: make $@: $(if $(shell grep -E '^$@:' tools/Makefile),run \`make -C tools $@\`,no such target or file; \`make help\` lists the targets)" >&2; exit 2

.PHONY: $(TARGETS)
$(REFUSE_UNREAD)
