"""The command line of Pulumi, as far as tearing down needs it: the one way to the engine."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jobs.errors import JobsError, PlatformReadError

_PROVIDER: Final = "pulumi:providers:"
_NO_STACK: Final = ("no stack named", "no such stack")
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
            raise PlatformReadError(f"pulumi: cannot read the stack {self.stack}: {error}") from (
                error
            )
        if ended.returncode != 0:
            said = " ".join(ended.stderr.split())
            if any(words in said.lower() for words in _NO_STACK):
                return []
            raise PlatformReadError(f"pulumi: cannot read the stack {self.stack}: {said}")
        try:
            return resources(json.loads(ended.stdout))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PlatformReadError(
                f"pulumi: the state of the stack {self.stack} is not as expected ({error!r})"
            ) from error

    def destroy(self) -> None:
        """Delete everything that the state knows, after comparing it with what is there.

        Its words go to stderr. Ctrl-C reaches Pulumi as well, which ends what it has begun; a
        second one makes it stop at once.

        Raises:
            JobsError: not all of it could be deleted.
            KeyboardInterrupt: Pulumi has ended after Ctrl-C.
        """
        command = [self._program(), "destroy", "--refresh", "--yes", "--stack", self.stack]
        process = subprocess.Popen(
            [*command, "--non-interactive"],
            cwd=self._repository,
            stdin=subprocess.DEVNULL,
            stdout=_STDERR,
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
                f"pulumi destroy: ended with status {status}; its words above say why. Give the"
                " same command again when that is mended: what is deleted already is not missed"
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
