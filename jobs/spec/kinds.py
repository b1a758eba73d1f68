"""The jobs of each kind, built from the platform's outputs, a configuration and options. Pure.

Nothing is defined twice: clusters, datastores and identities come from `PlatformOutputs`, a
program's options from the trainer's dataclasses, and the run's folder from its key. Every kind
raises a `SpecError` with all reasons why the job could not run with the given options.
"""

from dataclasses import replace
from typing import Any, Final, Literal

from common import fields
from infra.outputs import Cluster, PlatformOutputs
from jobs.options import JobOptions, PreparationOptions
from jobs.spec import environment_variables
from jobs.spec.builder import DATA_INPUT, JobBuilder, SoftwareVersions
from jobs.spec.job_spec import TENSORBOARD_DIR, UPLOADED, Folder, JobSpec, datastore_uri
from jobs.spec.run_key import RunAttempt
from trainer.config import TrainConfig
from trainer.options import PrepareFolderOptions, PrepareImagenetOptions
from trainer.presets import PRESETS, preset_warnings, to_args

RUN_OUTPUT: Final = "run"
RAW_INPUT: Final = "raw"
PREPARED_OUTPUT: Final = "prepared"
CHECK_RESULT: Final = "outputs/check.json"
"""File that a cluster check writes its measurements to."""

DATA: Final = f"${{{{inputs.{DATA_INPUT}}}}}"
"""Placeholder of the data set's folder, which Azure replaces."""
_RUN: Final = f"${{{{outputs.{RUN_OUTPUT}}}}}"
_RAW: Final = f"${{{{inputs.{RAW_INPUT}}}}}"
_PREPARED: Final = f"${{{{outputs.{PREPARED_OUTPUT}}}}}"

_FILES: Final = {
    PrepareFolderOptions: ("folder", ("input",)),
    PrepareImagenetOptions: ("imagenet", ("train", "validation", "ground_truth", "words")),
}
"""Name of each preparation, and its options that name input files."""


def train(
    outputs: PlatformOutputs,
    config: TrainConfig,
    options: JobOptions,
    attempt: RunAttempt,
    software: SoftwareVersions,
    kind: Literal["train", "smoke", "benchmark"] = "train",
) -> JobSpec:
    """Build a job that trains.

    A smoke test is a short training that needs no data in storage, to test everything else. It runs
    on a training cluster, because only the identity of training may write the results of runs; on
    one without GPUs if there is one. A benchmark measures images/s: of computing and allreduce with
    synthetic data, or of a whole training with the data set that the options name.
    """
    builder = JobBuilder(kind, outputs, options, attempt, software)
    source, named = config.data.source, options.data.asset or options.data.path
    if kind == "smoke" and source == "tfrecords":
        builder.problems.append(
            "--data.source: 'tfrecords', but a smoke test reads no data from storage; pass digits"
            " or synthetic"
        )
    if kind == "benchmark" and source != ("tfrecords" if named else "synthetic"):
        builder.problems.append(
            f"--data.source: {source!r}, but a benchmark reads synthetic data, or a data set in"
            " storage (--data.asset); pass synthetic, or name a data set"
        )
    return _training(builder, config)


def prepare(
    outputs: PlatformOutputs,
    what: PrepareFolderOptions | PrepareImagenetOptions,
    folders: PreparationOptions,
    options: JobOptions,
    attempt: RunAttempt,
    software: SoftwareVersions,
) -> JobSpec:
    """Build a job that converts raw images into shards, as one process on a cluster whose jobs may
    write prepared data.

    Args:
        outputs: Outputs of the stack.
        what: Options of `ml-trainer prepare`. File names are relative to the raw folder;
            their output folder is replaced by the prepared folder.
        folders: Raw and prepared folder.
        options: How the job is run.
        attempt: Attempt of the run; a later attempt resumes where the last one ended.
        software: Versions of images and code.
    """
    builder = JobBuilder("prepare", outputs, options, attempt, software)
    command, files = _FILES[type(what)]
    below: dict[str, Any] = {}
    for name in files:
        file = getattr(what, name)
        if file is None:
            continue
        flag = "--" + name.replace("_", "-")
        if file.startswith("/") or ".." in file.split("/"):
            builder.problems.append(f"{flag}: {file!r} must be in the raw folder {folders.raw}")
        if not file and len(files) > 1:
            builder.problems.append(
                f"{flag}: is missing; pass the file or folder in the raw folder {folders.raw}"
            )
        below[name] = f"{_RAW}/{file}".rstrip("/")
    if what.names == "hashed" or what.name_key or what.name_table:
        builder.problems.append(
            "--names: hashed names, their key and a table of names stay on your own machine;"
            " prepare the images there, and upload the data set"
        )
    words = fields.to_flags(replace(what, **below, output=_PREPARED), type(what)())
    stores = outputs.datastores
    builder.inputs[RAW_INPUT] = Folder(datastore_uri(stores.raw.name, folders.raw), "ro_mount")
    builder.written[PREPARED_OUTPUT] = Folder(
        datastore_uri(stores.prepared.name, folders.prepared), "rw_mount"
    )
    builder.tags["data"] = folders.prepared
    return builder.build(["trainer", "prepare", command, *words], None)


