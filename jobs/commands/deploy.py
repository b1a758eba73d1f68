"""`python -m jobs up` and `preview`: Pulumi's commands, after a check of what they require."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import INTERRUPTED, UserError
from jobs.console import Console, next_command
from jobs.errors import LockedError, NotDeployedError, PlatformReadError
from jobs.pulumi import prerequisites
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.stack_outputs import read_outputs
from jobs.pulumi.state import StackResource, replaced_clusters
from jobs.spec.from_options import REPOSITORY


@dataclass(frozen=True)
class UpOptions:
    """Deploy the platform of a stack, or the changes to it, after showing them."""

    yes: bool = False
    """Do not ask for confirmation."""

    refresh: bool = False
    """First compare the state with Azure, so that resources deleted there are created again."""


@dataclass(frozen=True)
class PreviewOptions:
    """Show what deploying would change, without changing anything."""


def run(options: UpOptions | PreviewOptions, *, as_json: bool, stack: str | None) -> int:
    """Run Pulumi in the terminal.

    Args:
        options: Options of the command.
        as_json: Whether to print the result as JSON.
        stack: Name of the stack; None is dev.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: A requirement of Pulumi is missing, or Pulumi failed.
    """
    console, name = Console(as_json=as_json), stack or "dev"
    pulumi = Pulumi(REPOSITORY, name)
    try:
        existing = pulumi.check()
    except NotDeployedError as error:
        raise NotDeployedError(
            f"stack {name}: does not exist yet. Create it once with `pulumi stack init {name}"
            " --secrets-provider ...`, and deploy it with `make up"
            f" STACK={name}`"
        ) from error
    require_prerequisites(pulumi, existing, console)
    if isinstance(options, PreviewOptions):
        pulumi.preview(as_json=as_json)
        return 0
    try:
        pulumi.up(yes=options.yes, refresh=options.refresh, as_json=as_json)
    except KeyboardInterrupt:
        console.note(
            "interrupted; run the same command again to continue: what is already deployed is not"
            " deployed twice"
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
        f" `python -m jobs preflight --stack {name}` checks whether a training could start",
    )
    return 0


def require_prerequisites(
    pulumi: Pulumi, existing: Sequence[StackResource], console: Console
) -> None:
    """Ask Azure for what the stack needs, before Pulumi starts.

    Raises:
        UserError: The settings are wrong, or Azure lacks something; nothing was changed.
    """
    checks = list(prerequisites.look(prerequisites.of_stack(pulumi), existing))
    for check in checks:
        if check.text.startswith(prerequisites.NOT_ASKED):
            console.note(f"{check.name}: {check.text}")
    problems = [f"{check.name}: {check.text}" for check in checks if not check.good]
    if problems:
        raise UserError("\n".join([f"stack {pulumi.stack}: nothing was changed", *problems]))


def _advice(pulumi: Pulumi) -> str:
    """Return what to do if Azure refused to delete a cluster that is replaced or removed."""
    try:
        planned = read_outputs(REPOSITORY, pulumi.stack, None)
    except PlatformReadError:
        return ""
    again = next_command("up", "--refresh", "True")
    lines = [
        f"\nIf Azure refused to delete cluster {name}, run"
        f" `{next_command('teardown', '--cluster', name)}`, and then `{again}`"
        for name in replaced_clusters(pulumi.resources(), planned)
    ]
    return "".join(lines)
