"""A machine with stand-ins for Docker, Podman and Buildah."""

import os
from pathlib import Path
from typing import Final

import pytest

PODMAN: Final = """
echo "podman $*" >> "$SAID"
case "$1 $2" in
    "inspect --type=image") grep -qx "$3" "$HERE" ;;
    "image inspect") echo "${SIZE:-1000}" ;;
    "image mount") echo "/root of $3" ;;
    "pull "*) echo "Error: no such host" >&2; exit 125 ;;
    "build "*)
        for one; do case $one in --tag=*) echo "${one#--tag=}" >> "$HERE" ;; esac; done
        echo "[1/2] STEP 1/3: FROM debian"
        echo "[1/2] STEP 2/3: RUN apt-get update     && apt-get install"
        [ -z "$CACHED" ] || echo "--> Using cache 123"
        echo "[1/2] STEP 3/3: RUN compile"
        [ -z "$CACHED" ] || echo "--> Using cache 456"
        [ -z "$BROKEN" ] || { echo "gcc: out of luck"; exit 7; }
        [ -z "$STOPPED" ] || exit 0
        for one; do case $one in --iidfile=*) echo "${ID:-1}" > "${one#--iidfile=}" ;; esac; done ;;
    "run "*)
        [ -n "$CONTAINERS_CONF" ] || { echo "cannot set limits" >&2; exit 126; }
        [ -z "$BROKEN" ] || { echo "cannot at all" >&2; exit 126; } ;;
esac
"""


class Machine:
    """A machine with no container engine until one is installed."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        # Programs of the system that the stand-ins and the code itself need.
        for name in ("sh", "grep", "env", "timeout", "tar"):
            (self.programs / name).symlink_to(
                next(f for d in os.get_exec_path() if (f := Path(d, name)).exists())
            )
        self._said, self._here = folder / "said", folder / "here"
        self._said.touch()
        self._here.touch()
        self.variables = {
            "PATH": str(self.programs),
            "SAID": str(self._said),
            "HERE": str(self._here),
        }

    def install(self, name: str, script: str) -> None:
        """Install a program on the PATH."""
        (self.programs / name).write_text(f"#!/bin/sh\n{script}")
        (self.programs / name).chmod(0o755)

    def said(self, *words: str) -> list[str]:
        """Return the recorded commands that contain all the words."""
        lines = self._said.read_text().splitlines()
        return [line for line in lines if all(word in line for word in words)]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with no container engine."""
    made = Machine(tmp_path)
    for name in ("SSL_CERT_FILE", "CONTAINERS_CONF"):
        monkeypatch.delenv(name, raising=False)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made
