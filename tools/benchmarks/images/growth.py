"""How CPU time and memory of a preparation grow with the images.

Writes folders of small images and COCO's JSON with two boxes for each: as many images in as many
folders as the square root of their number, whose names are the same in each folder, as frames of
films have them, and a quarter more entries of files that are not there. For each size and each step
a process of its own then takes that step of a preparation with all images, so that the highest
memory of a process is that of its step.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np

from common.annotations import Bounds
from tools.benchmarks.measure import BenchmarkOptions, columns, spread
from trainer.config import Positive
from trainer.data.duplicates.search import ROW, HashFile, find_matches
from trainer.data.intake.groups import save_groups
from trainer.data.intake.names import Naming
from trainer.data.prepare.folder import prepare_folder
from trainer.data.prepare.input_files import ImageFile, Inputs
from trainer.data.prepare.listing import Listing
from trainer.data.prepare.options import PrepareFolderOptions, WriteOptions
from trainer.data.prepare.rejected import RejectedFile, Rejections
from trainer.data.tables.options import PrepareTableOptions
from trainer.data.tables.prepare import table_inputs
from trainer.extras.detection.data import coco
from trainer.extras.detection.data.folder import Folder
from trainer.extras.detection.data.options import PrepareDetectionOptions
from trainer.extras.detection.data.prepare import listed
from trainer.scoring.listing import Machine, list_images

FACTOR: Final = 4
"""Ratio of the larger size to the smaller one."""
_HASHES: Final = 25
"""Hashes for each image: they are cheap, and memory is bounded by more of them than other steps
have images."""
_PIXEL: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415478da63e04c3e"
    "010001ad0135ee6a199e0000000049454e44ae426082"
)
"""A PNG of one pixel."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Measure how a preparation grows with the images."""

    images: Annotated[int, Bounds(at_least=1000)] = 20_000
    """Images of the smaller size; the larger has four times as many."""
    rounds: Annotated[int, Positive] = 1
    """Number of measurements of each size."""
    scratch: str | None = None
    """Folder for scratch files; by default that of the system."""


def measure(options: Options) -> dict[str, Any]:
    """Return, for each size and each step, the CPU seconds and the highest MB of each round."""
    sizes: dict[str, dict[str, list[dict[str, float]]]] = {}
    for count in (options.images, FACTOR * options.images):
        with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
            _write(Path(scratch), count)
            rounds = sizes[str(count)] = {step: [] for step in STEPS}
            for step in STEPS * options.rounds:
                command = [sys.executable, "-m", "tools.benchmarks.images.growth", step, scratch]
                done = subprocess.run(
                    [*command, str(count)], capture_output=True, check=True, text=True
                )
                rounds[step].append(json.loads(done.stdout.splitlines()[-1]))
    return {"sizes": sizes}


def show(data: Mapping[str, Any]) -> str:
    """Format the rounds as a table."""
    (small, few), (large, many) = data["sizes"].items()
    more = int(large) - int(small)
    heads = [f"CPU-µs/image, {int(count):,}" for count in (small, large)]
    rows = [["", *heads, "power", "highest MB", "bytes per further image"]]
    for step, (words, _) in _STEPS.items():
        times = [
            spread([1e6 * measured["seconds"] / int(count) for measured in rounds[step]])
            for count, rounds in ((small, few), (large, many))
        ]
        growth = int(large) * times[1].median / (int(small) * times[0].median)
        power = math.log(growth) / math.log(int(large) / int(small))
        memory = [
            spread([measured["mb"] for measured in rounds[step]]).median for rounds in (few, many)
        ]
        rows.append([
            words, *(time_.text(".0f") for time_ in times), f"{power:.2f}",
            f"{memory[0]:.0f}, {memory[1]:.0f}", f"{1e6 * (memory[1] - memory[0]) / more:.0f}",
        ])  # fmt: skip
    return columns(rows)


def _write(root: Path, count: int) -> None:
    """Write the folder of a size."""
    side = round(math.sqrt(count))
    names = [f"{n // side:05}/{n % side:05}.jpg" for n in range(count)]
    for name in names:
        path = root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_PIXEL)
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


