"""A program with several commands, each a row of a table.

A row names its options and what runs it as texts, so that only the modules of the command that runs
are imported: some need libraries that take seconds. The page that lists the commands is not tyro's:
that has no place for groups, examples and exit statuses.
"""

import difflib
import gc
import importlib
import io
import os
import select
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from common.errors import INTERRUPTED, PIPE_CLOSED, ConfigError, UserError

ROOT: Final = Path(__file__).resolve().parents[1]
"""Folder of the repository, or of its copy in an image."""


class UnknownCommandError(UserError):
    """The command line names no command."""

    exit_code = ConfigError.exit_code


class MissingPackageError(UserError):
    """Another Python than that of the program's environment runs it, and lacks a package."""


@dataclass(frozen=True)
class Command:
    """A command of a program."""

    name: str
    """Words that follow the program's name; two words form a subcommand, such as prepare folder."""
    group: str
    """Heading that the help lists it under."""
    summary: str
    """One sentence of the help, without a full stop."""
    run: str
    """MODULE:FUNCTION that runs it."""
    options: str = ""
    """MODULE:CLASS of its options, a frozen dataclass; importing it must be cheap. Empty if `run`
    takes the arguments as they are."""
    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Former names, which still work for a version, each with the options that it stands for."""

    def load_run(self) -> Callable[..., Any]:
        """Import what runs the command."""
        run: Callable[..., Any] = load(self.run)
        return run

    def load_options(self) -> type:
        """Import the class of the command's options."""
        options: type = load(self.options)
        return options


def load(path: str) -> Any:
    """Import an object by MODULE:NAME.

    The garbage collector is off meanwhile: imported modules stay, and searching them for garbage
    takes a sixth of the import of TensorFlow, and a quarter of that of Azure's SDK.
    """
    module, _, name = path.partition(":")
    with _without_collection():
        return getattr(importlib.import_module(module), name)


@contextmanager
def _without_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def installed(script: str) -> str:
    """Return the word with which a shell in the current folder starts a script that is installed
    with this Python: its name where its environment is activated, otherwise the path.
    """
    path, on_path = Path(sys.executable).parent / script, shutil.which(script)
    if not path.is_file() or (on_path and Path(on_path).parent == path.parent):
        return script
    return _from_here(path)


