"""Facts that the code does not state itself, as tables; tests compare their keys with the code."""

from collections.abc import Mapping
from typing import Final

_IN_USE: Final = "no, once a subnet is in use"
_REPLACED: Final = "replaces the cluster, which is deleted first"

CHANGES: Final[Mapping[str, str]] = {
    "prefix": "no: a stack that is deployed keeps its names",
    "location": "no: deploy another stack",
    "subscription.id": "no: deploy another stack",
    "subscription.tenant": "no: deploy another stack",
    "resource_group.existing": "no: deploy another stack",
    "name_seed": "yes, for resources that do not exist yet; with `roles: existing`, only before the"
    " owner assigns roles",
    "budget.start": "no: Azure accepts no past month",
    "network.address_space": _IN_USE,
    "network.training_nodes": _IN_USE,
    "network.build_nodes": _IN_USE,
    "network.existing": _IN_USE,
    "clusters.NAME.size": _REPLACED,
    "clusters.NAME.priority": _REPLACED,
    "clusters.NAME.duty": _REPLACED,
    "clusters.NAME.name": _REPLACED,
    "storage.existing_default": "no: a workspace keeps its account",
    "storage.existing_data": "yes; data are not moved",
    "storage.default_redundancy": "not tried: Azure may want a conversion of the account",
    "storage.data_redundancy": "not tried: Azure may want a conversion of the account",
    "vault.existing": "no: a workspace keeps its vault",
    "access.public_key": "replaces the machine",
    "access.revision": "replaces the machine",
}
"""The effect of a change of a setting in a deployed stack. The docstrings of other settings say
whether they can be changed."""

OUTPUTS: Final[Mapping[str, tuple[str, str]]] = {
    "platform": ("`python -m jobs`", "What jobs know of the platform, as one document: below."),
    "data_account": ("`make configure DATA_OF=`", "Id of the account with the training data."),
    "registry": ("`make configure REGISTRY_OF=`", "Id of the container registry."),
    "network": ("`make configure HUB_OF=`", "Id of the network, if the stack declares it."),
    "address_space": ("`make configure HUB_OF=`", "Its address range."),
    "zones": (
        "`make configure HUB_OF=`",
        "Id of the resource group of the private DNS zones, if the stack declares them.",
    ),
    "roles": (
        "`make roles`",
        "With `roles: existing`, the role assignments that the owner makes.",
    ),
    "endpoints_range": ("`make configure HUB_OF=`", "Range of the private endpoints' subnet."),
}
"""Outputs of a stack: their readers, and their meaning."""

STATUSES: Final[Mapping[int, tuple[str, str]]] = {
    0: ("Done.", "Done; a run that was followed has completed."),
    1: ("Another failure.", "Another failure, or a run or resource that does not exist."),
    2: ("Invalid configuration.", "Invalid options, or a job that cannot run with them."),
    3: ("Invalid data set.", "A file that a job takes with it is missing."),
    4: ("Invalid checkpoint or run folder.", "The outputs of the stack could not be read."),
    5: ("A loss, a gradient, a weight or an output is not finite.", ""),
    6: ("Another rank ended; its log has the cause.", ""),
    7: ("A rank made no progress, and its watchdog ended it.", ""),
    8: ("Stopped at `--max-seconds`; the state is saved.", ""),
    9: ("Out of memory, once in a run: the same command continues in smaller micro-batches.", ""),
    20: ("", "The run was cancelled."),
    21: ("", "The run was interrupted and not submitted again."),
    22: ("", "Azure did not answer or refused a request, or a result could not be checked."),
    23: ("", "The cluster check found a problem."),
    24: ("", "The budget of the run is used up; its state is saved."),
    25: ("", "A run is no longer observed, so its end is unknown."),
    26: ("", "Resources were changed outside of Pulumi."),
    130: ("Stopped by SIGINT (Ctrl-C); the state is saved.", "Ctrl-C; jobs continue on Azure."),
    138: ("Stopped by SIGUSR1; the state is saved.", ""),
    141: ("The reader of stdout is gone.", "The reader of stdout is gone."),
    143: ("Stopped by SIGTERM; the state is saved.", ""),
}
"""Exit statuses: of `ml-trainer`, and of `python -m jobs`."""

