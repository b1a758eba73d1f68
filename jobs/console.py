"""Output of a command (answers to stdout, notes to stderr) and confirmation prompts."""

import json
import shlex
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from common.annotations import Required
from common.errors import UserError

SHOWN: Final = Required("`python -m jobs status` shows the runs")
"""Marks the name of a run, without which a command ends."""

PLATFORM: Final[ContextVar[tuple[str, ...]]] = ContextVar("PLATFORM", default=())
"""Arguments that select the platform of this command, such as --stack prod."""


@dataclass(frozen=True)
class Console:
    """Output of one command."""

    as_json: bool = False
    """Whether stdout carries one JSON document and nothing else."""

    def say(self, text: str) -> None:
        """Print progress: to stdout, or to stderr if stdout carries JSON."""
        print(text, file=sys.stderr if self.as_json else sys.stdout, flush=True)

    def note(self, text: str) -> None:
        """Print a note to stderr."""
        print(text, file=sys.stderr, flush=True)

    def answer(self, document: object, text: str) -> None:
        """Print the result of the command to stdout: the document as JSON, or the text."""
        print(json.dumps(document, indent=1) if self.as_json else text, flush=True)


def next_command(command: str, *arguments: str) -> str:
    """Return the command line of another command for the same platform.

    Args:
        command: Name of the command, such as follow.
        arguments: Arguments of the command, such as the name of a run.
    """
    return shlex.join(["python", "-m", "jobs", command, *arguments, *PLATFORM.get()])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a table whose columns are as wide as their widest cell."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)


def confirm(name: str, warning: str, console: Console) -> None:
    """Ask the user to confirm a deletion by typing a name.

    Raises:
        UserError: stdin is not a terminal, or something else was typed.
    """
    console.note(warning)
    ask(f"type {name} to delete it: ", [name], name, "nothing was deleted")


def ask(prompt: str, accepted: Sequence[str], subject: str, nothing: str) -> None:
    """Ask the user once.

    Args:
        prompt: The question.
        accepted: Answers that confirm.
        subject: First word of the error, such as the name of a command.
        nothing: Clause of the error if the user does not confirm.

    Raises:
        UserError: stdin is not a terminal, or the answer differs.
    """
    if not sys.stdin.isatty():
        raise UserError(
            f"{subject}: cannot ask for confirmation, as stdin is not a terminal; pass --yes"
        )
    print(prompt, end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() not in accepted:
        raise UserError(f"{subject}: not confirmed; {nothing}")


def agree(warning: str, console: Console) -> None:
    """Ask the user once whether to continue with a step that costs money.

    Raises:
        UserError: stdin is not a terminal, or the answer is not yes.
    """
    console.note(warning)
    if not sys.stdin.isatty():
        raise UserError(
            "cannot ask whether to continue, as stdin is not a terminal; pass --yes. Nothing was"
            " submitted"
        )
    print("continue? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("not agreed; nothing was submitted")
