"""`python -m jobs score-batch`: the classes of all images in a folder of storage, as a job."""

import json
from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Positional
from common.arguments import parse
from infra.outputs import MODELS_FOLDER, PlatformOutputs
from jobs.assets import models
from jobs.azure.job_records import Job
from jobs.azure.workspace import Workspace, connect
from jobs.commands.launch import LaunchOptions, launch_work
from jobs.console import Console
from jobs.errors import AccessError, SpecError, UnreachableError
from jobs.extras.batch.spec import BatchOptions, score
from jobs.leaf import OutputEntry
from jobs.spec.builder import SoftwareVersions
from jobs.spec.job_spec import JobSpec
from jobs.spec.run_key import RunAttempt
from trainer.options import ScoreOptions


@dataclass(frozen=True)
class ScoreBatchOptions(LaunchOptions):
    """Write the classes of all images in a folder of storage to files, with a registered model, as
    a job on the preparation cluster: python -m jobs score-batch MODEL:VERSION --input raw/FOLDER
    --output scores/NAME [options] [-- options of `trainer score`, such as --format csv]. A node
    that is taken costs each of its processes one file; the job is submitted again, and skips files
    that are written. The same command with the key of the run as --name does that as well.
    """

    model: Annotated[str, Positional("MODEL:VERSION")] = ""
    """Registered model; `register` prints its name and version."""

    input: str = ""
    """Folder of the images: raw/FOLDER or prepared/FOLDER, after the container."""

    output: str = ""
    """Folder to write, scores/NAME in the container of prepared data."""

    cluster: str | None = None
    """Cluster to run on, with the duty prepare; None is preparation, or the only one."""

    nodes: Annotated[int, Bounds(at_least=1)] = 1
    """Number of nodes, which share the files."""

    def check(self, program: tuple[str, ...]) -> None:
        """Check the options together with those of the scoring.

        Raises:
            ConfigError: They are invalid.
        """
        super().check(program)
        BatchOptions(self.model, self.input, self.output)
        parse(ScoreOptions(), "score", program)


def run(
    options: ScoreBatchOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Submit the job and follow it to its end.

    Raises:
        UserError: The model or an option is not fit for it.
    """
    folders = BatchOptions(options.model, options.input, options.output)
    scoring = parse(ScoreOptions(), "score", program)
    console, workspace = Console(as_json=as_json), connect(outputs)
    name, version = options.model.split(":")
    folder = models.locate(workspace.manager, outputs.datastores.results, name, version)
    _check_model(workspace, options.model, folder, console)

    def make(attempt: RunAttempt, software: SoftwareVersions) -> JobSpec:
        return score(outputs, scoring, folders, folder, options.job, attempt, software)

    return launch_work(options, outputs, workspace, console, "score", make)


def completed(workspace: Workspace, job: Job) -> OutputEntry:  # noqa: ARG001
    """Say where the files of a completed job are."""
    folder = job.tags["scores"]
    return OutputEntry(
        "scores", folder, (f"its files are in {folder} of the container of prepared data",)
    )


def _check_model(workspace: Workspace, model: str, folder: str, console: Console) -> None:
    """Check that such a job may read a model, and that it gives classes; the latter only if the
    user may read it as well.

    Raises:
        SpecError: One of them is not so.
    """
    if not folder.startswith(f"{MODELS_FOLDER}/"):
        raise SpecError(
            [
                f"MODEL: {model} lies in {folder}, but such jobs read models below {MODELS_FOLDER}/"
                " alone; register the run with `python -m jobs register`"
            ]
        )
    store = workspace.storage.datastores.results
    try:
        json.loads(workspace.storage.read(store, f"{folder}/export.json") or b"{}")
    except (AccessError, UnreachableError) as error:
        console.note(
            f"{model}: whether its export is complete cannot be checked from here:"
            f" {str(error).splitlines()[0]}"
        )
        return
    except ValueError as error:
        broken = f"MODEL: {model}: {folder}/export.json is broken ({error}); register the run again"
        raise SpecError([broken]) from error
