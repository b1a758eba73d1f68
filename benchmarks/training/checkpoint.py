"""Cost of saving: how long the training stops, and how much it is slowed down afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from benchmarks.measure import BenchmarkOptions, Spread, columns, spread
from benchmarks.processes import in_process
from trainer.config import Positive

IN_BACKGROUND, SYNCHRONOUS = "in the background", "synchronous"
FIRST_SAVE, RESERVED = "first save", "first save, memory reserved"
GOAL: Final = 0.10
"""Largest acceptable ratio of a save in the background to a synchronous one."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Milliseconds that a training of ResNet50 stops to save its state, 205 MB with momentum, and
    loses while these are written in the background, compared with a synchronous save.
    """

    folder: str | None = None
    """Folder to write to, on the disk or mount to measure, by default the system's for temporary
    files. Everything written is deleted again."""

    steps: Annotated[int, Positive] = 10
    """Undisturbed steps before each save."""

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each contender."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the cost of saving."""
    return in_process("benchmarks.training.checkpoint_contenders:measure", **options.settings())


def goals(data: Mapping[str, Any]) -> str:
    """Compare the ratios with the goal."""
    return "\n".join(
        f"in the background / synchronous, {what}:"
        f" {saving_ratio(data['rounds'], IN_BACKGROUND, field).text()}; the goal is at most"
        f" {GOAL:.2f}"
        for what, field in (("standing still", "stall_ms"), ("the step", "step_with_save_ms"))
    )


def show(data: Mapping[str, Any]) -> str:
    """Format the table, and the size and time of a save."""
    rounds: Mapping[str, Sequence[Mapping[str, float | None]]] = data["rounds"]
    rows = [
        [
            *("", "training stands still, ms", "/ synchronous", "step with the save, ms longer"),
            *("/ synchronous", "all steps until on disk, ms longer", "a step meanwhile / before"),
        ]
    ]
    for name, turns in rounds.items():
        cells = [name]
        for field in ("stall_ms", "step_with_save_ms"):
            cells += [
                spread(_values(turns, field)).text(".0f"),
                saving_ratio(rounds, name, field).text(),
            ]
        slow = _values(turns, "slow_down")
        lost = spread(_values(turns, "lost_ms")).text(".0f")
        rows.append([*cells, lost, spread(slow).text() if slow else ""])
    written = spread(_values(rounds[IN_BACKGROUND], "background_s"))
    before = spread([step for turns in rounds.values() for step in _values(turns, "step_ms")])
    return (
        f"{columns(rows)}\n\n{data['bytes']:,} bytes are written and synced in {written.text()} s."
        f" An undisturbed step takes {before.text('.0f')} ms."
    )


def saving_ratio(
    rounds: Mapping[str, Sequence[Mapping[str, float | None]]], name: str, field: str
) -> Spread:
    """Return the ratio of a contender's figure to the synchronous save's, within each round."""
    pairs = zip(_values(rounds[name], field), _values(rounds[SYNCHRONOUS], field), strict=True)
    return spread([ours / synchronous for ours, synchronous in pairs])


def _values(turns: Sequence[Mapping[str, float | None]], field: str) -> list[float]:
    return [value for turn in turns if (value := turn[field]) is not None]
