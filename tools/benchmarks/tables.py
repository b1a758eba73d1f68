"""Tables of the documents from raw rounds in tools/benchmarks/results/.

Some of these rounds are of contenders whose question is decided. Their code is in the history of
this repository, at the commit that docs/tested.md names.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from common.text import duration, size
from tools.benchmarks.measure import columns, ratio, read_samples, spread, table
from trainer.tasks.classification.trust import wilson

Data = Mapping[str, Any]
Turn = Mapping[str, Any]


class Column(NamedTuple):
    """A column of figures: medians over the rounds with their range."""

    title: str
    value: Callable[[Turn, Turn], float | None]
    """Returns the figure of a turn, given the turn of the reference in the same round; None if it
    has none."""
    form: str = ".2f"
    unit: str = ""


def of(key: str, title: str, form: str = ".2f", scale: float = 1.0, unit: str = "") -> Column:
    """Return the column of a figure by its key, multiplied by a factor."""

    def value(turn: Turn, _: Turn) -> float | None:
        return None if turn[key] is None else scale * float(turn[key])

    return Column(title, value, form, unit)


def against(key: str, title: str) -> Column:
    """Return the column of a figure's ratio to that of the reference."""
    return Column(title, lambda turn, other: float(turn[key] / other[key]))


def rounds(
    head: str, *shown: Column, reference: str = "", label: str = "{}"
) -> Callable[[Data], str]:
    """Return what formats the rounds of contenders, one a line.

    Args:
        head: Title of the contenders.
        shown: Columns.
        reference: Contender that others are compared with; empty if none is.
        label: Form of a contender's name.
    """

    def formatted(data: Data) -> str:
        contenders = data["rounds"]
        lines = [[head, *(column.title for column in shown)]]
        for name, turns in contenders.items():
            pairs = [*zip(turns, contenders[reference] if reference else turns, strict=True)]
            cells = [label.format(name)]
            for column in shown:
                values = [value for pair in pairs if (value := column.value(*pair)) is not None]
                text = spread(values).text(column.form) if values else ""
                cells.append(f"{text} {column.unit}".strip())
            lines.append(cells)
        return columns(lines)

    return formatted


def sampled(data: Data, references: Sequence[str]) -> str:
    """Format a table of times for each group of contenders."""
    parts = []
    for name, samples in data.items():
        parts += [f"{name}:", table(read_samples(samples), "image", references)]
    return "\n\n".join(parts)


def optimizers(data: Data) -> str:
    """Format steps and updates with each optimizer, in CPU time."""
    samples = read_samples(data["samples"])
    groups = ({name: samples[name] for name in samples if name.startswith(unit)} for unit in _UNITS)
    pairs = zip(groups, _UNITS, strict=True)
    return "\n\n".join(table(group, unit, [f"{unit}, momentum"]) for group, unit in pairs)


_UNITS: Final = ("step", "update")


def score(data: Data) -> str:
    """Format files of scores compared with decoding and predicting alone."""
    alone, ours = "decode and predict alone", "trainer score"
    rows = [["", f"images/s, part of {alone}"]]
    for name, samples in data["samples"].items():
        rows.append([name, ratio(read_samples(samples), alone, ours, "wall_ms").text()])
    return f"{sampled(data['samples'], [alone])}\n\n{columns(rows)}"


def engines(data: Data) -> str:
    """Format the SavedModel compared with ONNX Runtime."""
    saved_model, onnx = "SavedModel", "Pillow and ONNX Runtime"
    rows = [["", f"{saved_model} / {onnx}, CPU time", "images with the same class"]]
    for name, network in data["networks"].items():
        part = ratio(read_samples(network["samples"]), saved_model, onnx).text()
        rows.append([name, part, f"{network['same_class']} of {network['images']}"])
    samples = {name: network["samples"] for name, network in data["networks"].items()}
    return f"{sampled(samples, [saved_model])}\n\n{columns(rows)}"


def breakdown(data: Data) -> str:
    """Format the stages of the input: their CPU time, and how much more it is than before."""
    rows = [["stage, with all before it", "CPU-ms/image", "more than before"]]
    for name, samples in data["breakdown"].items():
        before = 0.0
        for stage, turns in read_samples(samples).items():
            cost = spread([turn.cpu_ms for turn in turns])
            rows.append([f"{name}: {stage}", cost.text(".3f"), f"{cost.median - before:.3f}"])
            before = cost.median
    return columns(rows)


def memory(data: Data) -> str:
    """Format the memory of a rank's input by the length of the data set."""
    rows = [["images", "MiB held", "MiB at most, by the formula"]]
    for images, turns in data["rounds"].items():
        held = spread([turn["mib"] for turn in turns]).text(".0f")
        rows.append([f"{int(images):,}", held, f"{turns[0]['bound_mib']:.0f}"])
    return columns(rows)


