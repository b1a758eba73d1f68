"""`python -m jobs up` and `preview`: Pulumi's own, with what is missing said before they begin."""

from dataclasses import dataclass

from common.errors import INTERRUPTED, UserError
from jobs.console import Console, next_command
from jobs.errors import LockedError, NotDeployedError, PlatformReadError
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.stack_outputs import read_outputs
from jobs.pulumi.state import replaced_clusters
from jobs.spec.from_options import REPOSITORY


@dataclass(frozen=True)
class UpOptions:
    """Deploy the platform of a stack, or what has changed of it; it is shown first."""

    yes: bool = False
    """Do not ask."""

    refresh: bool = False
    """Compare with Azure first, so that what is gone there is made again."""


@dataclass(frozen=True)
class PreviewOptions:
    """Show what deploying would change, and change nothing."""


def run(options: UpOptions | PreviewOptions, *, as_json: bool, stack: str | None) -> int:
    """Run Pulumi in the terminal.

    Args:
        options: of the command.
        as_json: whether a program reads the answer.
        stack: its name.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: Pulumi lacks something, or has not done it.
    """
    console, name = Console(as_json=as_json), stack or "dev"
    pulumi = Pulumi(REPOSITORY, name)
    try:
        pulumi.check()
    except NotDeployedError as error:
        raise NotDeployedError(
            f"stack {name}: is not there yet; make it once, with where its secrets are kept:"
            f" `pulumi stack init {name} --secrets-provider ...`"
        ) from error
    if isinstance(options, PreviewOptions):
        pulumi.preview(as_json=as_json)
        return 0
    try:
        pulumi.up(yes=options.yes, refresh=options.refresh, as_json=as_json)
    except KeyboardInterrupt:
        console.note(
            "interrupted; to go on, give the same command again: what is made already is not made"
            " twice"
        )
        return INTERRUPTED
    except LockedError:
        raise
    except UserError as error:
        raise UserError(f"{error}{_advice(pulumi)}") from error
    outputs = read_outputs(REPOSITORY, name, None)
    console.answer(
        {"stack": name, "workspace": outputs.workspace},
        f"stack {name}: workspace {outputs.workspace} in {outputs.resource_group};"
        f" `python -m jobs preflight --stack {name}` looks whether a training could start",
    )
    return 0


def _advice(pulumi: Pulumi) -> str:
    """What to do if Azure has refused to delete a cluster that is to be made anew."""
    try:
        planned = read_outputs(REPOSITORY, pulumi.stack, None)
    except PlatformReadError:
        return ""
    again = next_command("up", "--refresh", "True")
    lines = [
        f"\nIf Azure refused to delete cluster {name}, it can be done by"
        f" `{next_command('teardown', '--cluster', name)}`, and then `{again}`"
        for name in replaced_clusters(pulumi.resources(), planned)
    ]
    return "".join(lines)
