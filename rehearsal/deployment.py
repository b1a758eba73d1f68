"""Pulumi's real engine against this Azure, with a provider, a backend and a home of its own."""

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rehearsal import language_host
from rehearsal.errors import RehearsalError
from rehearsal.loopback import Loopback
from rehearsal.provider.server import Provider

ROOT: Final = Path(__file__).resolve().parents[1]
BUILT: Final = ROOT / ".tools" / "pulumi" / "bin"
"""Where `make` builds the engine if the machine has none."""
SUBSCRIPTION: Final = "00000000-0000-4000-8000-000000000002"
_SECONDS: Final = 600
_OWN: Final = ("PULUMI_", "ARM_", "AZURE_")
"""Beginnings of variables that could lead a command to somebody's own stacks or subscription."""


class Deployment:
    """Stacks of this repository on loopback, as a context manager.

    Nobody's login, stacks or plugins are touched, and no file of the repository.

    Args:
        azure: where the stacks are deployed.
        folder: for state and Pulumi's home.
        subscription: id of the one to deploy to.

    Raises:
        RehearsalError: there is no engine.
    """

    def __init__(self, azure: Loopback, folder: Path, subscription: str = SUBSCRIPTION) -> None:
        self._azure, self._folder = azure, folder.absolute()
        self._program = program()
        (self._folder / "state").mkdir(parents=True, exist_ok=True)
        self._passphrase = self._folder / "passphrase"
        if not self._passphrase.exists():
            self._passphrase.touch(mode=0o600)
            self._passphrase.write_text(secrets.token_urlsafe(24), encoding="utf-8")
        self._path = [str(self._program.parent)]
        if shutil.which(language_host.NAME) is None:
            self._path.insert(0, str(language_host.write(self._folder / "bin").parent))
        with contextlib.ExitStack() as stack:
            self._provider = stack.enter_context(
                Provider(azure.environment, azure.url, subscription)
            )
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the provider; safe to repeat. State stays in the folder."""
        self._stack.close()

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which every `pulumi` and `jobs` command works on these stacks."""
        return {
            **self._azure.environment,
            **self._provider.environment,
            "PATH": os.pathsep.join([*self._path, os.environ.get("PATH", os.defpath)]),
            "PULUMI_BACKEND_URL": f"file://{self._folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self._passphrase),
            # Or the salt of these secrets would be written into the stack's file.
            "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
            "PULUMI_HOME": str(self._folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }

    def init(self, stack: str) -> None:
        """Make a stack.

        Raises:
            RehearsalError: Pulumi does not.
        """
        # In a folder of its own, as Pulumi writes the salt of secrets beside Pulumi.yaml.
        project = self._folder / "project"
        project.mkdir(exist_ok=True)
        shutil.copy(ROOT / "Pulumi.yaml", project)
        self._checked(["stack", "init", stack], project)

    def run(self, *arguments: str, stack: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Pulumi in the repository, without anybody to ask.

        Args:
            arguments: of the command.
            stack: that it is about.
        """
        return self._run([*arguments, "--stack", stack], ROOT)

    def _checked(self, arguments: list[str], folder: Path) -> None:
        ended = self._run(arguments, folder)
        if ended.returncode != 0:
            words = f"{ended.stdout}{ended.stderr}".strip()
            raise RehearsalError(f"pulumi {' '.join(arguments)}: {words}")

    def _run(self, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._program), *arguments, "--non-interactive", "--color=never"],
            cwd=folder,
            env={**_inherited(os.environ), **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )


def program() -> Path:
    """The engine: from the path, or what `make` built.

    Raises:
        RehearsalError: there is none.
    """
    found = shutil.which("pulumi") or shutil.which("pulumi", path=str(BUILT))
    if found is None:
        raise RehearsalError(
            f"pulumi: is neither on the path nor in {BUILT}; `make engine` builds it once (Go)"
        )
    return Path(found)


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_OWN)}
