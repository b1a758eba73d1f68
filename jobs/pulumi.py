"""The command line of Pulumi, as far as a platform needs it: the one way to the engine."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jobs.errors import JobsError, NotDeployedError, PlatformReadError
from jobs.stack import cause

_PROVIDER: Final = "pulumi:providers:"
STATE_SECONDS: Final = 300
_STDERR: Final = 2
"""Descriptor; stdout is for the answer."""


@dataclass(frozen=True)
class Declared:
    """A resource in the state of a stack."""

    urn: str
    kind: str
    id: str
    """Azure's."""
    protected: bool

    @property
    def name(self) -> str:
        """What the program calls it."""
        return self.urn.rpartition("::")[2]


class Pulumi:
    """One stack.

    Args:
        repository: folder of Pulumi.yaml.
        stack: its name.
    """

    def __init__(self, repository: Path, stack: str) -> None:
        self._repository, self.stack = repository, stack

    def declared(self) -> list[Declared]:
        """What the state says is deployed; nothing where there is no such stack.

        Raises:
            PlatformReadError: the state cannot be read.
        """
        try:
            return resources(self._state())
        except NotDeployedError:
            return []
        except (KeyError, TypeError, AttributeError) as error:
            raise PlatformReadError(
                f"pulumi: the state of the stack {self.stack} is not as expected ({error!r})"
            ) from error

    def check(self) -> None:
        """Whether the stack can be worked on.

        Raises:
            NotDeployedError: there is no such stack.
            PlatformReadError: its state cannot be read, with what to do.
        """
        self._state()

    def _state(self) -> dict[str, Any]:
        command = [self._program(), "stack", "export", "--stack", self.stack, "--non-interactive"]
        try:
            ended = subprocess.run(
                command,
                cwd=self._repository,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=STATE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PlatformReadError(
                f"pulumi: cannot read the stack {self.stack}: {error}"
            ) from error
        if ended.returncode != 0:
            raise cause(ended.stderr, self.stack)
        try:
            found: dict[str, Any] = json.loads(ended.stdout)
        except ValueError as error:
            raise PlatformReadError(
                f"pulumi: the state of the stack {self.stack} is not JSON ({error})"
            ) from error
        return found

    def destroy(self) -> None:
        """Delete everything that the state knows, after comparing it with what is there.

        Its words go to stderr. Ctrl-C reaches Pulumi as well, which ends what it has begun; a
        second one makes it stop at once.

        Raises:
            JobsError: not all of it could be deleted.
            KeyboardInterrupt: Pulumi has ended after Ctrl-C.
        """
        self._attended("destroy", "--refresh", "--yes", "--non-interactive", asks=False)

    def up(self, *, yes: bool, as_json: bool) -> None:
        """Deploy; Pulumi shows what would change, and asks before it does it.

        Args:
            yes: whether it does not ask.
            as_json: whether its words go to stderr, as stdout is for a program.

        Raises:
            JobsError: it ended otherwise than well.
            KeyboardInterrupt: it has ended after Ctrl-C.
        """
        options = ["--yes", "--non-interactive"] if yes else []
        self._attended("up", *options, asks=not yes, quiet=as_json)

    def preview(self, *, as_json: bool) -> None:
        """Show what `up` would change; see there."""
        self._attended("preview", "--diff", "--non-interactive", asks=False, quiet=as_json)

    def _attended(self, verb: str, *options: str, asks: bool, quiet: bool = True) -> None:
        """Run a command that a person watches.

        Args:
            verb: of Pulumi.
            options: of the verb.
            asks: whether Pulumi may ask the person.
            quiet: whether its words go to stderr.
        """
        process = subprocess.Popen(
            [self._program(), verb, *options, "--stack", self.stack],
            cwd=self._repository,
            stdin=None if asks else subprocess.DEVNULL,
            stdout=_STDERR if quiet else None,
        )
        interrupted = False
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                interrupted = True
        if interrupted:
            raise KeyboardInterrupt
        if status != 0:
            raise JobsError(
                f"pulumi {verb}: ended with status {status}; its words above say why. Give the"
                " same command again when that is mended: what is done already is not done twice"
            )

    def _program(self) -> str:
        found = shutil.which("pulumi")
        if found is None:
            raise PlatformReadError(
                "pulumi: is not on the path; install its command line"
                " (https://www.pulumi.com/docs/install)"
            )
        return found


def resources(state: dict[str, Any]) -> list[Declared]:
    """The resources of an exported state that stand for something in Azure. Pure."""
    found = (state.get("deployment") or {}).get("resources") or []
    return [
        Declared(
            urn=str(one["urn"]),
            kind=str(one["type"]),
            id=str(one.get("id") or ""),
            protected=bool(one.get("protect")),
        )
        for one in found
        if one.get("custom") and not str(one["type"]).startswith(_PROVIDER)
    ]
