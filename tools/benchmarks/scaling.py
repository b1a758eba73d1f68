"""Throughput of this machine by number of ranks: whole runs of the synthetic preset."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from common.errors import ConfigError, UserError
from jobs.extras.scaling.measurement import share
from jobs.throughput import (
    FILE,
    FOLDER,
    Point,
    Span,
    alike,
    append,
    efficiency,
    name_problems,
    read,
)
from tools.benchmarks.measure import columns
from trainer.config import Positive
from trainer.diagnostics.environment import environment
from trainer.presets import parse_train

MACHINE: Final = "this machine"
_LAST_LINES: Final = 3
HEADS: Final = ("ranks", "images/s", "range", "repeats", "efficiency")


@dataclass(frozen=True)
class Options:
    """Images/s of the synthetic preset by number of ranks, in `scaling/NAME/`: points.jsonl, which
    is only appended to, and a table. Started again with the same name, it measures the missing
    points. It takes some minutes.
    """

    name: str = "this-machine"
    """Name of the measurement."""

    ranks: Annotated[tuple[int, ...], Positive] = (1, 2)
    """Numbers of ranks to measure."""

    repeat: Annotated[int, Positive] = 3
    """Runs of each point."""

    steps: Annotated[int, Positive] = 20
    """Timed steps of a run; the first one, which compiles, is not timed."""

    image_size: Annotated[int, Positive] = 64
    """Height and width of the images."""

    batch_size: Annotated[int, Positive] = 16
    """Images of a rank in each step."""

    depth: Annotated[int, Positive] = 50
    """Layers of the ResNet."""

    folder: str = FOLDER
    """Folder of all measurements."""

    def __post_init__(self) -> None:
        problems = name_problems(self.name)
        if not self.ranks:
            problems.append("--ranks: name at least one number of ranks")
        if problems:
            raise ConfigError(problems)


def run(options: Options) -> int:
    """Measure the missing points, and print the table; return 1 if a run failed."""
    folder = Path(options.folder) / options.name
    file = folder / FILE
    arguments = trainer_arguments(options)
    precision = parse_train(arguments).compute.precision
    wanted = Point(
        *(MACHINE, 1, 1, f"ResNet-{options.depth}", precision),
        *(options.batch_size, options.image_size, ()),
    )
    points = read(file) if file.exists() else []
    missing = sorted(set(options.ranks) - {one.ranks for one in alike(points, wanted)})
    if len(missing) < len(set(options.ranks)):
        print(f"{file}: {len(set(options.ranks)) - len(missing)} points are measured already")
    status = 0
    for ranks in missing:
        point = measured(replace(wanted, ranks=ranks), arguments, options.repeat)
        append(file, point)
        points.append(point)
        if point.problem:
            print(f"{ranks} ranks: {point.problem}", file=sys.stderr)
            status = 1
    comparable = alike(points, wanted)
    if not comparable:
        return status
    print(columns([list(HEADS), *rows(comparable)]))
    print(f"points: {file}")
    return status


def trainer_arguments(options: Options) -> list[str]:
    """Return the options that all runs share: all but ranks, folder and name."""
    return [
        *("--preset", "synthetic", "--max-steps", str(options.steps + 1)),
        *("--model.depth", str(options.depth), "--model.image-size", str(options.image_size)),
        *("--batch-size", str(options.batch_size)),
        # Each rate is that of a single attempt.
        *("--restarts", "0", "--log.report", "False"),
    ]


def measured(point: Point, arguments: Sequence[str], repeat: int) -> Point:
    """Train several times, and return the point with the rates, or with why a training failed."""
    rates: list[float] = []
    known = {name: str(value) for name, value in environment().items()}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, repeat + 1):
            try:
                rates.append(_train(Path(folder), f"run-{number}", point.ranks, arguments))
            except UserError as error:
                return replace(point, at=_now(), environment=known, problem=str(error))
            print(
                f"{point.ranks} ranks, {number} of {repeat}: {rates[-1]:,.1f} images/s", flush=True
            )
    return replace(point, rates=tuple(rates), at=_now(), environment=known)


def _train(folder: Path, name: str, ranks: int, arguments: Sequence[str]) -> float:
    """Run one training and return its images/s."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trainer", "train", *arguments, "--ranks", str(ranks)),
            *("--runs-dir", str(folder), "--name", name),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        last = " / ".join(done.stdout.strip().splitlines()[-_LAST_LINES:])
        raise UserError(f"the training ended with status {done.returncode}: {last}")
    result = json.loads((folder / name / "result.json").read_text(encoding="utf-8"))
    return float(result["images_per_second"])


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def rows(points: Sequence[Point]) -> list[list[str]]:
    """Return the cells of the points of one configuration."""
    cells = []
    single = next((candidate for candidate in points if candidate.ranks == 1), None)
    for point in points:
        low, middle, high = Span.of(point.rates).values
        cells.append(
            [
                *(str(point.ranks), f"{middle:,.1f}", f"{low:,.1f} - {high:,.1f}"),
                *(str(len(point.rates)), share(efficiency(point, single))),
            ]
        )
    return cells