def _detection(root: Path, count: int) -> None:
    files = Folder(root / "in")
    annotations = coco.read([root / "in/instances.json"], files)
    inputs = listed(annotations, PrepareDetectionOptions(), files.images_count)
    _list(root, count, inputs, Naming("numbered"))


def _table(root: Path, count: int) -> None:
    options = PrepareTableOptions(input=str(root / "in"), table=str(root / "table.csv"))
    _list(root, count, table_inputs(root / "in", options))


def _list(root: Path, count: int, inputs: Inputs, naming: Naming = Naming()) -> None:  # noqa: B008
    listing = Listing(root / "listing.sqlite")
    listing.fill(inputs, 0, 0.1, naming, inputs.group)
    assert sum(size.files for size in listing.split_sizes().values()) == count
    rejections = Rejections(listing.rejected(), count, WriteOptions())
    save_groups(root, listing.group_numbers(left_out=rejections.has))
    listing.close()
    listing.path.unlink()


def _names(root: Path, count: int) -> None:
    def files() -> Iterator[ImageFile | RejectedFile]:
        for n in range(count):
            if n % 4:
                yield ImageFile("", f"{n // 100}/{n:09}.jpg", n % 100, "/in", 0, 1)
            else:
                yield RejectedFile("", f"{n // 100}/{n:09}.jpg", "is empty")

    listing = Listing(root / "listing.sqlite")
    classes = tuple(f"class {n}" for n in range(100))
    listing.fill(Inputs(classes, files), 0, 0.1, Naming("numbered"))
    assert sum(1 for _ in listing.names()) == count
    listing.close()
    listing.path.unlink()


def _rejected(root: Path, count: int) -> None:
    files = (RejectedFile("", f"{n // 100}/{n:09}.jpg", "is empty") for n in range(count))
    rejections = Rejections(files, count, WriteOptions(max_rejected="100%"))
    rejections.check(root, finished=True)
    rejections.save(root)


def _near_duplicates(_: Path, count: int) -> None:
    noise, training, held_out = np.random.default_rng(0), HashFile(), HashFile()
    for begin in range(0, _HASHES * count, count):
        rows = np.zeros(count, ROW)
        rows["hash"] = noise.integers(0, 1 << 63, count, np.uint64)
        rows["place"] = np.arange(begin, begin + count)
        training.add(rows)
        near = rows[::10].copy()
        near["hash"] ^= np.uint64(5)
        held_out.add(near)
    (matches,) = find_matches(training, held_out, 4).execute("SELECT count(*) FROM match")
    assert matches == (held_out.count,)


def _score(root: Path, count: int) -> None:
    with tempfile.TemporaryDirectory(dir=root) as output:
        listing = root / "images.sqlite"
        images = list_images(root / "in", Path(output), Machine(0, 1), Naming(), listing)
    listing.unlink()
    assert images == count


def _prepare(root: Path, count: int) -> None:
    with tempfile.TemporaryDirectory(dir=root) as output:
        options = PrepareFolderOptions(
            input=str(root / "in"), output=output, group_by=r"(.*)\d[.]", processes=1
        )
        manifest = prepare_folder(options, "prepare")
    assert sum(split.examples for split in manifest.splits.values()) == count


_STEPS: Final[dict[str, tuple[str, Callable[[Path, int], None]]]] = {
    "detection": ("COCO: match files and two boxes each, list with numbers", _detection),
    "names": ("number names, a quarter of rejected files", _names),
    "table": ("a table: match files, list with groups", _table),
    "rejected": ("list as many rejected files", _rejected),
    "near-duplicates": (f"find near-duplicates among {_HASHES} hashes an image", _near_duplicates),
    "prepare": ("a whole preparation of small images with groups", _prepare),
    "score": ("`score`: list the names", _score),
}
STEPS: Final = tuple(_STEPS)


def _highest_mb() -> float:
    """Return the most memory that this process had. Not `getrusage`, which counts that of the
    process that started it as well.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


if __name__ == "__main__":
    step_, root_, count_ = sys.argv[1:]
    begun = time.process_time()
    _STEPS[step_][1](Path(root_), int(count_))
    seconds = time.process_time() - begun
    print(json.dumps({"seconds": seconds, "mb": _highest_mb()}))
