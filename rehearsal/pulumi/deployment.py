"""Pulumi's real engine against the simulator, with a separate provider, backend and home folder."""

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rehearsal.errors import RehearsalError
from rehearsal.pulumi import language_host
from rehearsal.pulumi.provider.server import Provider
from rehearsal.simulator import Simulator

ROOT: Final = Path(__file__).resolve().parents[2]
BUILT: Final = ROOT / ".tools" / "pulumi" / "bin"
"""Folder in which `make` builds the engine if the machine has none."""
SUBSCRIPTION: Final = "00000000-0000-4000-8000-000000000002"
_OLDEST: Final = (3, 259)
"""Oldest supported version of the engine, which is the pinned one."""
_SECONDS: Final = 600
LEADING: Final = ("PULUMI_", "ARM_", "AZURE_", "AZUREML_", "JOBS_", "GITHUB_", "RUNNER_")
"""Prefixes of variables that could direct a command to the user's own stacks or subscription, or
tell it that it runs on a machine of GitHub."""
_MAKE: Final = ("MAKE", "MFLAGS")
"""Prefixes of variables that tell `make` that another `make` has started it."""


class Deployment(contextlib.AbstractContextManager["Deployment"]):
    """A stack of this repository in the simulator, as a context manager.

    The user's login, stacks and plugins are not touched, nor any file of the repository: the
    stack's settings are a copy.

    Args:
        azure: The simulator to deploy to.
        folder: Folder for state, settings and Pulumi's home; an earlier folder still has its stack.
        stack: Name of the stack; `Pulumi.<stack>.yaml` configures it.
        subscription: Id of the subscription to deploy to.

    Raises:
        RehearsalError: there is no engine, or it cannot create the stack.
    """

    def __init__(
        self,
        azure: Simulator,
        folder: Path,
        stack: str = "dev",
        subscription: str = SUBSCRIPTION,
    ) -> None:
        self.stack = stack
        self.own_settings = {
            "subscription.id": subscription,
            "subscription.tenant": azure.options.tenant_id,
            "budget.start": f"{datetime.now(UTC):%Y-%m}-01",
        }
        """Settings that differ from those of the repository's file, by their paths."""
        self._azure, self._folder = azure, folder.absolute()
        self.program, self.version = find_engine()
        self.path = [str(self.program.parent)]
        """Folders to put in front of the machine's PATH."""
        if not language_host.is_installed(self.program):
            self.path.insert(0, str(language_host.write(self._folder / "bin").parent))
        with contextlib.ExitStack() as opened:
            self._provider = opened.enter_context(
                Provider(azure.environment, azure.url, subscription)
            )
            if not self._settings.exists():
                self._make()
            self._opened = opened.pop_all()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the provider; can be called repeatedly. The stack stays in the folder."""
        self._opened.close()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make every `pulumi` and `jobs` command use this stack."""
        path = os.pathsep.join([*self.path, os.environ.get("PATH", os.defpath)])
        return {**self.variables, "PATH": path}

    @property
    def variables(self) -> dict[str, str]:
        """The same variables without PATH."""
        return {
            **self._azure.environment,
            **self._provider.environment,
            "JOBS_TEARDOWN_FOLDER": str(self._folder / "teardown"),
            "PULUMI_BACKEND_URL": f"file://{self._folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self._passphrase),
            "PULUMI_HOME": str(self._folder / "home"),
            # Has the effect of `--config-file` for every command that has the option.
            "PULUMI_OPTION_CONFIG_FILE": str(self._settings),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_STACK": self.stack,
        }

    @property
    def command_environment(self) -> dict[str, str]:
        """The environment for a child process, which then ends with this Azure and its owner. None
        of this process's own variables can direct it to the user's stacks or subscription.
        """
        return self._azure.marked({**_inherited(os.environ), **self.environment})

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a Pulumi command on the stack without prompts."""
        return self._run([*arguments, "--stack", self.stack], ROOT)

    def configure(self, path: str, value: str) -> None:
        """Change a setting of the stack.

        Args:
            path: Path of the setting, such as `vault.soft_delete_retention_days` or
                `allowed_addresses[0]`.
            value: Value as on a command line.

        Raises:
            RehearsalError: Pulumi failed to set it.
        """
        self._checked(["config", "set", "--path", path, value, "--stack", self.stack], ROOT)

    def reset(self) -> None:
        """Restore the settings of the repository's file."""
        text = (ROOT / self._settings.name).read_text(encoding="utf-8")
        self._settings.write_text(f"{without_secrets(text)}{self._salt()}\n", encoding="utf-8")
        self._configure_own()

    def _configure_own(self) -> None:
        settings = [f"--plaintext={path}={value}" for path, value in self.own_settings.items()]
        self._checked(
            ["config", "set-all", "--path", *settings, "--stack", self.stack],
            self._settings.parent,
        )

    def _salt(self) -> str:
        """Return the line that Pulumi has added to the settings."""
        lines = self._settings.read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith("encryptionsalt:"))

    @property
    def _passphrase(self) -> Path:
        return self._folder / "passphrase"

    @property
    def _settings(self) -> Path:
        """Next to a copy of Pulumi.yaml: Pulumi adds the salt of the stack's secrets to it."""
        return self._folder / "project" / f"Pulumi.{self.stack}.yaml"

    def _make(self) -> None:
        for name in ("state", "project"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        self._passphrase.touch(mode=0o600)
        self._passphrase.write_text(secrets.token_urlsafe(24), encoding="utf-8")
        for name in ("Pulumi.yaml", self._settings.name):
            shutil.copy(ROOT / name, self._settings.parent)
        try:
            self._checked(["stack", "init", self.stack], self._settings.parent)
            self._configure_own()
        except BaseException:
            # A folder with settings counts as one that has its stack.
            self._settings.unlink()
            raise

    def _checked(self, arguments: list[str], folder: Path) -> None:
        try:
            ended = self._run(arguments, folder)
        except subprocess.TimeoutExpired as error:
            raise RehearsalError(
                f"pulumi {' '.join(arguments)}: did not finish within {_SECONDS} s"
            ) from error
        if ended.returncode != 0:
            output = f"{ended.stdout}{ended.stderr}".strip()
            raise RehearsalError(f"pulumi {' '.join(arguments)}: {output}")

    def _run(self, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.program), *arguments, "--non-interactive", "--color=never"],
            cwd=folder,
            env=self.command_environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )


