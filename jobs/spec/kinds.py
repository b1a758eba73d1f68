"""The kinds of job, each from the platform's outputs, a configuration and options. Pure.

Nothing is named twice: clusters, datastores and identities come from `PlatformOutputs`, a program's
options from the trainer's own dataclasses, and the run's folder from its key. Every kind raises
`SpecError` with all reasons at once why it could not run as asked.
"""

from dataclasses import replace
from typing import Any, Final

from infra.outputs import Cluster, PlatformOutputs
from jobs.options import JobOptions, PreparationOptions
from jobs.spec import command_line, environment_variables
from jobs.spec.builder import DATA_INPUT, Draft, Source, on_preparation
from jobs.spec.job_spec import TENSORBOARD_DIR, UPLOADED, Folder, JobSpec, datastore_uri
from jobs.spec.run_key import Attempt
from trainer.config import TrainConfig
from trainer.options import PrepareFolderOptions, PrepareImagenetOptions
from trainer.presets import PRESETS, to_args

RUN_OUTPUT: Final = "run"
RAW_INPUT: Final = "raw"
PREPARED_OUTPUT: Final = "prepared"
VERDICT: Final = "outputs/check.json"
"""Where a cluster check writes what it measured."""

DATA: Final = f"${{{{inputs.{DATA_INPUT}}}}}"
"""Folder of a job's data set, as Azure fills it in."""
_RUN: Final = f"${{{{outputs.{RUN_OUTPUT}}}}}"
_RAW: Final = f"${{{{inputs.{RAW_INPUT}}}}}"
_PREPARED: Final = f"${{{{outputs.{PREPARED_OUTPUT}}}}}"

_FILES: Final = {
    PrepareFolderOptions: ("folder", ("input",)),
    PrepareImagenetOptions: ("imagenet", ("train", "validation", "ground_truth", "words")),
}
"""Name of each preparation, and which of its options are files that it reads."""


def train(
    outputs: PlatformOutputs,
    config: TrainConfig,
    options: JobOptions,
    attempt: Attempt,
    source: Source,
) -> JobSpec:
    """A training on the cluster that the options name."""
    return _training(Draft("train", outputs, options, attempt, source), config)


def smoke(
    outputs: PlatformOutputs,
    config: TrainConfig,
    options: JobOptions,
    attempt: Attempt,
    source: Source,
) -> JobSpec:
    """A training on CPUs that needs no data of the platform, to see that all else works."""
    draft = Draft("smoke", outputs, on_preparation(options), attempt, source)
    if config.data.source == "tfrecords":
        draft.problems.append(
            "--data.source: 'tfrecords', but a smoke test reads no data of the platform; say digits"
            " or synthetic"
        )
    return _training(draft, config)


def benchmark(
    outputs: PlatformOutputs,
    config: TrainConfig,
    options: JobOptions,
    attempt: Attempt,
    source: Source,
) -> JobSpec:
    """Images a second of computing and exchanging, without reading any data."""
    draft = Draft("benchmark", outputs, options, attempt, source)
    if config.data.source != "synthetic":
        draft.problems.append(
            f"--data.source: {config.data.source!r}, but this benchmark is of computing and of the"
            " network alone; say synthetic"
        )
    return _training(draft, config)


def prepare(
    outputs: PlatformOutputs,
    what: PrepareFolderOptions | PrepareImagenetOptions,
    folders: PreparationOptions,
    options: JobOptions,
    attempt: Attempt,
    source: Source,
) -> JobSpec:
    """Raw images into shards, by one process on the preparation cluster, as its identity.

    Args:
        outputs: of the stack.
        what: options of `python -m trainer prepare`. Files are named below the raw folder; the
            output is the prepared folder, whatever they say.
        folders: the raw and the prepared folder.
        options: how the job is run.
        attempt: the run and which of its jobs this is; a later one goes on where the last ended.
        source: image and code.
    """
    draft = Draft("prepare", outputs, on_preparation(options), attempt, source)
    command, files = _FILES[type(what)]
    below: dict[str, Any] = {}
    for name in files:
        given = getattr(what, name)
        if given is None:
            continue
        flag = "--" + name.replace("_", "-")
        if given.startswith("/") or ".." in given.split("/"):
            draft.problems.append(f"{flag}: {given!r} must be below the raw folder {folders.raw}")
        if not given and len(files) > 1:
            draft.problems.append(f"{flag}: name the file or folder below {folders.raw}")
        below[name] = f"{_RAW}/{given}".rstrip("/")
    words = command_line.changed(replace(what, **below, output=_PREPARED))
    stores = outputs.datastores
    draft.inputs[RAW_INPUT] = Folder(datastore_uri(stores.raw.name, folders.raw), "ro_mount")
    draft.written[PREPARED_OUTPUT] = Folder(
        datastore_uri(stores.prepared.name, folders.prepared), "rw_mount"
    )
    draft.tags["data"] = folders.prepared
    return draft.spec(command_line.line(*command_line.TRAINER, "prepare", command, *words), None)


