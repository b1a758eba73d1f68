"""Cost per image of `ml-trainer prepare folder`, compared with a copy of the bytes and with
the usual converter.

Makes 1,000 photographs (tools/benchmarks/photos.py) and gives each 10 and 20 names by hard links.
The difference between both is the cost per image; the rest is fixed: the start, and the survey of
512 images. CPU time is that of a whole command with all its processes; only that of the converter
excludes TensorFlow's import, and so needs just the 1,000 photographs. Scratch files are in memory,
because a disk would still be busy with one turn while the next is measured.

The converter works as those that come with TensorFlow's examples (build_imagenet_data.py): one
process decodes every image to learn its size and writes a record.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tools.benchmarks.measure import (
    BenchmarkOptions,
    Sample,
    Samples,
    ratio,
    read_samples,
    spread,
    table,
)
from tools.benchmarks.photos import write_photos
from trainer.config import Positive

PHOTOS = 1000
TIMES = (10, 20)
"""Number of names of each photograph in the two folders."""
OURS, ALONE = "prepare folder", "the same by 1 process"
KEPT = "the same with --metadata keep"
NOT_COMPARED = ("--near-duplicates", "off")
NEAR = "the same with --near-duplicates report"
COPY, USUAL = "copy of the bytes", "usual converter"
FASTER, COPIES, STRIPPED = 6, 2.0, 1.05
"""Goals: least factor by which the CPU time is below that of the usual converter, and largest ratio
to that of a copy, and of a whole command to one that keeps metadata."""

COPYING = """
import os, sys
with open(sys.argv[2], "wb") as output:
    for folder, _, names in os.walk(sys.argv[1]):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                output.write(file.read())
"""

CONVERTING = """
import os, sys, time
import tensorflow as tf

def feature(value):
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

tf.io.decode_jpeg(tf.io.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8)), channels=3)
cpu, wall, images = time.process_time(), time.perf_counter(), 0
with tf.io.TFRecordWriter(sys.argv[2]) as writer:
    for label, name in enumerate(sorted(os.listdir(sys.argv[1]))):
        for file in os.listdir(os.path.join(sys.argv[1], name)):
            with tf.io.gfile.GFile(os.path.join(sys.argv[1], name, file), "rb") as opened:
                data = opened.read()
            height, width, channels = tf.io.decode_jpeg(data, channels=3).shape
            writer.write(tf.train.Example(features=tf.train.Features(feature={
                "image/height": feature(height),
                "image/width": feature(width),
                "image/colorspace": feature(b"RGB"),
                "image/channels": feature(channels),
                "image/class/label": feature(label),
                "image/class/text": feature(name.encode()),
                "image/format": feature(b"JPEG"),
                "image/filename": feature(file.encode()),
                "image/encoded": feature(data),
            })).SerializeToString())
            images += 1
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print(1000 * cpu / images, 1000 * wall / images)
"""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of an image from file to shard, compared with a copy of the bytes and the
    usual converter.
    """

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each contender."""

    photos: str | None = None
    """Folder written by `write-photos`; by default 1,000 photographs are made."""

    scratch: str | None = None
    """Folder for 3 GB, on the same disk as --photos; by default that for temporary files."""


def measure(options: Options) -> dict[str, Any]:
    """Measure all contenders in turns."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        photos = scratch / "photos" if options.photos is None else Path(options.photos)
        if options.photos is None:
            write_photos(photos, PHOTOS)
        return measure_times(photos, scratch, options.rounds)


def prepare_command(*options: str) -> Callable[[Path, Path], list[str]]:
    """Return our command line, given the folder of the images and that to write."""
    command = [sys.executable, "-m", "trainer", "prepare", "folder", *options]
    return lambda folder, output: [*command, "--input", str(folder), "--output", str(output)]


def copy_command(folder: Path, output: Path) -> list[str]:
    """Return a command of plain Python that reads each file and writes it."""
    return [sys.executable, "-I", "-S", "-c", COPYING, str(folder), str(output)]