def without_secrets(settings: str) -> str:
    """Return a stack's settings without those that say how its secrets are encrypted: a stack that
    was deployed names a key vault there.
    """
    lines = (
        line
        for line in settings.splitlines()
        if not line.startswith(("secretsprovider:", "encryptedkey:", "encryptionsalt:"))
    )
    return "".join(f"{line}\n" for line in lines)


def find_engine() -> tuple[Path, str]:
    """Return the engine, from PATH or as built by `make`, and its version.

    Raises:
        RehearsalError: there is no engine, or it is too old.
    """
    engine = shutil.which("pulumi") or shutil.which("pulumi", path=str(BUILT))
    if engine is None:
        raise RehearsalError(
            f"pulumi is neither on the PATH nor in {BUILT}; `make -C tools engine` builds it"
            " (needs Go)"
        )
    # Even this command looks for updates online, and keeps a log in its home.
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as home:
        quiet = {"PULUMI_HOME": home, "PULUMI_SKIP_UPDATE_CHECK": "true"}
        ended = subprocess.run(
            [engine, "version"], env=os.environ | quiet, capture_output=True, text=True, check=False
        )
    version = ended.stdout.strip()
    if not is_new_enough(version):
        oldest = ".".join(str(number) for number in _OLDEST)
        raise RehearsalError(
            f"{engine}: version is {version or 'unknown'}, but 3.x from {oldest} on is required;"
            " update it, or remove it from the PATH and run `make -C tools engine`"
        )
    return Path(engine), version


def is_new_enough(version: str) -> bool:
    """Check whether an engine version, such as `v3.259.0`, has the features that the rehearsal
    needs.
    """
    match = re.fullmatch(r"v(\d+)\.(\d+)\.\S+", version.strip())
    if match is None:
        return False
    return int(match[1]) == _OLDEST[0] and int(match[2]) >= _OLDEST[1]


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environment.items() if not name.startswith(LEADING + _MAKE)
    }
