"""`python -m jobs register`: register the final model of a run, or a prepared data set.

Each run has one version, derived from the run's key: registering it again changes nothing. The
version is a copy of the export, as a resumed run exports again.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final

from common.annotations import Positional
from common.errors import ConfigError, UserError
from common.program import load
from infra.outputs import PlatformOutputs
from jobs.assets import models
from jobs.assets.models import EXPORT, Model
from jobs.assets.prepared_data import register_prepared
from jobs.azure import results
from jobs.azure.job_records import Job
from jobs.azure.storage import Storage, read_small
from jobs.azure.workspace import connect
from jobs.console import SHOWN, Console
from jobs.errors import MissingError
from jobs.leaves import LEAVES
from jobs.options import NAME, SelfChecked
from jobs.spec.job_spec import datastore_uri
from jobs.spec.run_key import key_problems, run_of
from trainer.config import metrics_in
from trainer.export.layout import FACTS, FOLDER, SAVED_MODEL

VERSION_LENGTH: Final = 16

_SIZES: Final = ("examples", "epochs", "steps", "ranks")
_SPEED: Final = ("images_per_second", "training_seconds", "attempts")


@dataclass(frozen=True)
class RegisterOptions(SelfChecked):
    """Register the final model of a run as a version of a model. NAME is the run's key, or the name
    of one of its jobs. prepared/FOLDER instead registers a data set that is in the container of
    prepared data already, such as one that another stack has prepared there.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run, name of the job, or prepared/FOLDER."""

    model: str | None = None
    """Name to register the model under; None is the preset that the run was started with."""

    def problems(self) -> list[str]:
        """Return which names are invalid."""
        problems = [] if self.folder else key_problems(self.run)
        if not self.folder and self.model is not None and not re.fullmatch(NAME, self.model):
            problems.append(f"--model: {self.model!r} must be letters, digits, '_' and '-'")
        return problems

    @property
    def run(self) -> str:
        """Key of the run."""
        return run_of(self.name)

    @property
    def folder(self) -> str:
        """Folder of a prepared data set; empty for a run."""
        container, _, folder = self.name.partition("/")
        return folder.strip("/") if container == "prepared" else ""


@dataclass(frozen=True)
class TrainedRun:
    """Files of a completed run, as the trainer wrote them."""

    config: Mapping[str, Any]
    result: Mapping[str, Any]
    facts: Mapping[str, Any]
    digest: str
    """SHA-256 of the export's facts file."""
    written: datetime
    """Time at which the result was written."""
    stated: Mapping[str, str] = field(default_factory=dict)
    """Properties of leaves."""


