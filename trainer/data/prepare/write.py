"""One shard, from its files to its description: the unit of work, and of what a restart keeps."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from common.errors import UserError
from trainer.data.example import Record, example_parts
from trainer.data.manifest import Shard, SplitCounts
from trainer.data.prepare.encode import Rules, encode
from trainer.data.prepare.input_files import FileReader, ImageFile
from trainer.data.prepare.listing import Listing
from trainer.data.prepare.pool import Advance
from trainer.data.prepare.rejected import RejectedError, RejectedFile
from trainer.data.prepare.statistics import Survey, look_at
from trainer.data.tfrecord import ShardWriter

PARTS = ".parts"
"""Folder of the descriptions of finished shards; gone when the data set is complete."""

_TOLD_EVERY = 16
"""Images between two updates of the counter that all processes share."""


@dataclass(frozen=True)
class Preparation:
    """What all tasks share."""

    listing: Path
    output: Path
    classes: tuple[str, ...]
    synsets: tuple[str, ...]
    rules: Rules


@dataclass(frozen=True)
class FileRange:
    """One shard, or one stretch of files to look at."""

    common: Preparation
    split: str
    begin: int
    end: int
    file: str = ""
    """Name of the shard."""


@dataclass(frozen=True)
class WrittenShard:
    """A shard that is on disk."""

    split: str
    shard: Shard
    tally: SplitCounts
    treatment: dict[str, int]
    """Images by what was done to them."""
    rejected: tuple[RejectedFile, ...]

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        data = {
            "split": self.split,
            "shard": asdict(self.shard),
            "tally": self.tally.to_dict(),
            "treatment": self.treatment,
            "rejected": [asdict(refusal) for refusal in self.rejected],
        }
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(data))
        partial.replace(path)

    @staticmethod
    def load(path: Path) -> "WrittenShard":
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        shard = data["shard"]
        return WrittenShard(
            data["split"],
            Shard(**{**shard, "index": tuple(shard["index"])}),
            SplitCounts.from_dict(data["tally"]),
            data["treatment"],
            tuple(RejectedFile(**refusal) for refusal in data["rejected"]),
        )


def part_file(output: Path, shard: str) -> Path:
    """Where the description of a shard is, once the shard is complete."""
    return output / PARTS / f"{shard}.json"


def write_shard(task: FileRange, advance: Advance) -> WrittenShard:
    """Write one shard, make sure that it is on disk, and only then its description.

    The shard has its final name from the start, as mounted object stores copy what is renamed.

    Raises:
        DataError: a file has changed, or cannot be read now.
        UserError: the shard cannot be written.
    """
    common, reader = task.common, FileReader()
    tally, treatment = SplitCounts.empty(len(common.classes)), Counter[str]()
    rejected = []
    listing = Listing(common.listing)
    try:
        with ShardWriter(common.output / task.file) as writer:
            for entry in _counted(listing.entries(task.split, task.begin, task.end), advance):
                try:
                    encoded = encode(reader.read(entry), entry.name, common.rules)
                except RejectedError as error:
                    rejected.append(RejectedFile(task.split, entry.name, str(error)))
                    continue
                record = Record(
                    encoded.data,
                    encoded.format,
                    encoded.height,
                    encoded.width,
                    entry.label,
                    common.classes[entry.label],
                    entry.name,
                    common.synsets[entry.label] if common.synsets else "",
                )
                writer.write(*example_parts(record))
                tally.add(entry.label, encoded.format, encoded.height, encoded.width)
                treatment[encoded.treatment] += 1
            writer.sync()
        written = WrittenShard(task.split, writer.shard(), tally, dict(treatment), tuple(rejected))
        written.save(part_file(common.output, task.file))
    except OSError as error:
        raise UserError(
            f"{common.output / task.file}: cannot be written ({error.strerror}); the same command"
            " continues once it can"
        ) from error
    finally:
        reader.close()
        listing.close()
    return written


def survey(task: FileRange, advance: Advance) -> Survey:
    """Look at some files before any shard is written."""
    listing = Listing(task.common.listing)
    try:
        entries = listing.entries(task.split, task.begin, task.end)
        return look_at(_counted(entries, advance), task.common.rules)
    finally:
        listing.close()


def _counted(entries: Iterable[ImageFile], advance: Advance) -> Iterator[ImageFile]:
    number = 0
    for number, entry in enumerate(entries, 1):
        yield entry
        if number % _TOLD_EVERY == 0:
            advance(_TOLD_EVERY)
    advance(number % _TOLD_EVERY)
