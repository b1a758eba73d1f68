"""Data sets that several tests read and none changes, and runs that several disturb."""

import gc
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cases import load_profile

load_profile()
# Traversing the graphs of hundreds of tests would take a tenth of the time of a worker.
gc.set_threshold(100_000, 50, 50)


@pytest.fixture(scope="session")
def digits_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded data set, prepared once."""
    from trainer.data.builtin.writer import write_embedded

    folder = tmp_path_factory.mktemp("data") / "digits"
    write_embedded("digits", str(folder))
    return folder


@pytest.fixture
def workplace(digits_folder: Path, tmp_path: Path) -> Path:
    """A folder to run commands in, with the digits where they are looked for."""
    shutil.copytree(digits_folder, tmp_path / "data" / "digits")
    return tmp_path


@pytest.fixture
def start() -> "Iterator[Callable[..., subprocess.Popen[str]]]":
    """Start the trainer; whatever a failed test leaves running is killed."""
    from tests.trainer.support.command import start_trainer
    from tests.trainer.support.launched import ranks_of

    started = []

    def start_one(*args: str, **options: Any) -> "subprocess.Popen[str]":
        started.append(start_trainer(*args, **options))
        return started[-1]

    yield start_one
    for process in started:
        for pid in [process.pid, *ranks_of(process).values()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()
