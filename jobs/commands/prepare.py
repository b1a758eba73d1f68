"""`python -m jobs prepare`: convert raw images into shards, as a job on the preparation cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from common.annotations import Positional
from common.arguments import parse
from common.errors import ConfigError
from infra.outputs import PlatformOutputs
from jobs.azure.workspace import connect
from jobs.commands.launch import LaunchOptions, launch_work
from jobs.console import Console
from jobs.options import PreparationOptions
from jobs.spec import kinds
from jobs.spec.builder import SoftwareVersions
from jobs.spec.job_spec import JobSpec
from jobs.spec.run_key import RunAttempt
from trainer.options import PrepareFolderOptions, PrepareImagenetOptions

_OPTIONS: Final[Mapping[str, type[PrepareFolderOptions | PrepareImagenetOptions]]] = {
    "folder": PrepareFolderOptions,
    "imagenet": PrepareImagenetOptions,
}


@dataclass(frozen=True)
class PrepareOptions(LaunchOptions):
    """Convert raw images into a data set as a job on the preparation cluster: python -m jobs
    prepare {imagenet, folder} --raw FOLDER --prepared FOLDER [options] [-- options of the
    preparation]. `ml-trainer prepare imagenet --help` lists the latter; they name files in
    the raw folder.
    """

    what: Annotated[str, Positional("folder|imagenet")] = ""
    """What to prepare."""

    raw: str = ""
    """Folder to read in the container of raw data."""

    prepared: str = ""
    """Folder to write in the container of prepared data."""

    cluster: str | None = None
    """Cluster to run on, with the duty prepare; None is preparation, or the only one."""

    def check(self, program: tuple[str, ...]) -> None:
        """Check the options together with those of the preparation.

        Raises:
            ConfigError: They are invalid.
        """
        super().check(program)
        self.preparation(program)
        PreparationOptions(self.raw, self.prepared)

    def preparation(
        self, program: tuple[str, ...]
    ) -> PrepareFolderOptions | PrepareImagenetOptions:
        """Return the options of the preparation.

        Raises:
            ConfigError: They are invalid, or it is not named.
        """
        if self.what not in _OPTIONS:
            raise ConfigError(
                [
                    f"prepare: the first argument must be {' or '.join(_OPTIONS)}, not"
                    f" {self.what!r}; prepare other data on your machine (`ml-trainer"
                    " prepare` lists the kinds) and `upload` it"
                ]
            )
        return parse(_OPTIONS[self.what](), f"prepare {self.what}", program)


def run(
    options: PrepareOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Submit a preparation, follow it to its end, and register its data set."""
    preparation = options.preparation(program)
    folders = PreparationOptions(options.raw, options.prepared)

    def make(attempt: RunAttempt, software: SoftwareVersions) -> JobSpec:
        return kinds.prepare(outputs, preparation, folders, options.job, attempt, software)

    console, workspace = Console(as_json=as_json), connect(outputs)
    return launch_work(options, outputs, workspace, console, f"prepare-{options.what}", make)