def _from_here(path: Path) -> str:
    """Return a path as it is from the current folder, if that contains it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


@dataclass(frozen=True)
class Program:
    """A program: `python -m NAME COMMAND`, or the script that is installed for it."""

    name: str
    commands: Sequence[Command]
    groups: Sequence[str]
    """Headings of the help, in order."""
    synopsis: str
    """What follows the program's name in the first line of the help."""
    notes: str
    """The end of the help: options of every command, exit statuses."""
    environment: str = ""
    """Folder of the repository that `make` installs the program's packages into."""
    setup: str = "setup"
    """Target of make that does it."""
    script: str = ""
    """Script that starts it where it is installed; empty if there is none."""
    gone: Mapping[str, str] = field(default_factory=dict)
    """Commands of earlier versions, each with the last version that had it and what to use."""

    @property
    def words(self) -> str:
        """The words before a command."""
        return self.script or f"python -m {self.name}"

    @property
    def usage(self) -> str:
        """The help: all commands by group."""
        lines = [f"usage: {self.words} {self.synopsis}", ""]
        width = max(len(command.name) for command in self.commands) + 2
        for group in self.groups:
            lines.append(f"{group}:")
            for command in self.commands:
                if command.group == group:
                    first, *rest = textwrap.wrap(
                        command.summary, 96 - width, break_on_hyphens=False
                    )
                    lines.append(f"  {command.name:<{width}}{first}")
                    lines += [" " * (width + 2) + line for line in rest]
            lines.append("")
        return "\n".join([*lines, self.notes.strip(), ""])

    def _kinds(self, first: str) -> str:
        """The commands that begin with a word, with their summaries."""
        kinds = {
            command.name: command.summary
            for command in self.commands
            if command.name.startswith(f"{first} ")
        }
        width = max(map(len, kinds)) + 2
        return "\n".join(
            [
                f"usage: {self.words} {first} KIND [options], with one of the kinds",
                *(f"  {name:<{width}}{summary}" for name, summary in kinds.items()),
                f"`{self.words} {next(iter(kinds))} --help` lists the options of one\n",
            ]
        )

    def find(self, args: Sequence[str]) -> tuple[Command, list[str]] | None:
        """Find the command that a command line begins with.

        Returns:
            The command and the arguments after it, or None.
        """
        names = {command.name: command for command in self.commands}
        former = {name: command for command in self.commands for name in command.former}
        for words in (2, 1):
            name, rest = " ".join(args[:words]), list(args[words:])
            if name in names:
                return names[name], rest
            if name in former:
                renamed = former[name]
                now = " ".join([self.words, renamed.name, *map(shlex.quote, renamed.former[name])])
                print(f"note: {name} is now `{now}`", file=sys.stderr)
                return renamed, [*renamed.former[name], *rest]
        return None

    def main(self, argv: Sequence[str] | None, run: Callable[[Command, list[str]], int]) -> int:
        """Find and run a command as `run` does; print user errors without a traceback."""
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            # As for stderr: the name of a file need not be UTF-8.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            try:
                status = self.run(argv, run)
            except SystemExit:
                # A help of one command has been printed.
                _flush()
                raise
            _flush()
        except REPORTED as error:
            return report(error)
        except ModuleNotFoundError as error:
            advice = self._missing(error)
            if advice is None:
                raise
            return report(advice)
        except Exception as error:
            # Only a program that uses databases has loaded their module.
            databases = sys.modules.get("sqlite3")
            if databases is None or not isinstance(error, databases.OperationalError):
                raise
            # Other codes, or none, are errors of the program, such as wrong SQL.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in {
                databases.SQLITE_FULL, databases.SQLITE_IOERR, databases.SQLITE_CANTOPEN,
                databases.SQLITE_READONLY,
            }:  # fmt: skip
                raise
            return report(
                UserError(
                    f"a database for this command cannot be written or read ({error}); free space"
                    " where the command writes and in the folder of temporary files, or set TMPDIR"
                    " to another one"
                )
            )
        return status

    def _missing(self, error: ModuleNotFoundError) -> MissingPackageError | None:
        """Return what to do about a missing package if it may be in the program's environment, and
        another Python is running. None is an error of the code, or an image, which needs no setup.
        """
        folder = ROOT / self.environment
        package = (error.name or "").partition(".")[0]
        ours = not package or (ROOT / package).is_dir()
        if not self.environment or ours or not (ROOT / "Makefile").is_file():
            return None
        python = folder / "bin" / "python"
        remedy = f"run the command with {_from_here(python)}"
        if not python.exists():
            remedy = f"run `make {self.setup}` once; afterwards {remedy}"
        elif folder.samefile(sys.prefix):
            return None
        return MissingPackageError(
            f"{sys.executable}: this Python lacks the package {package}; {remedy}"
        )

    def run(self, argv: Sequence[str] | None, run: Callable[[Command, list[str]], int]) -> int:
        """Find and run a command; without one, or with --help, print the help.

        Args:
            argv: Arguments of the program; None is those of this process.
            run: Runs a command with the arguments after it.

        Returns:
            Exit status.

        Raises:
            UnknownCommandError: There is no such command; names the nearest one.
        """
        args = list(sys.argv[1:] if argv is None else argv)
        call = self.find(args)
        if call is not None:
            return run(*call)
        names = [command.name for command in self.commands]
        grouped = bool(args) and any(name.startswith(f"{args[0]} ") for name in names)
        rest = args[1:] if grouped else args
        if grouped and not rest:
            print(self._kinds(args[0]), end="", file=sys.stderr)
            return ConfigError.exit_code
        if not rest:
            print(self.usage, end="", file=sys.stderr)
            return ConfigError.exit_code
        if rest[0] in ("-h", "--help"):
            print(self._kinds(args[0]) if grouped else self.usage, end="")
            return 0
        asked = " ".join(args[: 2 if grouped else 1])
        if asked in self.gone:
            raise UnknownCommandError(f"{asked}: {self.gone[asked]}")
        near = difflib.get_close_matches(asked, names, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UnknownCommandError(
            f"unknown command {asked!r}{meant}\n`{self.words} --help` lists the commands"
        )


REPORTED: Final = (UserError, OSError, KeyboardInterrupt)
"""Exceptions that are printed without a traceback."""


def report(error: BaseException) -> int:
    """Print one of the `REPORTED` exceptions, and return the exit status for it.

    If the reader of stdout is gone, as with `| head`, nothing is printed.
    """
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        # Discard the output that is still buffered, so that the interpreter also exits without an
        # error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    print(f"error: {error}", file=sys.stderr)
    return error.exit_code if isinstance(error, UserError) else UserError.exit_code


def _flush() -> None:
    """Write the buffered output, as a closed pipe cannot be handled while the interpreter exits."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _reader_is_gone() -> bool:
    """Return whether stdout is a pipe that nothing reads; other pipes and sockets break, too."""
    watched = select.poll()
    try:
        watched.register(sys.stdout, 0)
    except (TypeError, ValueError):
        # There is no stdout, or it is not a file.
        return False
    return any(event & select.POLLERR for _, event in watched.poll(0))
