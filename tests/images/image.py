"""Run programs in an image from a test."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from common.containers import Container, Mount
from environments.builders import Builder
from tests import ROOT

INSIDE: Final = Path(__file__).with_name("inside")
SITE: Final = "/opt/trainer/lib/python3.11/site-packages"
GLOO_ONLY: Final = ROOT / ".venv-trainer/lib/python3.11/site-packages/horovod"
"""The Horovod of this machine's trainer, which has no MPI."""

SECONDS: Final = 600
_numbers = count()


@dataclass(frozen=True)
class Image:
    """An image with this repository's trainer at /code, and a persistent folder at /work."""

    builder: Builder
    name: str
    folder: Path
    """Folder on this machine that is mounted at /work."""

    def run(
        self,
        *program: str,
        mounts: Sequence[Mount] = (),
        variables: Mapping[str, str] | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end; a container that takes too long is removed."""
        with self.started(*program, mounts=mounts, variables=variables) as process:
            try:
                out, err = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired as error:
                raise AssertionError(f"{program} still runs after {SECONDS} s") from error
        return subprocess.CompletedProcess(program, process.returncode, out, err)

    def drive(
        self,
        *scenes: Mapping[str, Any],
        mounts: Sequence[Mount] = (),
        variables: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Run scenes one after the other in one container; see inside/drive.py."""
        program = ("python", "/inside/drive.py", json.dumps(scenes))
        done = self.run(*program, mounts=mounts, variables=variables)
        assert done.returncode == 0, done.stderr
        told: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        return told

    @contextmanager
    def started(
        self,
        *program: str,
        mounts: Sequence[Mount] = (),
        variables: Mapping[str, str] | None = None,
    ) -> Iterator["subprocess.Popen[str]"]:
        """Start a program; remove it with its container when the block ends."""
        given = {"PYTHONPATH": "/code", "PYTHONDONTWRITEBYTECODE": "1", **(variables or {})}
        name = f"images-test-{os.getpid()}-{next(_numbers)}"
        own = [
            *(Mount(ROOT / world, f"/code/{world}") for world in ("common", "trainer")),
            Mount(INSIDE, "/inside"),
            Mount(self.folder, "/work", writable=True),
        ]
        container = Container(
            self.name, program, name, [*own, *mounts], list(given), folder="/work"
        )
        process = subprocess.Popen(
            self.builder.engine.run_command(container),
            env={**os.environ, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                self.builder.engine.remove_container(name)
                with suppress(ProcessLookupError):
                    process.kill()
                process.communicate()


def gloo_only() -> Mount:
    """A Horovod without MPI, in place of the image's."""
    return Mount(GLOO_ONLY, f"{SITE}/horovod")
