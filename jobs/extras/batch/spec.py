"""The job that scores in batch, built from outputs and options. Pure."""

import re
from dataclasses import dataclass, replace
from typing import Final

from common import fields
from common.errors import ConfigError
from infra.outputs import PlatformOutputs
from jobs.options import ASSET, FOLDER, JobOptions
from jobs.spec import environment_variables
from jobs.spec.builder import JobBuilder, SoftwareVersions
from jobs.spec.job_spec import Folder, JobSpec, datastore_uri
from jobs.spec.run_key import RunAttempt
from trainer.options import ScoreOptions

_MODEL: Final = "model"
_IMAGES: Final = "images"
_SCORES: Final = "scores"


@dataclass(frozen=True)
class BatchOptions:
    """The model and folders of a scoring in batch."""

    model: str = ""
    """MODEL:VERSION of a registered model."""

    input: str = ""
    """Folder of the images after the container, raw or prepared."""

    output: str = ""
    """Folder to write in the container of prepared data, below scores/."""

    def __post_init__(self) -> None:
        container, _, images = self.input.partition("/")
        problems = fields.problems(self)
        if not re.fullmatch(ASSET, self.model):
            problems.append(f"MODEL: {self.model!r} must be NAME:VERSION of a registered model")
        if container not in ("raw", "prepared") or not re.fullmatch(FOLDER, images):
            problems.append(
                f"--input: {self.input!r} must be raw/FOLDER or prepared/FOLDER, such as raw/photos"
            )
        if not re.fullmatch(f"scores/{FOLDER}", self.output):
            problems.append(f"--output: {self.output!r} must be scores/NAME, such as scores/photos")
        if problems:
            raise ConfigError(problems)


def score(
    outputs: PlatformOutputs,
    what: ScoreOptions,
    folders: BatchOptions,
    model: str,
    options: JobOptions,
    attempt: RunAttempt,
    software: SoftwareVersions,
) -> JobSpec:
    """Build a job that writes the classes of images to files, as one process on each node of a
    cluster whose jobs may write prepared data; each process uses all cores of its node.

    Args:
        outputs: Outputs of the stack.
        what: Options of `ml-trainer score`; those that name the model, folders and parts
            follow from the job.
        folders: The registered model, the images and the folder to write.
        model: Folder of the model in the container of results.
        options: How the job is run.
        attempt: Attempt of the run; a later attempt resumes where the last one ended.
        software: Versions of images and code.
    """
    builder = JobBuilder("score", outputs, options, attempt, software)
    own = {"run", "model", "input", "output", "part", "parts", "with_"}
    given = sorted(name for name in own if getattr(what, name) != getattr(ScoreOptions(), name))
    builder.problems += [
        f"--{name.rstrip('_')}: follows from the job; omit it after the '--'" for name in given
    ]
    if what.names == "hashed" or what.name_key:
        builder.problems.append(
            "--names: hashed names and their key stay on your own machine; score the images there"
        )
    words = fields.to_flags(
        replace(
            what,
            model=f"${{{{inputs.{_MODEL}}}}}",
            input=f"${{{{inputs.{_IMAGES}}}}}",
            output=f"${{{{outputs.{_SCORES}}}}}",
        ),
        ScoreOptions(),
    )
    stores = outputs.datastores
    container, _, images = folders.input.partition("/")
    store = {"raw": stores.raw, "prepared": stores.prepared}[container]
    builder.inputs[_MODEL] = Folder(datastore_uri(stores.results.name, model), "download")
    builder.inputs[_IMAGES] = Folder(datastore_uri(store.name, images), "ro_mount")
    builder.written[_SCORES] = Folder(
        datastore_uri(stores.prepared.name, folders.output), "rw_mount"
    )
    builder.tags |= {"model": folders.model, "data": folders.input, "scores": folders.output}
    builder.variables |= environment_variables.of_shared_output()
    return builder.build(["trainer", "score", *words], 1 if options.nodes > 1 else None)
