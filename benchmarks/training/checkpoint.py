"""What saving costs a training: how long it stands still, and what it loses afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from benchmarks.measure import BenchmarkOptions, Spread, columns, publish, spread
from benchmarks.processes import in_process
from trainer.config import Positive
from trainer.diagnostics.environment import environment

IN_BACKGROUND, SYNCHRONOUS = "in the background", "synchronous"
FIRST_SAVE, RESERVED = "first save", "first save, memory reserved"
GOAL: Final = 0.10
"""A save in the background over a synchronous one at most."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Milliseconds that a training of ResNet50 stands still to save its state, 205 MB with
    momentum, and what it loses while they are written in the background; beside a synchronous save.
    """

    folder: str | None = None
    """Folder to write into, on the disk or mount to be measured; none is the system's for temporary
    files. All that is written is deleted."""

    steps: Annotated[int, Positive] = 10
    """Undisturbed steps before each save."""

    rounds: Annotated[int, Positive] = 5
    """How often each contender has its turn."""


def run(options: Options) -> None:
    """Measure what saving costs a training."""
    started_on = environment()
    measured = in_process(
        "benchmarks.training.checkpoint_contenders:measure",
        folder=options.folder,
        steps=options.steps,
        rounds=options.rounds,
    )
    data = publish("checkpoint", options, started_on, show, **measured)
    for what, field in (("standing still", "stall_ms"), ("the step", "step_with_save_ms")):
        part = saving_ratio(data["rounds"], IN_BACKGROUND, field)
        print(
            f"in the background / synchronous, {what}: {part.text()}; the goal is at most"
            f" {GOAL:.2f}"
        )


def show(data: Mapping[str, Any]) -> str:
    """The table, and what a save writes."""
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
    """A figure of a way to save over that of a synchronous save, formed inside each round."""
    pairs = zip(_values(rounds[name], field), _values(rounds[SYNCHRONOUS], field), strict=True)
    return spread([ours / synchronous for ours, synchronous in pairs])


def _values(turns: Sequence[Mapping[str, float | None]], field: str) -> list[float]:
    return [value for turn in turns if (value := turn[field]) is not None]
