"""The Pulumi CLI, as far as a platform needs it. No other module calls Pulumi."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
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
    UnreadableStateError,
)
from jobs.pulumi.retry_policy import Failure, ended_with_preview, failures
from jobs.pulumi.state import StackResource, pending_creations, resources

OUTPUT: Final = "platform"
"""Name of the stack output."""

READ_SECONDS: Final = 300
"""Seconds that Pulumi may take to read a state."""
_STDERR: Final = 2
"""File descriptor of stderr; stdout is reserved for the result."""
_LOOK_SECONDS: Final = 0.1
"""Seconds between two reads of the stderr of a watched command."""
_CHUNK: Final = 1 << 16
_EVENTS: Final = {"PULUMI_DEBUG_COMMANDS": "true"}
"""Enables the option --event-log, as Pulumi's Automation API does."""
_LOCKED: Final = ("the stack is currently locked", "another update is currently in progress")
"""Pulumi's messages about a locked stack, in lower case."""
_CANCELED: Final = "confirmation cancelled"
"""Pulumi's message about Ctrl-C in its question; it prints none to stderr after a no."""

_BROKEN: Final = ("snapshot integrity", "state repair")
"""Pulumi's messages about a state whose resources do not fit each other, in lower case."""
_REPAIR: Final = (
    "the state of stack {stack} is damaged, as after an interrupted deployment or a full disk of"
    " the backend. Keep a copy, repair it, and run the same command again:"
    "\n  pulumi stack export --stack {stack} --file {stack}-before-repair.json"
    "\n  pulumi state repair --stack {stack}"
)

_CAUSES: Final = (
    (
        ("no stack named", "no such stack"),
        NotDeployedError,
        "there is no stack {stack}; `pulumi stack ls` lists the stacks of this backend. Create it"
        " once with `pulumi stack init {stack} --secrets-provider ...`, and deploy it with `make up"
        " STACK={stack}`",
    ),
    (
        (*_BROKEN, "deserialize", "unmarshal", "unexpected end of json"),
        UnreadableStateError,
        _REPAIR,
    ),
    (
        ("passphrase", "incorrect secret", "failed to decrypt"),
        PlatformReadError,
        "the state is encrypted; set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE in"
        " the environment, or sign in to the service whose key encrypts it",
    ),
    (
        ("pulumi login", "not logged in", "access token", "pulumi_access_token", "unauthorized"),
        PlatformReadError,
        "run `pulumi login` with the address of the team's backend",
    ),
    (
        ("does not have output property", "no output property", "current stack has no output"),
        NotDeployedError,
        "the deployment of stack {stack} has never completed; run `make up STACK={stack}`",
    ),
)
"""Pulumi's messages in lower case, each with the error to raise and what to do about it."""

_RULES: Final = "infra/policies"
"""The policy pack of the security rules."""

_Read = TypeVar("_Read")


class UpdateFailedError(UserError):
    """Pulumi could not do all that a command asked for."""

    def __init__(self, message: str, failed: Sequence[Failure]) -> None:
        super().__init__(message)
        self.failed = failed
        """Errors that Pulumi reported; empty if it failed without."""


class BrokenStateError(UserError):
    """Pulumi refuses to work with the state of the stack."""


class DeclinedError(UserError):
    """The user did not confirm what Pulumi asked."""