def reencode(data: Data) -> str:
    """Format how predictions on re-encoded photographs agree with those on the originals."""
    total = data["images"]
    rows = [["", f"of {total:,} photographs", "95 % interval"]]
    for name in ("same prediction", "right on the original", "right on the re-encoded image"):
        low, high = wilson(data[name], total)
        rows.append([name, f"{data[name] / total:.1%}", f"{low:.1%}-{high:.1%}"])
    return columns(rows)


def spark_prepare(data: Data) -> str:
    """Format the memory of Spark's driver while it prepares images."""
    head = ["executors", "images", "shards", "time", "images/s", "driver, at the highest"]
    rows = [[*head, "its Python", "its JVM"]]
    for run in data["runs"]:
        counts = [f"{run[name]:,}" for name in head[:3]]
        speed = [duration(run["seconds"]), f"{run['images'] / run['seconds']:,.0f}"]
        peaks = [size(run[name]) for name in ("peak", "python_peak", "jvm_peak")]
        rows.append([*counts, *speed, *peaks])
    return columns(rows)


def equal_sums(data: Data) -> str:
    """Format the times of all contenders."""
    parts = ["A step:", table(read_samples(data["step"]), "step", ["default exchange"])]
    for kib, samples in data["exchanges"].items():
        parts += [f"{kib} KiB:", table(read_samples(samples), "exchange", ["all-reduce"])]
    return "\n\n".join(parts)


def evidence(data: Data) -> str:
    """Format the times of a run's statements, and their share."""
    samples = read_samples(data["samples"])
    pairs = zip(samples["a statement about a checkpoint"], samples["a step"], strict=True)
    shares = sorted(100 * stated.cpu_ms / (data["between"] * step.cpu_ms) for stated, step in pairs)
    times = table(samples, "unit", ["a step"])
    return (
        f"{times}\n\nWith a checkpoint of {data['bytes']:,} bytes every {data['between']} steps,"
        f" statements take {shares[len(shares) // 2]:.2f} % of the CPU time of steps"
        f" ({shares[0]:.2f} to {shares[-1]:.2f} %)."
    )


_METRICS: Final = {"digits": "top-1", "scenes": "mean IoU without background"}


def batches(data: Data) -> str:
    """Format a table with a row for each contender."""
    target = data["options"]["target"]
    rows = [
        [
            "global batch, steps",
            "optimizer, peak rate",
            "momentum of batch norm's statistics",
            f"epochs to {target:.0%}",
            f"{_METRICS[data['options']['preset']]} at the end",
        ]
    ]
    for row in data["rows"]:
        ends = spread([result["score"] for result in row["rounds"]])
        rows.append(
            [
                f"{row['batch']:,}, {row['rounds'][0]['steps']}",
                row["optimizer"],
                f"{row['batch_norm_momentum']:g}",
                ", ".join(_reached(result["after_epochs"], target) for result in row["rounds"]),
                f"{ends.low:.1%}" + (f" to {ends.high:.1%}" if len(row["rounds"]) > 1 else ""),
            ]
        )
    return columns(rows)


def _reached(after_epochs: list[float], target: float) -> str:
    """Return the first epoch, counted from 1, whose evaluation reached the target."""
    epochs = (number for number, score in enumerate(after_epochs, 1) if score >= target)
    return str(next(epochs, "never"))


def fine_tune(data: Data) -> str:
    """Format a table with a row for each way, and a column for each number of images."""
    numbers = data["options"]["images"]
    rows = [["a run begins with", *(f"top-1 with {number} images a class" for number in numbers)]]
    for way in dict.fromkeys(row["way"] for row in data["rows"]):
        cells = []
        for number in numbers:
            values = spread(
                [
                    row["top1"]
                    for row in data["rows"]
                    if (row["way"], row["images"]) == (way, number)
                ]
            )
            cells.append(f"{values.median:.1%} ({values.low:.1%} to {values.high:.1%})")
        rows.append([way, *cells])
    return columns(rows)


def damage(data: Data) -> str:
    """Format the table."""
    samples, names = read_samples(data["samples"]), list(data["rejected"])
    rows = [
        [kind, *(f"{data['rejected'][name][kind]} of {data['images']}" for name in names)]
        for kind in data["rejected"][names[0]]
    ]
    cost = [spread([sample.cpu_ms for sample in samples[name]]).text() for name in names]
    return columns([["rejected if", *names], *rows, ["CPU-ms of a whole image", *cost]])


def exports(data: Data) -> str:
    """Format the table."""
    samples = {batch: read_samples(times_of) for batch, times_of in data["samples"].items()}
    head = [f"CPU-ms/image, {batch} in a call" for batch in samples]
    rows = [["", "size", data["metric"], *head]]
    for name, facts in data["models"].items():
        times = [
            spread([turn.cpu_ms for turn in times_of[name]]).text() for times_of in samples.values()
        ]
        rows.append([f"`{name}`", size(facts["bytes"]), f"{facts['score']:.2%}", *times])
    return columns(rows)


