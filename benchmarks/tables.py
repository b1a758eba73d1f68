"""What each benchmark shows of its raw rounds, as Markdown.

The same functions print a measurement and render the tables of docs/benchmarks.md from
benchmarks/results/*.json (a test holds them together).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.measure import Sample, Samples, Spread, columns, ratio, spread, table
from trainer.presets import PRESETS

OURS, BARE_LOOP, CALLS, FIT = "our loop", "bare in-graph loop", "tf.function a step", "Keras fit"
BARE, TAPE = "bare grouped all-reduce", "DistributedGradientTape"
UNSCALE = "loss scale: check and divide"
ALONE, APART = "1 rank alone", "2 apart"
SHIPPED_CYCLE_MS = PRESETS["synthetic"].exchange.cycle_time_ms
PIPELINE, FLOOR = "our pipeline", "decode and resize alone"
IN_BACKGROUND, SYNCHRONOUS = "in the background", "synchronous"
FIRST_SAVE, RESERVED = "first save", "first save, memory reserved"
TEXTBOOK, REENCODED = "textbook pipeline", "ours, re-encoded"


def together(cycle_ms: float) -> str:
    """Name of two ranks with a cycle time, in `benchmark train`."""
    return f"2 ranks, {cycle_ms:g} ms cycle"


def loop(worlds: Mapping[Any, Mapping[str, Any]]) -> str:
    """Tables of `benchmark loop`, one a world."""
    parts = []
    for ranks, rounds in worlds.items():
        samples = read(rounds)
        heading = "1 rank" if int(ranks) == 1 else f"{ranks} ranks"
        parts += [f"{heading}:", table(samples, "step", [BARE_LOOP, CALLS])]
    return "\n\n".join(parts)


def exchange(samples: Mapping[str, Any], sent: Mapping[str, Sequence[float]]) -> str:
    """Tables of `benchmark exchange`."""
    found = read(samples)
    rows = [["", "MB sent by a rank", "ring's formula", f"wall / {BARE}"]]
    for name, (seen, formula) in sent.items():
        elapsed = ratio(found, name, BARE, "wall_ms").text()
        rows.append([name, f"{seen / 1e6:.2f}", f"{formula / 1e6:.2f}", elapsed])
    return f"{table(found, 'exchange', [BARE])}\n\n{columns(rows)}"


def train(rounds: Mapping[Any, Sequence[Mapping[str, float]]]) -> str:
    """Tables of `benchmark train`, one an image size."""
    parts = []
    for size, rates in rounds.items():
        rows = [["", "images/s", "part of 2 apart"]]
        for name in rates[0]:
            part = spread([each[name] / each[APART] for each in rates])
            shown = "" if name in (ALONE, APART) else part.text(".1%")
            rows.append([name, spread([each[name] for each in rates]).text(), shown])
        parts += [f"{size} pixels:", columns(rows)]
    return "\n\n".join(parts)


def input_(samples: Mapping[str, Any], bytes_per_image: int, peak_mib: float, threads: int) -> str:
    """Table and facts of `benchmark input`."""
    found = read(samples)
    rates = {
        name: spread([1000 / sample.wall_ms for sample in rounds]) for name, rounds in found.items()
    }
    speed = "; ".join(f"{name} {rate.text('.0f')} images/s" for name, rate in rates.items())
    return (
        f"{table(found, 'image', [FLOOR, TEXTBOOK, PIPELINE])}\n\n"
        f"With {threads} threads: {speed}. {bytes_per_image:,} bytes an image to the device."
        f" {peak_mib:,.0f} MiB of memory at the peak, above what TensorFlow holds anyway."
    )


def checkpoint(rounds: Mapping[str, Sequence[Mapping[str, float | None]]], bytes_saved: int) -> str:
    """Table and facts of `benchmark checkpoint`."""
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
        f"{columns(rows)}\n\n{bytes_saved:,} bytes are written and synced in {written.text()} s. An"
        f" undisturbed step takes {before.text('.0f')} ms."
    )


def saving_ratio(
    rounds: Mapping[str, Sequence[Mapping[str, float | None]]], name: str, field: str
) -> Spread:
    """A figure of a way to save over that of a synchronous save, formed inside each round."""
    pairs = zip(_values(rounds[name], field), _values(rounds[SYNCHRONOUS], field), strict=True)
    return spread([ours / synchronous for ours, synchronous in pairs])


def _values(turns: Sequence[Mapping[str, float | None]], field: str) -> list[float]:
    return [value for turn in turns if (value := turn[field]) is not None]


def read(samples: Mapping[str, Any]) -> Samples:
    """Samples as they are, or as JSON has them."""
    return {
        name: [each if isinstance(each, Sample) else Sample(**each) for each in rounds]
        for name, rounds in samples.items()
    }


RENDER: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "loop": lambda data: loop(data["worlds"]),
    "exchange": lambda data: exchange(data["samples"], data["sent"]),
    "train": lambda data: train(data["rounds"]),
    "input": lambda data: input_(
        data["samples"], data["bytes_per_image"], data["peak_mib"], data["threads"]
    ),
    "checkpoint": lambda data: checkpoint(data["rounds"], data["bytes"]),
}
"""From a file that `--json` wrote to its tables, by the name of the benchmark."""
