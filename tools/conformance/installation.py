"""Installs the judges' programs in .tools/conformance/, each in a folder of its own, once."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tools.conformance.verdict import ConformanceError

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ROOT / ".tools" / "conformance"
PROGRAMS: Final = ROOT / "tools" / "conformance" / "programs"
"""Sources and locks of the judges that are not packages of Python."""


class Source(Protocol):
    """How a program is got, with exact versions and hashes."""

    @property
    def files(self) -> Sequence[Path]:
        """Files that decide what is installed."""
        ...

    def install(self, folder: Path) -> None:
        """Install into a folder."""
        ...


@dataclass(frozen=True)
class Python:
    """Packages of locks/NAME.txt, in an environment of their own: FOLDER/bin/python."""

    lock: str

    @property
    def files(self) -> Sequence[Path]:
        return (ROOT / "locks" / f"{self.lock}.txt",)

    def install(self, folder: Path) -> None:
        uv = str(ROOT / ".tools" / "uv" / "bin" / "uv")
        python = str((ROOT / ".venv" / "bin" / "python").resolve())
        run_program([uv, "venv", "--quiet", "--clear", "--python", python, str(folder)])
        run_program(
            [uv, "pip", "sync", "--quiet", "--require-hashes", str(self.files[0])],
            environment={"VIRTUAL_ENV": str(folder)},
        )


@dataclass(frozen=True)
class Platform:
    """A module of the platform's own environment, .venv."""

    module: str

    @property
    def files(self) -> Sequence[Path]:
        return (ROOT / "locks" / "infra.txt",)

    def install(self, folder: Path) -> None:
        """Check that it is installed; `folder` stays empty."""
        del folder
        run_program([str(ROOT / ".venv" / "bin" / "python"), "-c", f"import {self.module}"])


@dataclass(frozen=True)
class Go:
    """Programs of the Go module programs/NAME, built into FOLDER/bin."""

    name: str

    @property
    def files(self) -> Sequence[Path]:
        return tuple(path for path in sorted((PROGRAMS / self.name).rglob("*")) if path.is_file())

    def install(self, folder: Path) -> None:
        binaries = folder / "bin"
        binaries.mkdir(parents=True, exist_ok=True)
        run_program(
            ["go", "build", "-mod=readonly", "-o", f"{binaries}/", "./..."],
            PROGRAMS / self.name,
        )


@dataclass(frozen=True)
class Npm:
    """Packages of programs/NAME/package-lock.json, with the scripts there, in FOLDER."""

    name: str

    @property
    def files(self) -> Sequence[Path]:
        return tuple(path for path in sorted((PROGRAMS / self.name).iterdir()) if path.is_file())

    def install(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in self.files:
            shutil.copy(path, folder)
        run_program(["npm", "ci", "--silent", "--ignore-scripts", "--omit=dev"], folder)


def install(name: str, source: Source) -> Path:
    """Return the folder of a judge's program, and install it if that has changed or is missing."""
    folder = TOOLS / name
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in source.files)).hexdigest()
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text() != digest:
        folder.mkdir(parents=True, exist_ok=True)
        ready.unlink(missing_ok=True)
        source.install(folder)
        ready.write_text(digest)
    return folder


def run_program(
    command: Sequence[str],
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    text: str | None = None,
    statuses: Sequence[int] = (0,),
) -> str:
    """Run a program, and return its output.

    Args:
        command: The program and its arguments.
        folder: The folder that it is started in.
        environment: Variables in addition to those of this process.
        text: Its standard input; None for none.
        statuses: Exit statuses with which it has done its work.

    Raises:
        ConformanceError: it does not exist or ended with another status.
    """
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            input=text or "",
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ConformanceError(f"{command[0]} does not exist; install it") from error
    if done.returncode not in statuses:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise ConformanceError(f"{Path(command[0]).name} ended with {done.returncode}: {said}")
    return done.stdout