def spot(data: Data) -> str:
    """Format the results."""
    rows = [
        [
            "node held, gone (mean h)",
            "wait for 4 nodes",
            "4, 2 or 1 nodes",
            "oracle",
            "hours",
            "USD",
        ]
    ]
    ratios: dict[str, list[float]] = {"hours": [], "usd": []}
    for name, ways in data["traces"].items():
        wait, fewer = ways["wait"], ways["with what there is"]
        ratios["hours"].append(_hours(fewer) / _hours(wait))
        ratios["usd"].append(fewer["usd"] / wait["usd"])
        _, held, _, gone = name.split("-")
        rows.append(
            [f"{held}, {gone}", *(_words(way) for way in ways.values()),
             *(f"x {values[-1]:.2f}" for values in ratios.values())]
        )  # fmt: skip
    for label, pick in (("median", median), ("worst", max)):
        rows.append([label, "", "", "", *(f"x {pick(values):.2f}" for values in ratios.values())])
    return columns(rows)


_DAYS: Final = 20
"""Days of a trace of capacity."""


def _hours(result: Data) -> float:
    """Return the hours of a run, or those of the trace if it did not end."""
    return float(result["hours"] or _DAYS * 24)


def _words(result: Data) -> str:
    time = f"{result['hours']:.0f} h" if result["hours"] else f"not in {_DAYS} days"
    starts = f", {result['attempts']} starts" if result["attempts"] > 1 else ""
    return f"{time}, {result['usd']:,.0f} USD{starts}"


def chaos(data: Data) -> str:
    """Format the faults of a disturbed run, and how it recovered from each."""
    rows = [["", "signal", "to", "in", "after step", "the command", "took step", "after, s"]]
    for number, recovery in enumerate(data["recoveries"], 1):
        ended, fault = recovery["ended"], recovery["fault"]
        rows.append(
            [
                *(str(number), fault["signal"], fault["target"], fault["phase"]),
                *(f"{recovery['step']:,}", "continued" if ended is None else f"ended with {ended}"),
                *(f"{recovery['resumed_at']:,}", f"{recovery['seconds']:.1f}"),
            ]
        )
    return columns(rows)


loads = rounds(
    "",
    of("images_per_s", "images/s", ".0f"),
    of("p50_ms", "p50, ms", ".1f"),
    of("p99_ms", "p99, ms", ".0f"),
    of("cpu_ms", "CPU-ms/image"),
)
"""Formats the loads of a scoring server."""

DECIDED: Final[Mapping[str, Callable[[Data], str]]] = {
    "memory": memory,
    "reencode": reencode,
    "input-breakdown": breakdown,
    "spark-prepare": spark_prepare,
    "optimizers": optimizers,
    "score": score,
    "engines": engines,
    "chaos": chaos,
    "virtual-ranks": equal_sums,
    "evidence": evidence,
    "batches": batches,
    "fine-tune": fine_tune,
    "damage": damage,
    "exports": exports,
    "spot": spot,
    "removal": lambda data: table(
        read_samples(data["samples"]), "image", ["decode a baseline JPEG"]
    ),
    "treatment": lambda data: table(
        read_samples(data["samples"]), "image", ["decode and crop, in the graph"]
    ),
    "slow-storage": rounds(
        "a read takes longer by",
        of("images_per_second", "images/s", ".0f"),
        against("images_per_second", "/ without"),
        of("first_batch_seconds", "first batch, s"),
        of("cpu_ms_per_image", "CPU-ms/image"),
        reference="0",
        label="{} ms",
    ),
    "mount": rounds(
        "the mount caches",
        of("first_seconds", "first batch, s", ".1f"),
        of("waited_seconds", "waits later, s", ".1f"),
        of("longest_seconds", "longest, s", ".1f"),
        of("waited_share", "data wait", ".0f", 100, "%"),
    ),
    "resume": rounds(
        "rank 0 of, epoch done",
        of("seconds", "first record, s"),
        of("bytes", "MB read", ".0f", 1e-6),
        Column(
            "/ two windows a stream", lambda turn, _: turn["bytes"] / turn["bytes_of_two_windows"]
        ),
    ),
    "checkpoint": rounds(
        "",
        of("stall_ms", "training stands still, ms", ".0f"),
        against("stall_ms", "/ synchronous"),
        of("step_with_save_ms", "step with the save, ms longer", ".0f"),
        against("step_with_save_ms", "/ synchronous"),
        of("lost_ms", "all steps until on disk, ms longer", ".0f"),
        of("slow_down", "a step meanwhile / before"),
        reference="synchronous",
    ),
}
"""Formats of questions that are decided, by the name of their table."""
