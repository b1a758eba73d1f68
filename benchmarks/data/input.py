"""CPU time of an image from shard to batch, compared with decoding alone and other pipelines."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from benchmarks.data.photos import write_photos
from benchmarks.measure import BenchmarkOptions, read_samples, spread, table
from benchmarks.processes import in_process
from common.errors import UserError
from trainer.config import NotNegative, Positive
from trainer.diagnostics.environment import cores

PIPELINE, FLOOR = "our pipeline", "decode and resize alone"
TEXTBOOK, REENCODED = "textbook pipeline", "ours, re-encoded"
PHOTOS: Final = 1000
COPIES: Final = 10
"""Number of copies of each photograph in the data sets of `--photos`."""
SHAPING: Final = ("--reencode", "292:90")


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of an image from shard to batch, compared with decoding and resizing alone
    and with a textbook pipeline.
    """

    data: str | None = None
    """Folder of a data set; by default a temporary one of 1,000 images of noise."""

    reencoded: str | None = None
    """Folder of the same images prepared with --reencode, for comparison."""

    photos: bool = False
    """Make 1,000 photographs as large as ImageNet's, and measure with data sets of ten copies of
    each: one with the original photographs, and one re-encoded."""

    image_size: Annotated[int, Positive] = 224
    """Height and width of the input, in pixels."""

    batch_size: Annotated[int, Positive] = 64
    """Images per batch."""

    batches: Annotated[int, Positive] = 140
    """Batches per turn. Windows are read completely and ahead, so a turn should be about an epoch
    of a small data set; fewer batches would count too much or too little reading."""

    threads: Annotated[int, NotNegative] = 0
    """Images decoded at once; 0 is one per core."""

    rounds: Annotated[int, Positive] = 9
    """Number of turns of each contender."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the input pipeline of a data set."""
    if options.photos and (options.data or options.reencoded):
        raise UserError("--photos: makes its own data sets; leave out --data and --reencoded")
    settings = options.settings() | {"threads": options.threads or cores()}
    del settings["photos"]
    with tempfile.TemporaryDirectory() as scratch:
        if options.photos:
            settings["data"], settings["reencoded"] = _prepare_photos(Path(scratch))
        return in_process("benchmarks.data.input_contenders:measure", **settings)


def _prepare_photos(scratch: Path) -> tuple[str, str]:
    """Prepare data sets of photographs, original and re-encoded."""
    photos = scratch / "photos"
    write_photos(photos, PHOTOS)
    for photo in list(photos.glob("*/*.jpg")):
        for copy in range(1, COPIES):
            os.link(photo, photo.with_stem(f"{photo.stem}-{copy}"))
    whole, reencoded = f"{scratch}/whole", f"{scratch}/reencoded"
    for output, shaping in ((whole, ()), (reencoded, SHAPING)):
        command = ["prepare", "folder", "--input", str(photos), "--output", output, *shaping]
        done = subprocess.run([sys.executable, "-m", "trainer", *command], check=False)
        if done.returncode:
            raise UserError(f"{output}: could not be prepared; see the output above")
    return whole, reencoded


def show(data: Mapping[str, Any]) -> str:
    """Format the table and the other results."""
    samples = read_samples(data["samples"])
    rates = {
        name: spread([1000 / sample.wall_ms for sample in rounds])
        for name, rounds in samples.items()
    }
    speed = "; ".join(f"{name} {rate.text('.0f')} images/s" for name, rate in rates.items())
    return (
        f"{table(samples, 'image', [FLOOR, TEXTBOOK, PIPELINE])}\n\n"
        f"With {data['threads']} threads: {speed}. {data['bytes_per_image']:,} bytes an image to"
        f" the device. {data['peak_mib']:,.0f} MiB of memory at the peak, above what TensorFlow"
        " holds anyway."
    )
