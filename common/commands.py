"""The entry of a program with several commands.

The page that lists the commands is not tyro's: that has no place for examples and exit statuses,
and would import the modules of all commands, some of which take seconds.
"""

import difflib
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Final

from common.errors import INTERRUPTED, ConfigError, UserError


class UnknownCommandError(UserError):
    """The command line names no command."""

    exit_code = ConfigError.exit_code


def run(
    program: str,
    commands: Collection[str],
    usage: str,
    command: Callable[[str, list[str]], int],
    argv: Sequence[str] | None,
) -> int:
    """Find and run a command; without one, or with --help, print the list of the commands.

    Args:
        program: Name of the program, such as trainer.
        commands: Names of the commands. A name may have two words, such as prepare folder.
        usage: List of the commands, with its title.
        command: Runs the command of a name, with the arguments after it.
        argv: Arguments of the program; None is those of this process.

    Returns:
        Exit status.

    Raises:
        UnknownCommandError: There is no such command; names the nearest one.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    for words in (2, 1):
        if (name := " ".join(args[:words])) in commands:
            return command(name, args[words:])
    grouped = any(name.startswith(f"{args[0]} ") for name in commands) if args else False
    rest = args[1:] if grouped else args
    if not rest:
        print(usage, end="", file=sys.stderr)
        return ConfigError.exit_code
    if rest[0] in ("-h", "--help"):
        print(usage, end="")
        return 0
    asked = " ".join(args[: 2 if grouped else 1])
    near = difflib.get_close_matches(asked, commands, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise UnknownCommandError(
        f"unknown command {asked!r}{meant}\n`python -m {program} --help` lists the commands"
    )


REPORTED: Final = (UserError, OSError, KeyboardInterrupt)
"""Exceptions that are printed without a traceback."""


def report(error: BaseException) -> int:
    """Print one of the `REPORTED` exceptions, and return the exit status for it."""
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    print(f"error: {error}", file=sys.stderr)
    return error.exit_code if isinstance(error, UserError) else UserError.exit_code