def check(
    outputs: PlatformOutputs, options: JobOptions, attempt: Attempt, source: Source
) -> JobSpec:
    """A short job before an expensive one: the bandwidth of a sum over all ranks, which network it
    takes and, if data are named, how fast they are read.
    """
    draft = Draft("check", outputs, options, attempt, source)
    words = ["--output", VERDICT]
    if options.data.asset or options.data.path:
        draft.read(outputs.datastores.prepared)
        words += ["--data", DATA]
    draft.variables |= environment_variables.of_check()
    command = command_line.line("python", "-m", "trainer.diagnostics.cluster_check", *words)
    return draft.spec(command, draft.processes)


def _training(draft: Draft, config: TrainConfig) -> JobSpec:
    named = draft.options.data.asset or draft.options.data.path
    data = config.data
    if data.source == "tfrecords":
        if draft.read(draft.outputs.datastores.prepared):
            data = replace(data, dir=DATA)
    else:
        draft.tags["data"] = data.source
        if named:
            draft.problems.append(
                f"--data.source: {data.source!r} reads no data of the platform, but {named} is"
                " named; leave one of them out"
            )
    _check(draft, config, draft.cluster)
    results = datastore_uri(draft.outputs.datastores.results.name, draft.attempt.folder)
    draft.written[RUN_OUTPUT] = Folder(results, "rw_mount")
    draft.tags["preset"] = config.preset
    resolved = replace(
        config,
        name=draft.attempt.run,
        runs_dir=_RUN,
        data=data,
        log=replace(config.log, tensorboard_dir=TENSORBOARD_DIR),
    )
    command = command_line.line(*command_line.TRAINER, "train", *to_args(resolved))
    return draft.spec(command, draft.processes)


def _check(draft: Draft, config: TrainConfig, cluster: Cluster) -> None:
    """Options that make sense on a person's machine, and not in a job."""
    checkpoint, run = config.checkpoint, draft.attempt.run
    if config.name not in (None, run):
        draft.problems.append(f"--name: {config.name!r}, but the key of the run is {run!r}")
    if config.resume == "never":
        draft.problems.append(
            "--resume: 'never', but Azure may start a job again by itself; a new run has a new key"
            " anyway, so leave it out"
        )
    if config.runs_dir != TrainConfig.runs_dir:
        draft.problems.append(
            f"--runs-dir: {config.runs_dir!r}, but the run's folder is in the datastore of results;"
            " leave it out"
        )
    if config.data.dir not in (None, DATA, PRESETS[config.preset].data.dir):
        draft.problems.append(
            f"--data.dir: {config.data.dir!r} is a folder of a machine; a job's data are named by"
            " --data.asset or --data.path among its own options"
        )
    if config.log.tensorboard_dir not in (None, TENSORBOARD_DIR):
        draft.problems.append(
            f"--log.tensorboard-dir: {config.log.tensorboard_dir!r} would not be seen while the job"
            f" runs; leave it out, and it is {TENSORBOARD_DIR}"
        )
    timeline = config.exchange.timeline
    if timeline is not None and not timeline.startswith(UPLOADED):
        draft.problems.append(
            f"--exchange.timeline: {timeline!r} would be lost with the node; put it below outputs/"
        )
    if config.data.cache_dir is not None and draft.options.data.mode == "download":
        draft.problems.append(
            "--data.cache-dir: the data are downloaded to the node's disk already; leave it out, or"
            " mount them"
        )
    if config.compute.precision == "mixed_float16" and not cluster.gpus_per_node:
        draft.notes.append(
            f"--compute.precision: mixed_float16 is for GPUs, and {cluster.size} has none"
        )
    if cluster.priority == "LowPriority" and not (
        checkpoint.every_minutes or checkpoint.every_steps
    ):
        draft.notes.append(
            "--checkpoint.every-minutes: 0, so a node that is taken back costs up to an epoch"
        )
