"""Samples of each class for the contact sheet, found without reading the whole data set."""

import io
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil, sqrt
from pathlib import Path

from PIL import Image

from trainer.data.example import BrokenRecordError, Record
from trainer.data.formats.record_format import BrokenBlockError, RecordFormat, record_format
from trainer.data.manifest import INDEX_EVERY, Manifest, Shard
from trainer.data.pixels.encoded_image import shrink
from trainer.data.pixels.treatment import RejectedError
from trainer.errors import DataError

THUMBNAIL_SIDE, ENLARGED_SIDE = 256, 48
"""Longest side of a thumbnail, and longest side of images that are enlarged, in pixels."""
SMALL_SIDE = 96
"""Longest side of a thumbnail if there are more than `FEW_CLASSES`, so that the page loads fast."""
QUALITY = 80
RUN = 8
"""Fewest records to read from one position, if there are as many: seeking costs the most."""

_GOLDEN = (sqrt(5) - 1) / 2

FEW_CLASSES = 100
"""Most classes that all get the requested number of samples; with more, the page has a filter."""
THUMBNAILS = 800
"""Most thumbnails if there are more classes, unless one per class is already more."""


@dataclass(frozen=True)
class Sample:
    """One image, and its position in the shards."""

    name: str
    """Name of the file that the image was made from."""
    where: str
    """Shard, block if there are any, and record."""
    size: tuple[int, int]
    """Width and height as stored, in pixels; zeros if it cannot be decoded."""
    thumbnail: bytes | None
    """Thumbnail as JPEG; None if the image cannot be decoded."""


@dataclass(frozen=True)
class Samples:
    """Samples of the training split."""

    of_class: tuple[tuple[Sample, ...], ...]
    """Samples of each class, in the order of classes and then of reading."""
    looked_at: int
    """Number of records that were read."""


def take_samples(folder: Path, manifest: Manifest, per_class: int) -> Samples:
    """Read records from positions all over the training split, the same each time, until every
    class has its samples or a limit is reached.

    Args:
        folder: Folder of the data set.
        manifest: Manifest of the data set.
        per_class: Samples to take of each class.

    Raises:
        DataError: A record is damaged.
        OSError: A shard cannot be read.
    """
    split = manifest.splits["train"]
    needed = [min(per_class, count) for count in split.class_counts]
    limit = max(2000, max(40, 5 * per_class) * len(needed))
    taken: list[list[Sample]] = [[] for _ in needed]
    left, looked_at = sum(needed), 0
    side = THUMBNAIL_SIDE if len(needed) <= FEW_CLASSES else SMALL_SIDE
    files, folder = record_format(manifest), manifest.folder(folder)
    records = islice(_records(folder, files, split.shards, limit), limit)
    while left and (entry := next(records, None)):
        where, record = entry
        looked_at += 1
        label = record.label - manifest.first_label
        if not 0 <= label < len(needed):
            first, last = manifest.first_label, manifest.first_label + len(needed) - 1
            reason = f"label {record.label} is not a class, {first} to {last}"
            raise _damaged(folder, where, reason)
        if len(taken[label]) < needed[label]:
            shown = _shown(record.encoded, manifest, side)
            taken[label].append(Sample(record.filename, where, *shown))
            left -= 1
    return Samples(tuple(map(tuple, taken)), looked_at)


def _records(
    folder: Path, files: RecordFormat, shards: Sequence[Shard], limit: int
) -> Iterator[tuple[str, Record]]:
    """Yield about `limit` records, in runs that begin where reading can, with their names."""
    starts = [(shard, entry) for shard in shards for entry in files.entries(shard)]
    length = min(INDEX_EVERY, max(RUN, ceil(limit / max(len(starts), 1))))
    reader = files.reader(1)
    # Any number of the first positions in this order is spread evenly (Weyl 1916).
    for turn in sorted(range(len(starts)), key=lambda turn: turn * _GOLDEN % 1):
        shard, entry = starts[turn]
        count = min(length, entry.count)
        number, end = entry.first, entry.first + count
        try:
            path = str(folder / shard.file)
            for values in reader.records(path, shard, entry.block, entry.first, count):
                where = f"{shard.file}, {files.where(entry.block, number)}"
                yield where, files.record(values)
                number += 1
        except BrokenRecordError as error:
            broken = None if isinstance(error, BrokenBlockError) else number
            where = f"{shard.file}, {files.where(entry.block, broken)}"
            raise _damaged(folder, where, str(error)) from error
        if number < end:
            where = f"{shard.file}, {files.where(entry.block, number)}"
            raise _damaged(folder, where, "the shard ends before it")


def _damaged(folder: Path, where: str, reason: str) -> DataError:
    return DataError(
        f"{folder / where}: {reason};"
        f" `ml-trainer verify {shlex.quote(str(folder))}` lists all that is damaged"
    )


def _shown(encoded: bytes, manifest: Manifest, side: int) -> tuple[tuple[int, int], bytes | None]:
    try:
        return _thumbnail(encoded, manifest, side)
    except RejectedError:
        return (0, 0), None


def _thumbnail(encoded: bytes, manifest: Manifest, side: int) -> tuple[tuple[int, int], bytes]:
    """Return width and height of an image, in pixels, and its thumbnail as JPEG."""
    size, image = shrink(encoded, side, manifest.levels)
    longest = max(size)
    if longest <= ENLARGED_SIDE:
        # By an integer factor, so that every pixel becomes a square of the same colour.
        factor = side // longest
        enlarged = (image.width * factor, image.height * factor)
        image = image.resize(enlarged, Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=QUALITY, optimize=True)
    return size, buffer.getvalue()


def samples_per_class(classes: int, requested: int) -> int:
    """Return how many samples per class to show, so that the page stays small."""
    if classes <= FEW_CLASSES or not requested:
        return requested
    return min(requested, max(1, THUMBNAILS // classes))
