"""The command line of Pulumi, as far as a platform needs it: the one way to the engine."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from common.errors import UserError
from jobs.errors import (
    LockedError,
    NotDeployedError,
    PendingOperationsError,
    PlatformReadError,
    PulumiMissingError,
)
from jobs.pulumi.state import StackResource, pending_creations, resources

OUTPUT: Final = "platform"
"""Name of the stack output."""

READ_SECONDS: Final = 300
"""That Pulumi may take to read a state."""
_STDERR: Final = 2
"""Descriptor; stdout is for the answer."""
_LOOK_SECONDS: Final = 0.1
"""Between two looks at what a watched command says on stderr."""
_CHUNK: Final = 1 << 16
_LOCKED: Final = ("the stack is currently locked", "another update is currently in progress")
"""What Pulumi says when somebody else works on the stack, or was killed; in lower case."""

_CAUSES: Final = (
    (
        ("no stack named", "no such stack"),
        NotDeployedError,
        "there is no stack {stack}; `pulumi stack ls` lists those of this backend, and"
        " `make up STACK={stack}` deploys it",
    ),
    (
        ("passphrase", "incorrect secret", "failed to decrypt"),
        PlatformReadError,
        "the state is encrypted; give PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE in"
        " the environment, or sign in to the key that encrypts it",
    ),
    (
        ("pulumi login", "not logged in", "access token", "pulumi_access_token", "unauthorized"),
        PlatformReadError,
        "run `pulumi login` with the address of the team's state",
    ),
    (
        ("does not have output property", "no output property", "current stack has no output"),
        NotDeployedError,
        "the stack {stack} has never been deployed to its end; run `make up STACK={stack}`",
    ),
)
"""What Pulumi says, in lower case, which error it is and what to do about it."""

_Read = TypeVar("_Read")


class Pulumi:
    """One stack.

    Args:
        repository: folder of Pulumi.yaml.
        stack: its name.
    """

    def __init__(self, repository: Path, stack: str) -> None:
        self._repository, self.stack = repository, stack

    def outputs(self) -> Any:
        """The stack output `platform`.

        Raises:
            NotDeployedError: the stack exports nothing.
            PlatformReadError: it cannot be read, with what to do.
        """
        return self._ask("stack", "output", OUTPUT, "--json")

    def resources(self) -> list[StackResource]:
        """What the state says is deployed; nothing where there is no such stack.

        Raises:
            PlatformReadError: the state cannot be read.
        """
        try:
            return self._read_state(resources)
        except NotDeployedError:
            return []

    def check(self) -> None:
        """Whether the stack can be worked on.

        Raises:
            NotDeployedError: there is no such stack.
            PlatformReadError: its state cannot be read, with what to do.
            PendingOperationsError: a deployment goes on, or was killed and must be cleared up
                after.
        """
        names = self._read_state(pending_creations)
        if names:
            raise PendingOperationsError(
                f"stack {self.stack}: a deployment makes {', '.join(names)} at this moment, or was"
                " killed while it did, and then Pulumi cannot know whether Azure has it; nothing"
                " was changed. Wait for who is at it. Only if nobody is, let Pulumi forget the"
                " attempt, and give the same command again:\n"
                f"  pulumi cancel --yes --stack {self.stack}\n"
                f"  pulumi refresh --yes --clear-pending-creates --stack {self.stack}\n"
                "If Pulumi then says 'cannot create already existing resource', Azure has made it"
                " all the same: delete it (`az resource delete --ids ID`), as nothing uses it yet"
            )

    def destroy(self) -> None:
        """Delete everything that the state knows, after comparing it with what is there.

        Its words go to stderr. Ctrl-C reaches Pulumi as well, which ends what it has begun; a
        second one makes it stop at once.

        Raises:
            UserError: not all of it could be deleted.
            KeyboardInterrupt: Pulumi has ended after Ctrl-C.
        """
        self._attended("destroy", "--refresh", "--yes", "--non-interactive", asks=False)

    def up(self, *, yes: bool, refresh: bool, as_json: bool) -> None:
        """Deploy; Pulumi shows what would change, and asks before it does it.

        Args:
            yes: whether it does not ask.
            refresh: whether what is there is compared with the state before.
            as_json: whether its words go to stderr, as stdout is for a program.

        Raises:
            UserError: it ended otherwise than well.
            KeyboardInterrupt: it has ended after Ctrl-C.
        """
        options = ["--refresh"] if refresh else []
        options += ["--yes", "--non-interactive"] if yes else []
        self._attended("up", *options, asks=not yes, quiet=as_json)

    def preview(self, *, as_json: bool) -> None:
        """Show what `up` would change; to a program by Pulumi's own document on stdout.

        Raises:
            UserError: it ended otherwise than well.
            KeyboardInterrupt: it has ended after Ctrl-C.
        """
        shown = "--json" if as_json else "--diff"
        self._attended("preview", shown, "--non-interactive", asks=False, quiet=False)

    def _read_state(self, look: Callable[[dict[str, Any]], _Read]) -> _Read:
        try:
            return look(self._ask("stack", "export"))
        except (KeyError, TypeError, AttributeError) as error:
            raise PlatformReadError(
                f"pulumi: the state of the stack {self.stack} is not as expected ({error!r})"
            ) from error

    def _ask(self, *words: str) -> Any:
        """What a command answers in JSON."""
        command = [self._program(), *words, "--stack", self.stack, "--non-interactive"]
        try:
            ended = subprocess.run(
                command,
                cwd=self._repository,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=READ_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PlatformReadError(
                f"pulumi: has not read the stack {self.stack} in {READ_SECONDS} s; look at the"
                " network, and whether the place of its state answers (`pulumi whoami -v`)"
            ) from error
        except OSError as error:
            raise PlatformReadError(f"{command[0]}: cannot be run ({error.strerror})") from error
        if ended.returncode != 0:
            raise _cause(ended.stderr or ended.stdout, self.stack)
        try:
            return json.loads(ended.stdout)
        except ValueError as error:
            shown = f"pulumi {' '.join(words)} --stack {self.stack}"
            raise PlatformReadError(
                f"pulumi: its answer for the stack {self.stack} is not JSON ({error}); look at what"
                f" `{shown}` prints"
            ) from error

    def _attended(self, command: str, *options: str, asks: bool, quiet: bool = True) -> None:
        """Run a command that a person watches.

        Args:
            command: of Pulumi.
            options: of the command.
            asks: whether Pulumi may ask the person.
            quiet: whether its words go to stderr.
        """
        # A file and no pipe: when this process is killed, Pulumi must not break off its work.
        with tempfile.TemporaryFile() as words:
            process = subprocess.Popen(
                [self._program(), command, *options, "--stack", self.stack],
                cwd=self._repository,
                stdin=None if asks else subprocess.DEVNULL,
                stdout=_STDERR if quiet else None,
                stderr=words,
            )
            status, interrupted = _watched(process, words)
            said = os.pread(words.fileno(), _CHUNK, 0).decode(errors="replace").lower()
        if interrupted:
            raise KeyboardInterrupt
        if status != 0 and any(sign in said for sign in _LOCKED):
            raise LockedError(
                f"stack {self.stack}: is locked, as Pulumi says above: somebody changes it now, or"
                " was killed while doing so. Wait for them; only if nobody is at it, take the lock"
                f" off by `pulumi cancel --stack {self.stack}`, and give the same command again"
            )
        if status != 0:
            raise UserError(
                f"pulumi {command}: ended with status {status}; its words above say why. Give the"
                " same command again when that is mended: what is done already is not done twice"
            )

    def _program(self) -> str:
        program = shutil.which("pulumi")
        if program is None:
            raise PulumiMissingError(
                "pulumi: is not on the path; install its command line"
                " (https://www.pulumi.com/docs/install)"
            )
        return program


def _cause(said: str, stack: str) -> PlatformReadError:
    """The error for one of Pulumi's, with its own words and what to do."""
    words = " ".join(said.split()).removeprefix("error: ")
    lower = words.lower()
    for signs, kind, advice in _CAUSES:
        if any(sign in lower for sign in signs):
            return kind(f"pulumi: {words}\n{advice.format(stack=stack)}")
    return PlatformReadError(f"pulumi: could not read the stack {stack}: {words}")


def _watched(process: subprocess.Popen[bytes], words: IO[bytes]) -> tuple[int, bool]:
    """Wait for a command, and show what it says on stderr meanwhile.

    Ctrl-C reaches the command as well, which ends what it has begun; so it is waited for.

    Returns:
        Its exit status, and whether it was interrupted.
    """
    interrupted, shown = False, 0
    while True:
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_SECONDS)
            while new := os.pread(words.fileno(), _CHUNK, shown):
                shown += os.write(_STDERR, new)
            if process.returncode is not None:
                return process.returncode, interrupted
        except KeyboardInterrupt:
            interrupted = True
