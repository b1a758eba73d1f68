"""The figures of a GPU: images/s of this trainer and of others on it, and which runs end twice with
the same bits. One command on a machine with a GPU prints the tables.

Each contender is a process of its own, one at a time, in several turns. A contender whose packages
are not installed, or that fails, is named with the last line of its error.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from common.program import ROOT
from jobs.throughput import FILE, FOLDER, Point, append
from tools.benchmarks.measure import BenchmarkOptions, columns, spread
from trainer.checkpoints.folder import CheckpointFolder
from trainer.config import Positive

Part = Literal["speed", "peers", "data", "bits"]
PRECISIONS: Final = ("mixed_bfloat16", "mixed_float16", "float32")
KINDS: Final[Mapping[str, Sequence[str]]] = {
    "classification": ("--preset", "digits", "--ranks", "1"),
    "segmentation": ("--preset", "scenes", "--ranks", "1"),
    "detection": ("--preset", "shapes", "--ranks", "1"),
    "several labels": ("--preset", "tiles", "--ranks", "1"),
    "dropout": (
        *("--preset", "digits", "--ranks", "1", "--model.network", "MobileNetV3Small"),
        *("--model.image-size", "32"),
    ),
}
"""Kinds of run whose bits are compared."""
_QUIET: Final = ("--export", "False", "--log.report", "False", "--restarts", "0")
_POINTS: Final = {"XLA": True, "without XLA": False}
"""Contenders whose images/s `plan` uses, and whether XLA compiles their steps."""
_WAYS: Final = ("repeated", "killed", "deterministic, repeated", "deterministic, killed")


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Images/s on this machine's GPU, compared with PyTorch, flax and Keras where they are
    installed, and pairs of runs that should end with the same bits. Without a GPU it measures the
    CPU, for which the default sizes are too large.
    """

    parts: tuple[Part, ...] = ("speed", "peers", "bits")
    """speed: this trainer on synthetic images; peers: others on them; data: this trainer on the
    data set of `--data`, compared with synthetic images; bits: pairs of runs."""

    precisions: tuple[Literal["mixed_bfloat16", "mixed_float16", "float32"], ...] = PRECISIONS
    """Precisions to compute with."""

    kinds: tuple[str, ...] = tuple(KINDS)
    """Kinds of run whose bits are compared."""

    data: str = ""
    """Folder of a data set of photographs."""

    peer_python: str = sys.executable
    """Python that has the packages of others."""

    batch: Annotated[int, Positive] = 256
    """Images in a step."""

    image_size: Annotated[int, Positive] = 224
    """Height and width of images."""

    steps: Annotated[int, Positive] = 20
    """Steps in a timed interval."""

    rounds: Annotated[int, Positive] = 4
    """Timed intervals of a process."""

    turns: Annotated[int, Positive] = 1
    """Processes of each contender, in turns with the others."""

    updates: Annotated[int, Positive] = 60
    """Updates of the runs whose bits are compared."""

    timeout_seconds: Annotated[int, Positive] = 300
    """Longest time of a process."""

    points: str = f"{FOLDER}/gpu/{FILE}"
    """File to which images/s of this trainer on the GPU are appended, for `plan`; without a GPU
    nothing is."""


def measure(options: Options) -> dict[str, Any]:
    """Run all contenders."""
    with tempfile.TemporaryDirectory() as folder:
        work = Work(options, Path(folder))
        contenders = work.contenders()
        rates: dict[str, list[Any]] = {name: [] for name in contenders}
        for turn in range(options.turns):
            for name, command in contenders.items():
                rates[name].append(work.rates(name, command, turn))
        bits = work.bits() if "bits" in options.parts else {}
    gpu = _gpu()
    if gpu:
        for point in points_of(options, rates, gpu.partition(",")[0]):
            append(Path(options.points), point)
    return {"gpu": gpu, "rates": rates, "bits": bits}


