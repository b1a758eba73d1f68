"""`python -m jobs prepare`: convert raw images into shards, as a job on the preparation cluster."""

import secrets
import sys
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Annotated, Literal

from common.annotations import Positional
from common.arguments import parse
from common.errors import INTERRUPTED, UserError
from infra.outputs import PlatformOutputs
from jobs.azure import submission
from jobs.azure.workspace import connect
from jobs.commands.follow import WatchOptions, make_supervisor
from jobs.commands.submit import carry_out, register_image
from jobs.console import Console
from jobs.following.supervision_policy import mark
from jobs.options import AttemptOptions, JobOptions, PreparationOptions
from jobs.spec import from_options, kinds, summary
from jobs.spec.run_key import RunAttempt, new_key
from trainer.options import PrepareFolderOptions, PrepareImagenetOptions

_OPTIONS = {"folder": PrepareFolderOptions, "imagenet": PrepareImagenetOptions}


@dataclass(frozen=True)
class PrepareOptions(AttemptOptions, WatchOptions):
    """Convert raw images into a data set as a job on the preparation cluster: python -m jobs
    prepare {imagenet, folder} --raw FOLDER --prepared FOLDER [options] [-- options of the
    preparation]. `python -m trainer prepare imagenet --help` lists the latter; they name files in
    the raw folder.
    """

    what: Annotated[Literal["folder", "imagenet"] | None, Positional("folder|imagenet")] = None
    """What to prepare."""

    raw: str = ""
    """Folder to read in the container of raw data."""

    prepared: str = ""
    """Folder to write in the container of prepared data."""

    name: str | None = None
    """Key of the run; None is the kind of preparation, the time and random letters. With the key of
    a preparation that has ended, resume that."""

    no_follow: bool = False
    """Exit once the job is submitted."""

    @property
    def job(self) -> JobOptions:
        """Options of the job: one process, on the preparation cluster."""
        return JobOptions(
            cluster="preparation",
            **{field.name: getattr(self, field.name) for field in fields(AttemptOptions)},
        )


def run(
    options: PrepareOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Submit a preparation, follow it to its end, and register its data set."""
    if options.what is None:
        raise UserError(f"prepare: the first argument must be {' or '.join(_OPTIONS)}")
    console, settings = Console(as_json=as_json), options.settings()
    preparation = parse(_OPTIONS[options.what](), f"prepare {options.what}", program)
    folders = PreparationOptions(options.raw, options.prepared)
    key = options.name or new_key(
        f"prepare-{options.what}", datetime.now(UTC), secrets.token_hex(2)
    )
    software, attempt = from_options.read_software(), RunAttempt(key)
    spec = kinds.prepare(outputs, preparation, folders, options.job, attempt, software.versions)
    resubmits = spec.cluster.priority == "LowPriority"
    if resubmits:
        spec = replace(spec, tags={**spec.tags, **mark(options.resubmit)})
    workspace = connect(outputs)
    try:
        if options.name is not None:
            spec = spec.for_attempt(submission.free_attempt(workspace.jobs, attempt))
        submission.look_up(workspace.manager, spec)
        console.say(summary.lines(spec, None, None, None))
        register_image(console, workspace, spec, software)
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was submitted", file=sys.stderr)
        return INTERRUPTED
    supervisor = make_supervisor(
        workspace, outputs, console, settings, options.resubmit, resubmits=resubmits
    )
    return carry_out(workspace, supervisor, spec, software, None, no_follow=options.no_follow)
