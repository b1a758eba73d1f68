"""Ask a person before something is deleted."""

import sys

from common.errors import UserError
from jobs.console import Console


def confirm(name: str, warning: str, console: Console) -> None:
    """Go on only if a person types a name.

    Args:
        name: of what is to be deleted.
        warning: what goes with it.
        console: tells the warning.

    Raises:
        UserError: nobody is there, or something else was typed.
    """
    console.note(warning)
    if not sys.stdin.isatty():
        raise UserError(f"teardown of {name}: nobody is here to be asked; give --yes True")
    print(f"type {name} to delete it: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != name:
        raise UserError(f"teardown of {name}: not confirmed, so nothing was deleted")
