"""`python -m jobs drift`: changes in Azure that were made outside of Pulumi."""

from dataclasses import asdict, dataclass
from pathlib import Path

from common import text
from common.files import write_atomically
from jobs.console import Console, next_command
from jobs.exit_status import DRIFT
from jobs.pulumi import changes
from jobs.pulumi.cli import Pulumi
from jobs.spec.from_options import REPOSITORY


@dataclass(frozen=True)
class DriftOptions:
    """Show which resources were changed or deleted outside of Pulumi. Reads Azure, and
    changes nothing, not even Pulumi's state.
    """

    markdown: str | None = None
    """File to write the result to as Markdown, such as a workflow's summary."""


def run(options: DriftOptions, *, as_json: bool, stack: str | None) -> int:
    """Compare a stack with Azure.

    Args:
        options: Options of the command.
        as_json: Whether to print the result as JSON.
        stack: Name of the stack; None is dev.

    Returns:
        Exit status: 0 without drift, otherwise `DRIFT`.

    Raises:
        UserError: The stack cannot be compared with Azure.
    """
    console, name = Console(as_json=as_json), stack or "dev"
    pulumi = Pulumi(REPOSITORY, name)
    count = len(pulumi.check())
    console.note(f"stack {name}: reading {text.plural(count, 'resource')} from Azure")
    drifted = changes.read(pulumi.planned(drift=True))
    if options.markdown is not None:
        write_atomically(Path(options.markdown), changes.drift_markdown(name, drifted))
    console.answer(
        {"stack": name, "drift": [asdict(change) for change in drifted]}, _words(name, drifted)
    )
    return DRIFT if drifted else 0


def _words(stack: str, drifted: list[changes.Change]) -> str:
    if not drifted:
        return f"stack {stack}: no drift"
    again = next_command("up", "--refresh", "True")
    return (
        f"stack {stack}: {text.plural(len(drifted), 'resource')} changed outside of Pulumi\n"
        f"{text.listing(changes.drift_lines(drifted), limit=200)}\n"
        f"`{again}` restores the settings. To keep a change, write it into"
        f" Pulumi.{stack}.yaml first"
    )