def check(
    outputs: PlatformOutputs, options: JobOptions, attempt: RunAttempt, software: SoftwareVersions
) -> JobSpec:
    """Build a short job that measures, before an expensive one, the bandwidth of an allreduce over
    all ranks, the network that it uses and, if a data set is given, how fast it is read.
    """
    builder = JobBuilder("check", outputs, options, attempt, software)
    words = ["--output", CHECK_RESULT]
    if options.data.asset or options.data.path:
        builder.read(outputs.datastores.prepared)
        words += ["--data", DATA]
    if options.hold_on_failure or options.debug == "paused":
        builder.problems.append(
            "--hold-on-failure, --debug paused: apply only to a job that trains; omit them"
        )
    builder.variables |= environment_variables.of_check()
    return builder.build(["trainer.diagnostics.cluster_check", *words], builder.processes)


def _training(builder: JobBuilder, config: TrainConfig) -> JobSpec:
    builder.gpus_per_process = config.strategy.devices
    named = builder.options.data.asset or builder.options.data.path
    data = config.data
    if data.source == "tfrecords":
        if builder.read(builder.outputs.datastores.prepared):
            data = replace(data, dir=DATA)
    else:
        builder.tags["data"] = data.source
        if named:
            builder.problems.append(
                f"--data.source: {data.source!r} reads no data from storage, but {named} is given;"
                " omit one of them"
            )
    _check(builder, config, builder.cluster)
    ranks = builder.options.nodes * builder.processes
    builder.problems += config.misfits(ranks)
    builder.notes += preset_warnings(config, ranks)
    results = datastore_uri(builder.outputs.datastores.results.name, builder.attempt.folder)
    builder.written[RUN_OUTPUT] = Folder(results, "rw_mount")
    builder.tags["preset"] = config.preset
    options = builder.options
    paused = options.debug == "paused"
    builder.variables |= environment_variables.of_run(options.hold_on_failure, paused=paused)
    if options.hold_on_failure:
        builder.tags["hold_on_failure"] = f"{options.hold_on_failure:g} min"
    resolved = replace(
        config,
        name=builder.attempt.run,
        runs_dir=_RUN,
        data=data,
        log=replace(
            config.log,
            tensorboard_dir=TENSORBOARD_DIR,
            # Copies of images leave the data's storage only if that was asked for.
            images=config.log.images or "none",
        ),
    )
    return builder.build(["trainer", "train", *to_args(resolved)], builder.processes)


def _check(builder: JobBuilder, config: TrainConfig, cluster: Cluster) -> None:
    """Find options that make sense on a local machine, but not in a job."""
    checkpoint, run = config.checkpoint, builder.attempt.run
    if config.name not in (None, run):
        builder.problems.append(f"--name: {config.name!r}, but the key of the run is {run!r}")
    if config.resume == "never":
        builder.problems.append(
            "--resume: 'never', but Azure may restart a job, which must resume then; omit it, as a"
            " new run has a new key anyway"
        )
    if config.runs_dir != TrainConfig.runs_dir:
        builder.problems.append(
            f"--runs-dir: {config.runs_dir!r}, but the run's folder is in the datastore of results;"
            " omit it"
        )
    if config.data.dir not in (None, DATA, PRESETS[config.preset].data.dir):
        builder.problems.append(
            f"--data.dir: {config.data.dir!r} is a local folder; pass the job's data set as"
            " --data.asset or --data.path before the '--'"
        )
    if config.log.tensorboard_dir not in (None, TENSORBOARD_DIR):
        builder.problems.append(
            f"--log.tensorboard-dir: {config.log.tensorboard_dir!r} is not uploaded while the job"
            f" runs; omit it to use {TENSORBOARD_DIR}"
        )
    timeline = config.exchange.timeline
    if timeline is not None and not timeline.startswith(UPLOADED):
        builder.problems.append(
            f"--exchange.timeline: {timeline!r} would be lost with the node; put it in outputs/"
        )
    if config.compute.precision == "mixed_float16" and not cluster.gpus_per_node:
        builder.notes.append(
            f"--compute.precision: mixed_float16 is for GPUs, and {cluster.size} has none"
        )
    if cluster.priority == "LowPriority" and not (
        checkpoint.every_minutes or checkpoint.every_steps
    ):
        builder.notes.append(
            "--checkpoint.every-minutes: 0, so a pre-empted node loses up to an epoch of training"
        )
