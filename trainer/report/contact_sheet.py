"""Samples of each class for the contact sheet, found without reading the whole data set."""

import io
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil, sqrt
from pathlib import Path

from PIL import Image

from trainer.data.encoded_image import DECODE_ERRORS, shrink
from trainer.data.example import BrokenRecordError, Record, from_example
from trainer.data.manifest import INDEX_EVERY, Manifest, Shard
from trainer.data.tfrecord import read_shard
from trainer.errors import DataError

THUMBNAIL_SIDE, ENLARGED_SIDE = 96, 48
"""Longest side of a thumbnail, and longest side of images that are enlarged, in pixels."""
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
    shard: str
    record: int
    """Number of the record in its shard, counted from 0."""
    size: tuple[int, int]
    """Width and height as stored, in pixels; zeros if it cannot be decoded."""
    thumbnail: bytes | None
    """Thumbnail as JPEG; None if the image cannot be decoded."""

    @property
    def where(self) -> str:
        """Position in the shards."""
        return f"{self.shard}, record {self.record:,}"


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
    records = islice(_records(folder, split.shards, limit), limit)
    while left and (entry := next(records, None)):
        shard, number, record = entry
        looked_at += 1
        label = record.label - manifest.first_label
        if not 0 <= label < len(needed):
            first, last = manifest.first_label, manifest.first_label + len(needed) - 1
            reason = f"label {record.label} is not a class, {first} to {last}"
            raise _damaged(folder, shard, number, reason)
        if len(taken[label]) < needed[label]:
            taken[label].append(_sample(shard, number, record))
            left -= 1
    return Samples(tuple(map(tuple, taken)), looked_at)


def _records(
    folder: Path, shards: Sequence[Shard], limit: int
) -> Iterator[tuple[Shard, int, Record]]:
    """Yield about `limit` records, in runs that begin at indexed records, with shard and number."""
    starts = [(shard, entry) for shard in shards for entry in range(len(shard.index))]
    length = min(INDEX_EVERY, max(RUN, ceil(limit / max(len(starts), 1))))
    # Any number of the first positions in this order is spread evenly (Weyl 1916).
    for turn in sorted(range(len(starts)), key=lambda turn: turn * _GOLDEN % 1):
        shard, entry = starts[turn]
        first = entry * INDEX_EVERY
        serialized = read_shard(folder / shard.file, shard.index[entry])
        for number in range(first, min(first + length, shard.examples)):
            try:
                record = _next(serialized)
            except BrokenRecordError as error:
                raise _damaged(folder, shard, number, str(error)) from error
            yield shard, number, record


def _next(serialized: Iterator[bytes]) -> Record:
    data = next(serialized, None)
    if data is None:
        raise BrokenRecordError("the shard ends before it")
    return from_example(data)


def _damaged(folder: Path, shard: Shard, number: int, reason: str) -> DataError:
    return DataError(
        f"{folder / shard.file}, record {number}: {reason};"
        f" `python -m trainer verify {shlex.quote(str(folder))}` lists all that is damaged"
    )


def _sample(shard: Shard, number: int, record: Record) -> Sample:
    try:
        size, thumbnail = _thumbnail(record.encoded)
    except DECODE_ERRORS:
        size, thumbnail = (0, 0), None
    return Sample(record.filename, shard.file, number, size, thumbnail)


def _thumbnail(encoded: bytes) -> tuple[tuple[int, int], bytes]:
    """Return width and height of an image, in pixels, and its thumbnail as JPEG."""
    size, image = shrink(encoded, THUMBNAIL_SIDE)
    longest = max(size)
    if longest <= ENLARGED_SIDE:
        # By an integer factor, so that every pixel becomes a square of the same colour.
        factor = THUMBNAIL_SIDE // longest
        enlarged = (image.width * factor, image.height * factor)
        image = image.resize(enlarged, Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=QUALITY, optimize=True)
    return size, buffer.getvalue()


def samples_per_class(classes: int, requested: int) -> int:
    """Return how many samples per class to show, so that the page stays small."""
    if classes <= FEW_CLASSES:
        return requested
    return min(requested, max(1, THUMBNAILS // classes))