def points_of(
    options: Options, rates: Mapping[str, Sequence[Mapping[str, Any]]], gpu: str
) -> list[Point]:
    """Return the measured points of this trainer with synthetic images, one rank each.

    Args:
        options: Options of the benchmark.
        rates: Results of the processes of each contender.
        gpu: Name of the GPU.
    """
    points = []
    for precision, (name, xla) in product(options.precisions, _POINTS.items()):
        turns = rates.get(f"trainer, {name}, {precision}", ())
        measured = tuple(rate for turn in turns for rate in turn.get("rates", ()))
        if measured:
            sizes = options.batch, options.image_size
            at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            points.append(
                Point(
                    *("this machine", 1, 1, "ResNet-50", precision, *sizes, measured),
                    at=at,
                    environment={"gpu": gpu},
                    xla=xla,
                )
            )
    return points


class Work:
    """The processes of a measurement."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._options, self._folder = options, folder

    def contenders(self) -> dict[str, list[str]]:
        """Return the command of each contender by its name."""
        options, commands = self._options, {}
        for precision in options.precisions:
            for name, more in self._own().items():
                commands[f"trainer, {name}, {precision}"] = [
                    *(sys.executable, "-m", "trainer", "train", *self._sizes(), *more),
                    *("--compute.precision", precision, *_QUIET),
                ]
            if "peers" in options.parts:
                sizes = (options.batch, options.image_size, options.steps, options.rounds)
                for peer in ("flax", "torch", "keras"):
                    file = ROOT / "tools/benchmarks/training/peers" / f"{peer}_resnet50.py"
                    commands[f"{peer}, {precision}"] = [
                        *(options.peer_python, str(file), *map(str, sizes), precision),
                    ]
        return commands

    def _own(self) -> dict[str, Sequence[str]]:
        options = self._options
        rows: dict[str, Sequence[str]] = {}
        if "speed" in options.parts:
            rows = {
                "XLA": ("--compute.xla", "True"),
                "XLA, deterministic": ("--compute.xla", "True", "--compute.deterministic", "True"),
                "without XLA": (),
            }
        if "data" in options.parts:
            stored = ("--data.source", "tfrecords", "--data.dir", options.data)
            rows |= {
                "XLA": ("--compute.xla", "True"),
                f"XLA, images of {Path(options.data).name}": ("--compute.xla", "True", *stored),
            }
        return rows

    def _sizes(self) -> list[str]:
        options = self._options
        return [
            *("--preset", "synthetic", "--ranks", "1", "--batch-size", str(options.batch)),
            *("--model.image-size", str(options.image_size), "--log.every-steps"),
            *(str(options.steps), "--max-steps", str(options.steps * (options.rounds + 1))),
            *("--evaluation.every-epochs", "0", "--runs-dir", str(self._folder)),
        ]

    def rates(self, name: str, command: Sequence[str], turn: int) -> dict[str, Any]:
        """Run a contender; return images/s of each interval and seconds of the first step, or its
        error.
        """
        own = command[1:3] == ["-m", "trainer"]
        run = f"{name}-{turn}".replace(" ", "").replace(",", "-")
        done = self._run([*command, *(("--name", run) if own else ())])
        if isinstance(done, str):
            result: dict[str, Any] = {"error": done}
        elif own:
            result = _own_rates(self._folder / run)
        else:
            result = json.loads(done.stdout.splitlines()[-1])
        shown = result.get("error") or f"{spread(result['rates']).text('.0f')} images/s"
        print(f"{name}: {shown}", flush=True)
        return result

    def bits(self) -> dict[str, dict[str, str]]:
        """Return, by kind, precision and XLA, how pairs of runs ended."""
        ends: dict[str, dict[str, str]] = {}
        options = self._options
        for kind, precision, xla in product(options.kinds, options.precisions, (False, True)):
            name = f"{kind}, {precision}" + ", XLA" * xla
            train = [
                *(sys.executable, "-m", "trainer", "train", *KINDS[kind], *_QUIET),
                *("--compute.precision", precision, "--compute.xla", str(xla)),
                *("--max-steps", str(options.updates), "--runs-dir", str(self._folder)),
                *("--checkpoint.every-steps", "10", "--log.every-steps", "5"),
            ]
            ends[name] = {}
            for deterministic in (False, True):
                more = ["--compute.deterministic", str(deterministic)]
                first = self._end([*train, *more])
                for killed in (False, True):
                    way = _WAYS[2 * deterministic + killed]
                    second = self._end([*train, *more], killed=killed)
                    same = "same bits" if first == second else "other bits"
                    failed = next((end for end in (first, second) if " " in end), "")
                    ends[name][way] = failed or f"{same}: {first} {second}"
            print(f"{name}: {ends[name]}", flush=True)
        return ends

    def _end(self, train: Sequence[str], *, killed: bool = False) -> str:
        """Train, also through a kill, and return a SHA-256 of the last state, or the error."""
        run = self._folder / f"bits-{time.monotonic_ns()}"
        command = [*train, "--name", run.name]
        if killed:
            self._kill_after_a_checkpoint(command, run)
        done = self._run(command)
        if isinstance(done, str):
            return f"failed: {done}"
        newest = CheckpointFolder(run / "checkpoints").newest()
        assert newest is not None
        digest = hashlib.sha256()
        for name, array in sorted(newest.load().items()):
            digest.update(name.encode() + array.tobytes())
        return digest.hexdigest()[:12]

    def _kill_after_a_checkpoint(self, command: Sequence[str], run: Path) -> None:
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + self._options.timeout_seconds
        while process.poll() is None and time.monotonic() < end:
            if CheckpointFolder(run / "checkpoints").newest() is not None:
                break
            time.sleep(0.05)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str] | str":
        """Run a command; return the last line of its error if it fails."""
        limit = self._options.timeout_seconds
        try:
            done = subprocess.run(
                command,
                cwd=self._folder,
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"took longer than {limit} s"
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            return lines[-1] if lines else f"status {done.returncode}"
        return done

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}


def show(data: Mapping[str, Any]) -> str:
    """Format a table of rates, each as a part of flax's in the same precision, and one of bits."""
    rates = {
        name: spread([rate for turn in turns for rate in turn.get("rates", ())])
        for name, turns in data["rates"].items()
        if any("rates" in turn for turn in turns)
    }
    rows = [["", "images/s", "first step, s", "of flax"]]
    for name, turns in data["rates"].items():
        if name not in rates:
            rows.append([name, turns[0]["error"], "", ""])
            continue
        flax = rates.get(f"flax, {name.rpartition(', ')[2]}")
        part = f"{rates[name].median / flax.median:.2f}" if flax else ""
        first = spread([turn["first_step"] for turn in turns if "rates" in turn])
        rows.append([name, rates[name].text(".0f"), first.text(".1f"), part])
    parts = [f"GPU: {data['gpu'] or 'none'}"]
    if data["rates"]:
        parts.append(columns(rows))
    if data["bits"]:
        lines = [[name, *(ends[way] for way in _WAYS)] for name, ends in data["bits"].items()]
        parts.append(columns([["", *_WAYS], *lines]))
    return "\n\n".join(parts)


def _own_rates(run: Path) -> dict[str, Any]:
    """Read images/s of each interval but the first, which the data set's start slows down."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    timed = [line for line in lines if line["event"] == "train" and "images_per_second" in line]
    seconds = json.loads((run / "result.json").read_text())["seconds"]
    return {
        "rates": [line["images_per_second"] for line in timed[1:]],
        "data_wait_percent": [line["data_wait_percent"] for line in timed[1:]],
        "first_step": seconds["compile"],
    }


def _gpu() -> str:
    """Return name, driver and memory of the GPUs, as nvidia-smi prints them; empty without one."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
