"""A folder of photographs like ImageNet's, from those that scikit-image and scikit-learn ship.

Each image is a random crop of one photograph, at a random scale, mirrored or not; around 500 x 375
pixels and 100 KB, as a JPEG of quality 91 to 95. Its folder is the name of the photograph. The same
count and seed give the same files.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import skimage
from PIL import Image, ImageOps
from rich.progress import track
from sklearn import datasets

from common.annotations import Positional
from common.errors import UserError
from trainer.config import Positive
from trainer.data.example import from_example
from trainer.data.formats.tfrecord import read_shard
from trainer.data.manifest import load_manifest

NAMES = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "motorcycle_left.png",
    "retina.jpg",
    "rocket.jpg",
    "china.jpg",
    "flower.jpg",
)
SHAPES = ((500, 375), (375, 500), (500, 333), (500, 400), (440, 440), (640, 480), (400, 300))
"""Width and height of images before random variation; most of ImageNet have a long side of 500."""


@dataclass(frozen=True)
class Options:
    """Write FOLDER/CLASS/NUMBER.jpg: random crops of ten photographs that scikit-image and
    scikit-learn ship, like ImageNet's in size and content. A count and a seed make the same files.
    """

    folder: Annotated[str, Positional("FOLDER")] = ""
    """Folder to write."""

    count: Annotated[int, Positive] = 1000
    """Number of images to write."""

    seed: int = 0
    """Seed of the crops."""


def run(options: Options) -> None:
    """Write the folder."""
    if not options.folder:
        raise UserError("name the folder to write, as in: write-photos data/photos")
    total = write_photos(Path(options.folder), options.count, options.seed)
    average = total / options.count / 1000
    print(f"{options.folder}: {options.count:,} images of {average:.0f} KB on average")


def photograph(name: str) -> Image.Image:
    """Load one of the packages' photographs."""
    folders = Path(skimage.__file__).parent / "data", Path(datasets.__file__).parent / "images"
    path = next(folder / name for folder in folders if (folder / name).exists())
    return Image.open(path).convert("RGB")


def crops(count: int, seed: int = 0) -> Iterator[tuple[str, Image.Image, int]]:
    """Yield class, image and JPEG quality of each image, which depend on number and seed alone."""
    originals = {name: photograph(name) for name in NAMES}
    for number in range(count):
        random = np.random.default_rng([seed, number])
        name = NAMES[number % len(NAMES)]
        original = originals[name]
        shape = np.array(SHAPES[random.integers(len(SHAPES))]) * random.uniform(0.85, 1.15)
        width, height = (int(side) for side in shape)
        # At least a quarter of the photograph's side, so that few images are enlarged much.
        part = random.uniform(0.5, 1.0) * min(original.width / width, original.height / height)
        wide, high = width * part, height * part
        left = random.uniform(0, original.width - wide)
        top = random.uniform(0, original.height - high)
        image = original.resize(
            (width, height), Image.Resampling.BICUBIC, (left, top, left + wide, top + high)
        )
        if random.integers(2):
            image = ImageOps.mirror(image)
        # Adds sensor noise, which enlarging has smoothed away and which photographs contain.
        pixels = np.asarray(image) + random.normal(0, random.uniform(3, 12), (height, width, 1))
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        yield Path(name).stem, image, int(random.integers(91, 96))


def write_photos(folder: Path, count: int, seed: int = 0) -> int:
    """Write the images as FOLDER/CLASS/NUMBER.jpg; return their size in bytes."""
    total = 0
    for number, (name, image, quality) in enumerate(
        track(crops(count, seed), f"making {count:,} photographs", count)
    ):
        path = folder / name / f"{number:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=quality)
        total += path.stat().st_size
    return total


def write_parquet(data: Path, folder: Path) -> None:
    """Write the records of a data set as Hugging Face's `datasets` does: one file for each shard,
    row groups of 100, compressed by snappy.
    """
    manifest = load_manifest(data)
    label = {"names": list(manifest.classes), "_type": "ClassLabel"}
    features = {"info": {"features": {"image": {"_type": "Image"}, "label": label}}}
    image = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    schema = pa.schema({"image": image, "label": pa.int64()}, {"huggingface": json.dumps(features)})
    (folder / "data").mkdir(parents=True)
    for split in manifest.splits.values():
        for shard in split.shards:
            records = [from_example(stored) for stored in read_shard(data / shard.file)]
            images = [{"bytes": record.encoded, "path": record.filename} for record in records]
            content = pa.table([images, [record.label for record in records]], schema=schema)
            path = (folder / "data" / shard.file).with_suffix(".parquet")
            pq.write_table(content, path, row_group_size=100)