def run(options: RegisterOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Register a model or a data set, and print its name.

    Raises:
        UserError: The run has not completed, or has no exported model; or the data set is
            incomplete.
    """
    if options.folder:
        return _register_data_set(options, outputs, as_json=as_json)
    options.check(())
    workspace = connect(outputs)
    trained = _read(workspace.storage, options.run)
    code = code_of(workspace.jobs.attempts(options.run), trained.written)
    model = describe(options, outputs, trained, code)
    new = not models.is_registered(workspace.manager, model)
    if new:
        _copy(workspace.storage, options.run, model)
        models.register(workspace.manager, model)
    answer = {
        "model": model.reference,
        "new": new,
        "uri": model.uri,
        "tags": dict(model.tags),
        "properties": dict(model.properties),
    }
    state = "registered" if new else "already registered"
    Console(as_json=as_json).answer(answer, f"{model.reference}: {state}, {model.uri}")
    return 0


def _register_data_set(options: RegisterOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    if options.model is not None:
        raise ConfigError([f"--model: {options.name} is a data set and no run; leave it out"])
    workspace = connect(outputs)
    data_set = register_prepared(workspace.manager, workspace.storage, options.folder)
    answer = {"data": data_set.reference, "uri": data_set.uri, "tags": dict(data_set.tags)}
    Console(as_json=as_json).answer(answer, f"{data_set.reference}: registered, {data_set.uri}")
    return 0


def describe(
    options: RegisterOptions, outputs: PlatformOutputs, trained: TrainedRun, code: str | None
) -> Model:
    """Describe the model to register. Pure.

    Raises:
        UserError: The export is not from the run's last step, there is no valid name, or a file of
            the run has another form than the trainer writes.
    """
    try:
        return _described(options, outputs, trained, code)
    except (LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"run {options.run}: a file in its folder has another form than the trainer writes"
            f" ({error!r}); submit the run again under the same name"
        ) from error


def _described(
    options: RegisterOptions, outputs: PlatformOutputs, trained: TrainedRun, code: str | None
) -> Model:
    run, steps, step = options.run, trained.result["steps"], trained.facts["step"]
    # The result of a run that evaluations end is that of its best weights.
    of = trained.result.get("evaluated_step", steps)
    if step != of:
        raise UserError(
            f"run {run}: its exported model is from step {step}, but its result is that of step"
            f" {of}; submit it again under the same name to export those weights"
        )
    name = options.model or str(trained.config["config"]["preset"])
    result = trained.result
    keys = (*(metric.key for metric in metrics_in(result)), *_SIZES)
    metrics = {key: str(result[key]) for key in keys if result.get(key) is not None}
    speed = {key: str(result[key]) for key in _SPEED if result.get(key) is not None}
    versions = {
        "data_version": str(trained.facts["data_version"]),
        "code_version": str(trained.facts["code_version"]),
        **({} if code is None else {"code": code}),
    }
    version = hashlib.sha256(run.encode()).hexdigest()[:VERSION_LENGTH]
    folder = models.folder_of(name, version)
    return Model(
        name=name,
        version=version,
        uri=datastore_uri(outputs.datastores.results.name, folder),
        description=f"SavedModel of run {run} after {steps} steps",
        tags={"run": run, **metrics, **versions},
        properties={
            "run": run,
            EXPORT: trained.digest,
            **metrics,
            **speed,
            **versions,
            **trained.stated,
        },
    )


def code_of(jobs: Sequence[Job], written: datetime) -> str | None:
    """Return the digest of the code of the attempt that completed a run. Pure.

    Args:
        jobs: Attempts of the run, oldest first.
        written: Time at which the result was written; attempts created later found it there.
    """
    # Storage reports whole seconds.
    before = [job for job in jobs if job.created and job.created.replace(microsecond=0) <= written]
    return before[-1].tags.get("code") if before else None


def _read(storage: Storage, run: str) -> TrainedRun:
    store = storage.datastores.results
    client = storage.container(store)
    folder = results.run_folder(run)
    with storage.errors(store):
        config = read_small(client, f"{folder}/config.json")
        result = read_small(client, f"{folder}/{results.RESULT}")
        written = None
        if result is not None:
            blob = client.get_blob_client(f"{folder}/{results.RESULT}")
            written = blob.get_blob_properties().last_modified
        facts = read_small(client, f"{folder}/{FOLDER}/{FACTS}")
        graph = client.get_blob_client(f"{folder}/{FOLDER}/{SAVED_MODEL}/saved_model.pb").exists()
        stated = [load(leaf.about_model)(client, folder) for leaf in LEAVES if leaf.about_model]
    if config is None:
        raise MissingError(
            f"run {run}: there is no folder {folder} in container {store.container} of"
            f" {store.account}; `python -m jobs status` shows the runs"
        )
    if result is None or written is None:
        raise UserError(
            f"run {run}: has not completed; `python -m jobs follow {run} --supervise` follows it to"
            " its end"
        )
    if facts is None or not graph:
        raise UserError(
            f"run {run}: has no exported model; submit it again under the same name with"
            " --export True to export its final weights without further training"
        )
    try:
        return TrainedRun(
            config=json.loads(config),
            result=json.loads(result),
            facts=json.loads(facts),
            digest=hashlib.sha256(facts).hexdigest(),
            written=written,
            stated={key: value for properties in stated for key, value in properties.items()},
        )
    except ValueError as error:
        raise UserError(f"run {run}: a file in its folder is not JSON ({error})") from error


def _copy(storage: Storage, run: str, model: Model) -> None:
    """Copy the export to the model's folder, which nothing else writes.

    Raises:
        UserError: The export changed during the copy.
    """
    store = storage.datastores.results
    client = storage.container(store)
    with storage.errors(store, writing=True):
        models.copy(client, f"{results.run_folder(run)}/{FOLDER}", model.folder)
        facts = read_small(client, f"{model.folder}/{FACTS}")
    if facts is None or hashlib.sha256(facts).hexdigest() != model.properties[EXPORT]:
        raise UserError(
            f"run {run}: was exported again during the copy, so nothing was registered; run the"
            " same command again"
        )