class Pulumi:
    """The Pulumi CLI for one stack.

    Args:
        repository: Folder of Pulumi.yaml.
        stack: Name of the stack.
    """

    def __init__(self, repository: Path, stack: str) -> None:
        self._repository, self.stack = repository, stack

    def outputs(self) -> Any:
        """Read the stack output `platform`.

        Raises:
            NotDeployedError: The stack has no outputs.
            PlatformReadError: The output cannot be read.
        """
        return self._ask("stack", "output", OUTPUT, "--json")

    def resources(self) -> list[StackResource]:
        """Read the resources in the state; empty if there is no such stack.

        Raises:
            PlatformReadError: The state cannot be read.
        """
        try:
            return self._read_state(resources)
        except NotDeployedError:
            return []

    def configuration(self) -> dict[str, Any]:
        """Read the configuration of the stack: text, or the data of a group or list, by key.

        Raises:
            PlatformReadError: The configuration cannot be read.
        """
        answer = self._ask("config", "--json")
        return {
            key: setting.get("objectValue", setting.get("value")) for key, setting in answer.items()
        }

    def check(self) -> list[StackResource]:
        """Check that the stack exists and has no pending operations; return its resources.

        Raises:
            NotDeployedError: There is no such stack.
            PlatformReadError: The state cannot be read.
            PendingOperationsError: A deployment is running, or was killed and left pending
                operations.
        """
        names, existing = self._read_state(lambda s: (pending_creations(s), resources(s)))
        if names:
            raise PendingOperationsError(
                f"stack {self.stack}: a deployment is creating {', '.join(names)}, or was killed"
                " while creating it, so Pulumi cannot know whether it exists in Azure; nothing was"
                " changed. If a deployment is running, wait for its end. If not, clear the pending"
                " operations and run the same command again:\n"
                f"  pulumi cancel --yes --stack {self.stack}\n"
                f"  pulumi refresh --yes --clear-pending-creates --stack {self.stack}\n"
                "If Pulumi then says 'cannot create already existing resource', Azure has created"
                " it: delete it (`az resource delete --ids ID`), as nothing uses it yet"
            )
        return existing

    def destroy(self) -> None:
        """Refresh the state, and delete all resources in it.

        Pulumi's output goes to stderr. Ctrl-C also reaches Pulumi, which completes its running
        operations; a second Ctrl-C stops it at once.

        Raises:
            UserError: Some resources could not be deleted.
            KeyboardInterrupt: Pulumi has ended after Ctrl-C.
        """
        self._attended("destroy", "--refresh", "--yes", "--non-interactive", asks=False)

    def up(
        self,
        *,
        yes: bool,
        refresh: bool,
        as_json: bool,
        again: bool = False,
        without_rules: str | None = None,
    ) -> None:
        """Deploy the stack. Pulumi shows what would change and asks for confirmation.

        Args:
            yes: Whether to skip the confirmation.
            refresh: Whether to refresh the state first.
            as_json: Whether Pulumi's output goes to stderr, as stdout is reserved for JSON.
            again: Whether to continue a deployment that was confirmed, without another preview.
            without_rules: Why the security rules are not checked; Pulumi keeps it in the stack's
                history. None checks them.

        Raises:
            UpdateFailedError: Pulumi failed; with the errors of its resources.
            DeclinedError: The user did not confirm it.
            LockedError: The stack is locked.
            KeyboardInterrupt: Pulumi has ended after Ctrl-C.
        """
        options = ["--refresh"] if refresh else []
        options += ["--yes", "--non-interactive"] if yes or again else []
        options += ["--skip-preview"] if again else []
        options += _rules(without_rules)
        self._attended("up", *options, asks=not yes and not again, quiet=as_json)

    def preview(self, *, as_json: bool, without_rules: str | None = None) -> None:
        """Show what `up` would change, and check the security rules unless there is a reason not
        to; with `as_json`, as Pulumi's JSON document on stdout.

        Raises:
            UserError: Pulumi failed.
            KeyboardInterrupt: Pulumi has ended after Ctrl-C.
        """
        shown = "--json" if as_json else "--diff"
        self._attended(
            "preview",
            shown,
            "--non-interactive",
            *_rules(without_rules),
            asks=False,
            quiet=False,
        )

    def planned(self, *, drift: bool = False, without_rules: str | None = None) -> dict[str, Any]:
        """Return what `up` would change, as Pulumi's JSON document, and check the security rules.

        Args:
            drift: Whether to return what differs between the state and Azure instead, for which
                Pulumi checks no rules. Neither changes nor locks anything.
            without_rules: Why the security rules are not checked; None checks them.

        Raises:
            UserError: Pulumi failed.
            KeyboardInterrupt: Pulumi has ended after Ctrl-C.
        """
        words = ("refresh", "--preview-only") if drift else ("preview", *_rules(without_rules))
        with tempfile.TemporaryFile() as answer:
            try:
                self._attended(*words, "--json", "--non-interactive", asks=False, answer=answer)
            except UpdateFailedError as error:
                reasons = [
                    f"{failure.name}: {failure.message}".strip(": ") for failure in error.failed
                ]
                raise UserError("\n".join([str(error), *reasons])) from error
            answer.seek(0)
            try:
                return dict(json.load(answer))
            except (ValueError, TypeError) as error:
                raise PlatformReadError(
                    f"pulumi {words[0]}: the output for stack {self.stack} is not JSON ({error})"
                ) from error

    def _read_state(self, look: Callable[[dict[str, Any]], _Read]) -> _Read:
        try:
            return look(self._ask("stack", "export"))
        except (KeyError, TypeError, AttributeError) as error:
            raise UnreadableStateError(
                f"pulumi: the state of stack {self.stack} has an unexpected format ({error!r})"
            ) from error

    def _ask(self, *words: str) -> Any:
        """Run a command and parse the JSON that it prints."""
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
                f"pulumi: reading stack {self.stack} timed out after {READ_SECONDS} s; check the"
                " network, and whether the backend responds (`pulumi whoami -v`)"
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
                f"pulumi: the output for stack {self.stack} is not JSON ({error}); check what"
                f" `{shown}` prints"
            ) from error

    def _attended(
        self,
        command: str,
        *options: str,
        asks: bool,
        quiet: bool = True,
        answer: IO[bytes] | None = None,
    ) -> None:
        """Run a command with its output shown.

        Args:
            command: Command of Pulumi.
            options: Options of the command.
            asks: Whether Pulumi may ask for confirmation.
            quiet: Whether Pulumi's stdout goes to stderr.
            answer: File for Pulumi's stdout, which is then not shown.
        """
        # A file instead of a pipe: if this process is killed, Pulumi must not abort its work.
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as words:
            events = Path(folder) / "events"
            process = subprocess.Popen(
                [self._program(), command, *options, "--stack", self.stack],
                cwd=self._repository,
                env={**os.environ, **_EVENTS, "PULUMI_OPTION_EVENT_LOG": str(events)},
                stdin=None if asks else subprocess.DEVNULL,
                stdout=answer or (_STDERR if quiet else None),
                stderr=words,
            )
            status, interrupted = _watched(process, words)
            said = os.pread(words.fileno(), _CHUNK, 0).decode(errors="replace").lower()
            lines = events.read_text(errors="replace").splitlines() if events.exists() else []
        if interrupted:
            raise KeyboardInterrupt
        if status != 0 and any(sign in said for sign in _LOCKED):
            raise LockedError(
                f"stack {self.stack}: is locked (see Pulumi's output above) by another update, or"
                " by one that was killed. If an update is running, wait for its end. If not, remove"
                f" the lock with `pulumi cancel --stack {self.stack}` and run the same command"
                " again"
            )
        if status != 0 and any(sign in said for sign in _BROKEN):
            raise BrokenStateError(_REPAIR.format(stack=self.stack))
        failed = failures(lines)
        declined = "error:" not in said or _CANCELED in said
        if status != 0 and asks and declined and not failed and ended_with_preview(lines):
            raise DeclinedError(f"stack {self.stack}: not confirmed; nothing was changed")
        if status != 0:
            raise UpdateFailedError(
                f"pulumi {command}: failed with exit status {status}; see its output above. Fix the"
                " cause and run the same command again: finished steps are not repeated",
                failed,
            )

    def _program(self) -> str:
        program = shutil.which("pulumi")
        if program is None:
            raise PulumiMissingError(
                "pulumi: not found on the PATH; install the Pulumi CLI"
                " (https://www.pulumi.com/docs/install)"
            )
        return program


def _rules(without: str | None) -> list[str]:
    """Return the options that check the security rules, or that record why they are not checked."""
    if without is None:
        return ["--policy-pack", _RULES]
    return ["--message", f"without the security rules: {without}"]


def _cause(said: str, stack: str) -> PlatformReadError:
    """Return the error for a message of Pulumi, with the message and what to do."""
    words = " ".join(said.split()).removeprefix("error: ")
    lower = words.lower()
    for signs, kind, advice in _CAUSES:
        if any(sign in lower for sign in signs):
            return kind(f"pulumi: {words}\n{advice.format(stack=stack)}")
    return PlatformReadError(f"pulumi: could not read stack {stack}: {words}")


def _watched(process: subprocess.Popen[bytes], words: IO[bytes]) -> tuple[int, bool]:
    """Wait for a command, and copy its stderr.

    Ctrl-C also reaches the command, which completes its running operations; so this waits for it.

    Returns:
        Exit status of the command, and whether it was interrupted.
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