VARIABLES: Final[Mapping[str, tuple[str, str]]] = {
    "JOBS_OUTPUTS": ("jobs", "File to read the outputs of the stack from, as `--outputs FILE`."),
    "JOBS_TEARDOWN_FOLDER": ("jobs", "Folder in which an interrupted teardown keeps outputs."),
    "JOBS_WEBHOOK": ("jobs", "Address of a webhook that gets notices about runs."),
    "JOBS_WEBHOOK_FORMAT": ("jobs", "Form of these notices: json (default), slack or teams."),
    "JOBS_WEBHOOK_SECRET": ("jobs", "URI of a key vault's secret with the address instead."),
    "TRAINER_DEBUG": ("trainer", "RANK or RANK:PORT: this rank waits for a debugger."),
    "TRAINER_FAILURES": ("trainer", "Pipe for failures of ranks; set by the launcher."),
    "TRAINER_HOLD_ON_FAILURE_MINUTES": (
        "trainer",
        "Minutes that a node of a failed rank is kept; set by `--hold-on-failure`.",
    ),
    "TRAINER_LAUNCHER_PID": ("trainer", "Process of the launcher; set by the launcher."),
    "TRAINER_NAME_KEY": (
        "trainer",
        "Key of `prepare --names hashed`, if no `--name-key` is given.",
    ),
    "SCORE_CALL_IMAGES": ("serving", "Most images in one call of the model; default 32."),
    "SCORE_DEADLINE": ("serving", "Longest time that a request waits, in seconds; default 30."),
    "SCORE_MAX_WAITING": ("serving", "Most images that wait for a call; default 256."),
    "SCORE_WAIT_MS": (
        "serving",
        "Time that a call waits for others, in ms; default 10, 0 does not wait.",
    ),
    "SCORE_MAX_IMAGES": ("serving", "Most images in a request; default 64."),
    "SCORE_MAX_MB": ("serving", "Largest request in MB; default 32."),
    "SCORE_MAX_PIXELS": ("serving", "Most pixels of an image; it can only lower the limit."),
    "SCORE_MAX_REQUEST_PIXELS": (
        "serving",
        "Most pixels of all images of a request together; default 200 million.",
    ),
    "SCORE_MODEL_NAME": ("serving", "Name that answers give to the model, instead of the run."),
    "SCORE_MODEL_VERSION": ("serving", "Version that answers give to it, instead of the step."),
    "SCORE_THREADS": (
        "serving",
        "Threads of one operation; default 1, as each core has a process.",
    ),
    "SCORE_TIMEOUT": (
        "serving",
        "Longest pause of a client in its request, in seconds; default 30.",
    ),
}
"""Environment variables of this project: the program that reads each, and its effect."""

FILES: Final[Mapping[str, tuple[str, str, str]]] = {
    "config.json": (
        "at the start",
        "config",
        "The resolved configuration, with the software and the machine.",
    ),
    "metrics.jsonl": ("during the run", "metrics", "One JSON object per line, in order of steps."),
    "result.json": ("at the end, last", "result", "Metrics of the final weights, times, ranks."),
    "report.html": ("at each end of an attempt", "", "The report, a single file."),
    "checkpoints/": ("during the run", "", "States to resume from, as safetensors."),
    "export/export.json": ("at the end", "export", "Inputs and outputs of the exported model."),
    "export/saved_model/": ("at the end", "", "The model, as a TensorFlow SavedModel."),
    "predictions.csv": ("at the end", "", "A line for each held-out example."),
    "mistakes/": ("at the end", "", "Thumbnails of the most confident mistakes."),
    "overlays/": ("at the end", "", "Of segmentation and detection, instead of `mistakes/`."),
    "classes.csv": ("at the end", "", "A line for each class."),
    "code/": ("at the start", "", "The code of an own network."),
    "evaluations/": (
        "by `evaluate`",
        "",
        "Results on the split for tests and on other data sets, each like the folder of a run.",
    ),
    "tensorflow.log": ("during the run", "", "What TensorFlow's C++ code has logged, if anything."),
    "tblogs/": ("during the run", "", "Curves for TensorBoard."),
}
"""Files of a run: when each is written, the name of its schema, and its contents."""
