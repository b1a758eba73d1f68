"""CPU time of an image from shard to batch, compared with decoding alone and other pipelines."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from benchmarks.data.input_names import FLOOR, PARQUET, PIPELINE, TEXTBOOK
from benchmarks.data.photos import write_parquet, write_photos
from benchmarks.measure import (
    BenchmarkOptions,
    Samples,
    columns,
    ratio,
    read_samples,
    spread,
    table,
)
from benchmarks.processes import in_process
from common.errors import UserError
from trainer.config import NotNegative, Positive
from trainer.diagnostics.environment import cores

SHIPPED, DEFAULT = "as shipped", "glibc's default"
"""What happens to freed memory: a rank keeps it (`keep_freed_memory`); by default glibc returns
large blocks to the system at once."""
BLOCKS: Final = 2
"""Processes for each of these, one after the other in turns, among which the rounds are divided."""
NOISE: Final = 1000
"""Images of the data set that is made if none is given."""
ABOVE_FLOOR: Final = 0.10
"""Largest acceptable CPU time of an image above decoding and resizing it alone, in milliseconds."""
OF_FLOOR, OF_TFRECORDS = 1.06, 1.05
"""Largest acceptable ratios: of our pipeline to decoding alone, and of Parquet to TFRecords."""
PHOTOS: Final = 1000
COPIES: Final = 3
"""Number of copies of each photograph in the data sets of `--photos`."""
SHAPING: Final = ("--reencode", "292:90")


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of an image from shard to batch, compared with decoding and resizing alone
    and with a textbook pipeline.
    """

    data: str | None = None
    """Folder of a data set; by default a temporary one of 1,000 images of noise."""

    parquet: str | None = None
    """Folder of the same images in Parquet files, described by `prepare parquet`."""

    reencoded: str | None = None
    """Folder of the same images prepared with --reencode, for comparison."""

    photos: bool = False
    """Make 1,000 photographs as large as ImageNet's, and measure with data sets of three copies of
    each: the original photographs as TFRecords and as Parquet files, and re-encoded."""

    breakdown: bool = False
    """Measure the stages of the input besides decoding instead."""

    image_size: Annotated[int, Positive] = 224
    """Height and width of the input, in pixels."""

    batch_size: Annotated[int, Positive] = 64
    """Images per batch."""

    batches: Annotated[int, Positive] = 42
    """Batches per turn. Windows are read completely and ahead, so a turn should be about an epoch
    of a small data set; fewer batches would count too much or too little reading."""

    threads: Annotated[int, NotNegative] = 0
    """Images decoded at once; 0 is one per core."""

    rounds: Annotated[int, Positive] = 14
    """Number of turns of each contender, divided among two processes."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the input pipeline of a data set."""
    if options.photos and (options.data or options.parquet or options.reencoded):
        raise UserError("--photos: makes its own data sets; leave out those options")
    settings = options.settings() | {"threads": options.threads or cores()}
    del settings["photos"], settings["breakdown"]
    settings["rounds"] = -(-options.rounds // BLOCKS)
    with tempfile.TemporaryDirectory() as scratch:
        if options.photos:
            settings |= _prepare_photos(Path(scratch))
        elif not options.data:
            settings["data"] = f"{scratch}/noise"
            write = "benchmarks.data.reading:write_noise"
            in_process(write, folder=settings["data"], images=NOISE)
        if options.breakdown:
            names = ("data", "parquet", "image_size", "batch_size", "threads")
            stages = in_process(
                "benchmarks.data.input_breakdown:measure",
                rounds=options.rounds,
                **{name: settings[name] for name in names},
            )
            return {"breakdown": stages}
        samples: dict[str, dict[str, list[Any]]] = {SHIPPED: {}, DEFAULT: {}}
        for block in range(BLOCKS):
            for memory, rounds in samples.items():
                print(f"memory {memory}, process {block + 1} of {BLOCKS}", flush=True)
                result = in_process(
                    "benchmarks.data.input_contenders:measure",
                    as_shipped=memory == SHIPPED,
                    **settings,
                )
                peaks = rounds.setdefault("peak_mib", [])
                peaks.append(result["peak_mib"])
                for name, turns in result["samples"].items():
                    rounds.setdefault(name, []).extend(turns)
    peak_mib = {memory: rounds.pop("peak_mib") for memory, rounds in samples.items()}
    return {
        "samples": samples[SHIPPED],
        "default_samples": samples[DEFAULT],
        "bytes_per_image": result["bytes_per_image"],
        "peak_mib": peak_mib,
        "threads": settings["threads"],
    }


def _prepare_photos(scratch: Path) -> dict[str, str]:
    """Prepare data sets of photographs; return them by the names of their options."""
    photos = scratch / "photos"
    write_photos(photos, PHOTOS)
    for photo in list(photos.glob("*/*.jpg")):
        for copy in range(1, COPIES):
            os.link(photo, photo.with_stem(f"{photo.stem}-{copy}"))
    folders = {name: f"{scratch}/{name}" for name in ("data", "reencoded", "parquet")}
    from_photos = ["folder", "--input", str(photos), "--output"]
    _prepare(*from_photos, folders["data"])
    _prepare(*from_photos, folders["reencoded"], *SHAPING)
    write_parquet(Path(folders["data"]), Path(folders["parquet"]))
    _prepare("parquet", "--input", folders["parquet"])
    return folders


def _prepare(*args: str) -> None:
    command = [sys.executable, "-m", "trainer", "prepare", *args]
    if subprocess.run(command, check=False).returncode:
        raise UserError("a data set could not be prepared; see the output above")


def show(data: Mapping[str, Any]) -> str:
    """Format the tables and the other results."""
    if "breakdown" in data:
        return _show_breakdown(data["breakdown"])
    shipped, default = (read_samples(data[name]) for name in ("samples", "default_samples"))
    rates = {
        name: spread([1000 / sample.wall_ms for sample in rounds])
        for name, rounds in shipped.items()
    }
    speed = "; ".join(f"{name} {rate.text('.0f')} images/s" for name, rate in rates.items())
    peaks = " and ".join(
        f"{spread(peaks).text(',.0f')} MiB {memory}" for memory, peaks in data["peak_mib"].items()
    )
    lines = [
        f"- our pipeline above decode and resize alone, CPU-ms an image: {above(shipped)}"
        f" {SHIPPED}, {above(default)} with {DEFAULT}; the goal is at most {ABOVE_FLOOR:.2f}",
        f"- our pipeline / decode and resize alone {ratio(shipped, PIPELINE, FLOOR).text()}; the"
        f" goal is at most {OF_FLOOR}",
    ]
    if PARQUET in shipped:
        lines.append(
            f"- Parquet / TFRecords {ratio(shipped, PARQUET, PIPELINE).text()}; the goal is at"
            f" most {OF_TFRECORDS}"
        )
    return (
        f"{table(shipped, 'image', [FLOOR, TEXTBOOK, PIPELINE])}\n\n"
        f"The same with freed memory returned as glibc does by default:\n\n"
        f"{table(default, 'image', [FLOOR, PIPELINE])}\n\n"
        + "\n".join(lines)
        + f"\n\nWith {data['threads']} threads: {speed}. {data['bytes_per_image']:,} bytes an image"
        f" to the device. Memory at the peak, above what TensorFlow holds anyway: {peaks}."
    )


def _show_breakdown(breakdown: Mapping[str, Any]) -> str:
    """Format a table of the stages: their CPU time, and how much more it is than before."""
    rows = [["stage, with all before it", "CPU-ms/image", "more than before"]]
    for name, samples in breakdown.items():
        before = 0.0
        for stage, turns in read_samples(samples).items():
            cost = spread([turn.cpu_ms for turn in turns])
            rows.append([f"{name}: {stage}", cost.text(".3f"), f"{cost.median - before:.3f}"])
            before = cost.median
    return columns(rows)


def above(samples: Samples) -> str:
    """Return the CPU-ms of an image by our pipeline that exceed those of decoding, by round."""
    pairs = zip(samples[PIPELINE], samples[FLOOR], strict=True)
    return spread([ours.cpu_ms - floor.cpu_ms for ours, floor in pairs]).text()
