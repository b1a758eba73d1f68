"""Where a command's words go: what it was asked for to stdout, the rest to stderr when stdout is
for a program; and what a person is asked.
"""

import json
import shlex
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from common.errors import UserError

PLATFORM: Final[ContextVar[tuple[str, ...]]] = ContextVar("PLATFORM", default=())
"""The options by which this command was told its platform, such as --stack prod."""


@dataclass(frozen=True)
class Console:
    """Output of one command."""

    as_json: bool = False
    """One JSON document on stdout, and nothing else there."""

    def say(self, text: str) -> None:
        """Tell a person."""
        print(text, file=sys.stderr if self.as_json else sys.stdout, flush=True)

    def note(self, text: str) -> None:
        """Tell a person what is no part of an answer."""
        print(text, file=sys.stderr, flush=True)

    def answer(self, document: object, text: str) -> None:
        """Give what the command was asked for: to a program, or in words."""
        print(json.dumps(document, indent=1) if self.as_json else text, flush=True)


def next_command(command: str, *arguments: str) -> str:
    """What a person types next about the same platform.

    Args:
        command: such as follow.
        arguments: of the command, such as the name of a run.
    """
    return shlex.join(["python", "-m", "jobs", command, *arguments, *PLATFORM.get()])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)


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
