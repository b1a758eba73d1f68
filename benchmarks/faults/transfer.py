"""Uploads and downloads that are killed half way and repeated, against the stand-in's blob server.

Checkouts of this repository take turns. In each turn, small files and a large one are uploaded: the
command is killed (SIGKILL) once half of the bytes have arrived, and run again. Then they are
downloaded in the same way, and compared with what was uploaded.
"""

import filecmp
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from benchmarks.measure import BenchmarkOptions, columns, spread
from common.errors import UserError
from common.text import plural
from trainer.config import Positive

PYTHON: Final = ".venv/bin/python"
"""Python of the platform's environment, relative to a checkout."""
RUNS: Final = "runs"
"""Folder of runs in the container of results, from which `download` reads."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Time, memory and bytes sent again of uploads and downloads that are killed half way."""

    checkouts: tuple[str, ...] = (".",)
    """Checkouts of this repository to compare, with their environments."""

    small_files: Annotated[int, Positive] = 2000
    """Number of small files."""

    small_kb: Annotated[int, Positive] = 32
    """Size of a small file, in kB."""

    large_mb: Annotated[int, Positive] = 700
    """Size of the large file, in MB."""

    rounds: Annotated[int, Positive] = 3
    """Number of turns of each checkout."""


@dataclass(frozen=True)
class Transfer:
    """One transfer: the first command, which was killed, and the second, which completed it."""

    first_seconds: float
    second_seconds: float
    cpu_seconds: float
    """CPU time of both commands."""
    peak_mb: float
    """Peak resident memory of the larger of the two."""
    sent_again_mb: float | None
    """What storage received beyond the size of the files; None for a download."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the checkouts in turns."""
    transfers: dict[str, dict[str, list[Transfer]]] = {}
    with tempfile.TemporaryDirectory() as folder, _stand_in(Path(folder) / "state") as variables:
        scratch = Path(folder)
        sources = {
            f"{options.small_files:,} files": (options.small_files, options.small_kb * 1000),
            f"1 file of {options.large_mb} MB": (1, options.large_mb * 1_000_000),
        }
        for number, (count, size) in enumerate(sources.values()):
            _write(scratch / f"source-{number}", count, size)
        for turn in range(options.rounds):
            for index, checkout in enumerate(options.checkouts):
                command = _Command(Path(checkout), variables, scratch)
                for number, what in enumerate(sources):
                    run_name = f"turn-{turn}-{index}-{number}"
                    source, target = scratch / f"source-{number}", scratch / "target"
                    of = transfers.setdefault(checkout, {})
                    sent, got = command.upload(source, run_name), command.download(run_name, target)
                    _compare(source, target)
                    shutil.rmtree(target)
                    of.setdefault(f"upload {what}", []).append(sent)
                    of.setdefault(f"download {what}", []).append(got)
                    print(f"turn {turn + 1}, {checkout}: {what}: {sent}, {got}", flush=True)
    return {"transfers": transfers}


def show(data: Mapping[str, Any]) -> str:
    """Format the medians with their range."""
    rows = [["", "checkout", "killed after", "repeated in", "CPU", "peak memory", "sent again"]]
    checkouts = data["transfers"]
    for what in next(iter(checkouts.values())):
        for checkout, transfers in checkouts.items():

            def figure(key: str, form: str, unit: str, rounds: Any = transfers[what]) -> str:
                values = [each[key] for each in rounds]
                return "-" if None in values else f"{spread(values).text(form)} {unit}"

            rows.append([
                what, checkout, figure("first_seconds", ".1f", "s"),
                figure("second_seconds", ".1f", "s"), figure("cpu_seconds", ".1f", "s"),
                figure("peak_mb", ".0f", "MB"), figure("sent_again_mb", ".1f", "MB"),
            ])  # fmt: skip
    return columns(rows)


