"""How CPU time and memory of a preparation for detection grow with the images.

No pixel is read. Writes folders of empty files and COCO's JSON with two boxes for each: as many
images in as many folders as the square root of their number, whose names are the same in each
folder, as frames of films have them, and a quarter more entries of files that are not there. A
process of its own then takes for each size the steps of a preparation before it reads an image: it
finds and matches the files, reads the boxes, lists all with numbered names, looks for
near-duplicates among random hashes, and lists the same files once more as a table describes them.
"""

import json
import math
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np

from common.annotations import Bounds
from tools.benchmarks.measure import BenchmarkOptions, columns, spread
from trainer.config import Positive
from trainer.data.duplicates.hashes import find_matches
from trainer.data.intake.names import Naming
from trainer.data.prepare.encode import Rules
from trainer.data.prepare.listing import Listing
from trainer.data.prepare.shards import FileRange, Preparation
from trainer.data.tables.options import PrepareTableOptions
from trainer.data.tables.prepare import table_inputs
from trainer.extras.detection.data import coco
from trainer.extras.detection.data.folder import Folder
from trainer.extras.detection.data.options import PrepareDetectionOptions
from trainer.extras.detection.data.prepare import listed

FACTOR: Final = 4
"""Ratio of the larger size to the smaller one."""
_STEPS: Final = {
    "annotations": "find files, read and match annotations",
    "listing": "list all, with numbered names",
    "near-duplicates": "find near-duplicates among hashes",
    "table": "read a table, find files and list all",
}
_SIZES: Final = {
    "listing_mb": "highest memory, boxes listed, MB",
    "table_mb": "highest memory, the table listed as well, MB",
    "all_mb": "highest memory, near-duplicates found as well, MB",
    "task": "bytes of a task",
}


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Measure how a preparation grows with the images."""

    images: Annotated[int, Bounds(at_least=1000)] = 20_000
    """Images of the smaller size; the larger has four times as many."""
    rounds: Annotated[int, Positive] = 2
    """Number of measurements of each size."""
    scratch: str | None = None
    """Folder for scratch files; by default that of the system."""


def measure(options: Options) -> dict[str, Any]:
    """Return, for each size, the CPU seconds of each step, MB and bytes of a task of each round."""
    rounds: dict[str, list[dict[str, float]]] = {}
    for count in (options.images, FACTOR * options.images):
        with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
            root = Path(scratch)
            _write(root, count)
            command = [sys.executable, "-m", "tools.benchmarks.images.growth", scratch, str(count)]
            for _ in range(options.rounds):
                done = subprocess.run(command, capture_output=True, check=True, text=True)
                rounds.setdefault(str(count), []).append(json.loads(done.stdout.splitlines()[-1]))
    return {"rounds": rounds}


def show(data: Mapping[str, Any]) -> str:
    """Format the rounds as a table."""
    (small, first), (large, second) = data["rounds"].items()
    rows = [["", f"{int(small):,} images", f"{int(large):,} images", "power of the images"]]
    # Earlier results lack some rows.
    for step, words in _STEPS.items():
        if step not in first[0]:
            continue
        times = [
            spread([1e6 * one[step] / int(count) for one in rounds])
            for count, rounds in data["rounds"].items()
        ]
        growth = int(large) * times[1].median / (int(small) * times[0].median)
        power = math.log(growth) / math.log(int(large) / int(small))
        rows.append([f"{words}, CPU-µs/image", *(t.text(".0f") for t in times), f"{power:.2f}"])
    for name, words in _SIZES.items():
        if name not in first[0]:
            continue
        values = [spread([one[name] for one in rounds]) for rounds in (first, second)]
        rows.append([words, *(value.text(".0f") for value in values), ""])
    return columns(rows)


def _write(root: Path, count: int) -> None:
    """Write the folder of a size."""
    side = round(math.sqrt(count))
    names = [f"{n // side:05}/{n % side:05}.jpg" for n in range(count)]
    for name in names:
        path = root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with (root / "table.csv").open("w") as file:
        file.write("file,class,patient,age\n")
        for n, name in enumerate(names):
            file.write(f"{name},{'ab'[n % 2]},P{n // 5:07},{n % 90}\n")
    gone = [f"gone/{n}.jpg" for n in range(count // 4)]
    with (root / "in/instances.json").open("w") as file:
        file.write('{"images": [')
        file.write(",".join(_entries([*names, *gone])))
        file.write('], "annotations": [')
        file.write(",".join(_boxes(2 * count, count)))
        file.write('], "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}')


def _entries(names: list[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        yield f'{{"id": {number}, "file_name": "{name}", "width": 640, "height": 480}}'


def _boxes(boxes: int, images: int) -> Iterator[str]:
    for number in range(boxes):
        box = [number % 300, number % 200, 50, 60]
        yield (
            f'{{"id": {number}, "image_id": {number % images}, "category_id": {1 + number % 2},'
            f' "bbox": {box}, "area": 3000, "iscrowd": 0, "segmentation": [[1, 2, 3, 4, 5, 6]]}}'
        )


def _grow(root: Path, count: int) -> dict[str, float]:
    """Do the steps of a size."""
    times, began = dict[str, float](), time.process_time()
    files = Folder(root / "in")
    annotations = coco.read([root / "in/instances.json"], files)
    inputs = listed(annotations, PrepareDetectionOptions(), files.images_count)
    times["annotations"] = time.process_time() - began
    began = time.process_time()
    listing = Listing(root / "listing.sqlite")
    listing.fill(inputs, 0, 0.1, Naming("numbered"))
    assert sum(size.files for size in listing.split_sizes().values()) == count
    listing.close()
    (root / "listing.sqlite").unlink()
    times["listing"] = time.process_time() - began
    times["listing_mb"] = _highest_mb()
    began = time.process_time()
    options = PrepareTableOptions(input=str(root / "in"), table=str(root / "table.csv"))
    of_table = table_inputs(root / "in", options)
    listing = Listing(root / "listing.sqlite")
    listing.fill(of_table, 0, 0.1, group=of_table.group)
    assert sum(size.files for size in listing.split_sizes().values()) == count
    listing.close()
    (root / "listing.sqlite").unlink()
    times["table"] = time.process_time() - began
    times["table_mb"] = _highest_mb()
    preparation = Preparation(
        Path("listing"), Path("out"), inputs.classes, (), Rules(1), inputs.targets
    )
    times["task"] = len(pickle.dumps(FileRange(preparation, "train", 0, 1)))
    hashes = np.random.default_rng(0).integers(0, 1 << 63, [count], np.uint64)
    began = time.process_time()
    find_matches(hashes, hashes[::10] ^ np.uint64(5), 4)
    times["near-duplicates"] = time.process_time() - began
    times["all_mb"] = _highest_mb()
    return times


def _highest_mb() -> float:
    """Return the most memory that this process had. Not `getrusage`, which counts that of the
    process that started it as well.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    print(json.dumps(_grow(Path(sys.argv[1]), int(sys.argv[2]))))