def multiply(photos: Path, folder: Path, times: int) -> None:
    """Create a number of hard links for each file, in the same classes."""
    for photo in photos.glob("*/*"):
        target = folder / photo.parent.name
        target.mkdir(parents=True, exist_ok=True)
        for number in range(times):
            os.link(photo, target / f"{photo.stem}-{number}{photo.suffix}")


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Return CPU and elapsed seconds of a command with all the processes that it starts."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measure_times(photos: Path, scratch: Path, rounds: int) -> dict[str, Any]:
    """Measure all contenders in turns.

    Args:
        photos: Folder of the photographs.
        scratch: Folder for the hard links and for the output.
        rounds: Number of measurements of each.

    Returns:
        samples: milliseconds per image; seconds: CPU seconds of the whole commands, by name and
        number of images.
    """
    number = sum(1 for _ in photos.glob("*/*"))
    folders = {number * times: scratch / f"{number * times}" for times in TIMES}
    for images, folder in folders.items():
        multiply(photos, folder, images // number)
    few, many = folders
    # By one process, so that cores do not slow each other down.
    alone = ("--processes", "1")
    commands = {
        OURS: prepare_command(*NOT_COMPARED),
        ALONE: prepare_command(*alone, *NOT_COMPARED),
        KEPT: prepare_command(*alone, *NOT_COMPARED, "--metadata", "keep"),
        NEAR: prepare_command(*alone, "--near-duplicates", "report"),
        COPY: copy_command,
    }
    samples: Samples = {name: [] for name in (*commands, USUAL)}
    seconds: dict[str, list[dict[int, float]]] = {name: [] for name in commands}
    for turn in range(rounds):
        for name, command in commands.items():
            measured = {}
            for images, folder in folders.items():
                with tempfile.TemporaryDirectory(dir=scratch) as output:
                    measured[images] = timed(command(folder, Path(output) / "written"))
            cpu, wall = (
                1000 * (more - less) / (many - few)
                for less, more in zip(measured[few], measured[many], strict=True)
            )
            samples[name].append(Sample(cpu, wall))
            seconds[name].append({images: each[0] for images, each in measured.items()})
        with tempfile.TemporaryDirectory(dir=scratch) as output:
            arguments = [str(photos), str(Path(output) / "written")]
            cpu, wall = map(
                float,
                subprocess.run(
                    [sys.executable, "-c", CONVERTING, *arguments],
                    check=True,
                    capture_output=True,
                    text=True,
                    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
                ).stdout.split(),
            )
            samples[USUAL].append(Sample(cpu, wall))
        print(f"round {turn + 1} of {rounds}", flush=True)
    return {"samples": samples, "seconds": seconds}


def show(data: Mapping[str, Any]) -> str:
    """Format the table."""
    return table(read_samples(data["samples"]), "image", [COPY, USUAL])


def goals(data: Mapping[str, Any]) -> str:
    """Compare the results with the goals, and tell the fixed seconds of each command."""
    samples = read_samples(data["samples"])
    lines = [
        f"{USUAL} / {OURS} {ratio(samples, USUAL, OURS).text()}; the goal is at least {FASTER}",
        f"{OURS} / {COPY} {ratio(samples, OURS, COPY).text()}; the goal is at most {COPIES}",
    ]
    if KEPT in data["seconds"]:
        whole = [
            [max(rounds.values()) for rounds in data["seconds"][name]] for name in (ALONE, KEPT)
        ]
        stripping = spread(
            [ours / kept_metadata for ours, kept_metadata in zip(*whole, strict=True)]
        ).text()
        lines.append(
            f"removing metadata / keeping them {stripping}, of the larger command's CPU time; the"
            f" goal is at most {STRIPPED}"
        )
    if NEAR in data["seconds"]:
        lines.append(f"{NEAR} / {ALONE} {ratio(samples, NEAR, ALONE).text()}")
    for name, rounds in data["seconds"].items():
        fixed = spread([_fixed(seconds) for seconds in rounds]).text()
        lines.append(f"{name}: {fixed} fixed CPU seconds")
    return "\n".join(lines)


def _fixed(seconds: Mapping[str, float]) -> float:
    """Extrapolate the seconds of a command without images, from both numbers of images.

    Args:
        seconds: Seconds by number of images.
    """
    (few, less), (many, more) = ((int(count), value) for count, value in seconds.items())
    return less - few * (more - less) / (many - few)