class _Command:
    """Runs `python -m jobs` of a checkout."""

    def __init__(self, checkout: Path, variables: Mapping[str, str], scratch: Path) -> None:
        self._checkout, self._scratch = checkout, scratch
        self._variables = {**os.environ, **variables}

    def upload(self, source: Path, run_name: str) -> Transfer:
        """Upload a folder as the files of a run."""
        before, size = self._stored(), _size(source)
        to = f"results/{RUNS}/{run_name}/{run_name}"
        return self._twice(
            ["upload", str(source), "--to", to, "--register", "False"],
            size,
            lambda: self._stored() - before,
            received=True,
        )

    def download(self, run_name: str, target: Path) -> Transfer:
        """Download the files of a run."""
        words = ["download", run_name, "--to", str(target)]
        size = _size(self._scratch / f"source-{run_name[-1]}")
        return self._twice(words, size, lambda: _size(target), received=False)

    def _twice(
        self, words: Sequence[str], size: int, arrived: Callable[[], int], *, received: bool
    ) -> Transfer:
        first = self._run(words, lambda: arrived() >= size / 2)
        second = self._run(words, lambda: False)
        return Transfer(
            first_seconds=first[0],
            second_seconds=second[0],
            cpu_seconds=first[1] + second[1],
            peak_mb=max(first[2], second[2]),
            sent_again_mb=(arrived() - size) / 1e6 if received else None,
        )

    def _run(self, words: Sequence[str], is_half: Callable[[], bool]) -> tuple[float, float, float]:
        """Run a command; return its seconds, CPU seconds and peak memory in MB."""
        began = time.monotonic()
        process = subprocess.Popen(
            [PYTHON, "-m", "jobs", *words, "--json"],
            cwd=self._checkout,
            env=self._variables,
            stdout=subprocess.DEVNULL,
        )
        killed, peak, pid = False, 0.0, 0
        try:
            while not pid:
                peak = max(peak, _peak_mb(process.pid))
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if not pid and not killed and is_half():
                    os.kill(process.pid, signal.SIGKILL)
                    killed = True
                time.sleep(0.05)
        finally:
            if not pid:
                os.kill(process.pid, signal.SIGKILL)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode and not killed:
            raise UserError(f"{shlex.join(words)}: failed with exit status {process.returncode}")
        seconds = time.monotonic() - began
        return seconds, usage.ru_utime + usage.ru_stime, peak

    def _stored(self) -> int:
        """Return the bytes that the blob server has stored, also those of unfinished uploads."""
        return sum(_size(path) for path in (self._scratch / "state").rglob("__blobstorage__"))


@contextmanager
def _stand_in(state: Path) -> Iterator[dict[str, str]]:
    """Start the platform that the tests use; yield the environment variables of its clients."""
    state.mkdir()
    command = [PYTHON, "-m", "tests.jobs.support.live", str(state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            variables = {}
            for line in process.stdout:
                name, _, value = shlex.split(line)[1].partition("=")
                variables[name] = value
                if name == "JOBS_OUTPUTS":
                    break
            if "JOBS_OUTPUTS" not in variables:
                raise UserError("the stand-in did not start; see its output above")
            yield variables
        finally:
            process.terminate()


def _peak_mb(pid: int) -> float:
    """Return the peak resident memory of a process in MB, 0 if it has ended.

    `wait4` would count the memory of this process before it started the other one.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def _write(folder: Path, count: int, size: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"file-{number:05d}").write_bytes(os.urandom(size))


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder, 0 if it does not exist."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).stat().st_size
            except FileNotFoundError:
                # A temporary file was renamed meanwhile.
                continue
    return total


def _compare(source: Path, target: Path) -> None:
    names = [path.name for path in source.iterdir()]
    _, wrong, missing = filecmp.cmpfiles(source, target, names, shallow=False)
    if wrong or missing:
        raise UserError(
            f"{target}: {plural(len(wrong), 'file differs', 'files differ')},"
            f" {plural(len(missing), 'is', 'are')} missing"
        )
