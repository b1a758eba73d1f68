"""One shard, from its files to its description: the unit of work, which a restart keeps."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from common.errors import UserError
from common.files import parse_json, write_atomically
from common.text import without_details
from trainer.data.example import Record, example_parts
from trainer.data.formats.tfrecord import ShardWriter
from trainer.data.intake.levels import Values, find_values
from trainer.data.intake.rules import IntakeRules
from trainer.data.manifest import Shard, SplitCounts
from trainer.data.pixels.treatment import Encoded, NoImageError, RejectedError
from trainer.data.prepare.encode import Rules
from trainer.data.prepare.input_files import FileReader, ImageFile, TargetFiles
from trainer.data.prepare.listing import Listing
from trainer.data.prepare.pool import Advance
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.statistics import Survey, look_at

PARTS = ".parts"
"""Folder of the descriptions of finished shards; deleted when the data set is complete."""

LEAST_SHARDS = 64
"""Shards of a split, however small they are, if there are enough images: as many as the streams in
which training reads by default."""

_REPORT_EVERY = 16
"""Images between two updates of the counter that all processes share."""


@dataclass(frozen=True)
class Preparation:
    """Settings of every process that writes shards."""

    listing: Path
    """File of the `Listing`."""
    output: Path
    """Folder to write."""
    classes: tuple[str, ...]
    synsets: tuple[str, ...]
    rules: Rules
    targets: TargetFiles | None = None
    """Files next to the images, from which their labels follow; None if the listing has labels."""
    intake: IntakeRules = field(default_factory=IntakeRules)
    """Parts of a file besides its pixels that are taken over."""


@dataclass(frozen=True)
class FileRange:
    """Consecutive files of a listing: those of one shard, or some to survey."""

    preparation: Preparation
    split: str
    begin: int
    end: int
    shard: str = ""
    """Name of the shard; empty for a survey."""


@dataclass(frozen=True)
class WrittenShard:
    """A shard that is on disk."""

    split: str
    shard: Shard
    counts: SplitCounts
    treatment: dict[str, int]
    """Number of images by their treatment."""
    rejected: tuple[RejectedFile, ...]
    found: dict[str, int]
    """Number of images by the kinds of metadata that their files have."""
    narrow: tuple[str, ...] = ()
    """Names of the deep images that use few levels."""

    def save(self, path: Path) -> None:
        """Write the description atomically."""
        data = {
            "split": self.split,
            "shard": self.shard.to_dict(),
            "tally": self.counts.to_dict(),
            "treatment": self.treatment,
            "rejected": [asdict(file) for file in self.rejected],
            "found": self.found,
            "narrow": self.narrow,
        }
        write_atomically(path, json.dumps(data))

    @staticmethod
    def load(path: Path) -> "WrittenShard":
        """Read a description that `save` wrote."""
        data = parse_json(path.read_text())
        return WrittenShard(
            data["split"],
            Shard.from_dict(data["shard"]),
            SplitCounts.from_dict(data["tally"]),
            data["treatment"],
            tuple(RejectedFile(**file) for file in data["rejected"]),
            data["found"],
            tuple(data["narrow"]),
        )


def part_file(output: Path, shard: str) -> Path:
    """Return the file that describes a shard, once the shard is complete."""
    return output / PARTS / f"{shard}.json"


def write_shard(files: FileRange, advance: Advance) -> WrittenShard:
    """Write one shard, wait until it is on disk, and only then write its description.

    The shard has its final name from the start, because mounted object stores copy renamed files.

    Raises:
        DataError: A file has changed, or cannot be read now.
        UserError: The shard cannot be written.
    """
    preparation, reader = files.preparation, FileReader()
    counts, treatment = SplitCounts.empty(len(preparation.classes)), Counter[str]()
    rejected, found, narrow = list[RejectedFile](), Counter[str](), list[str]()
    listing, path = Listing(preparation.listing), preparation.output / files.shard
    try:
        with ShardWriter(path) as writer:
            for file in _counted(listing.files(files.split, files.begin, files.end), advance):
                try:
                    data = reader.read(file)
                    encoded, kinds = preparation.intake.encoded(data, file, preparation.rules)
                    more, label = _target(preparation, file, encoded)
                except RejectedError as error:
                    reason = preparation.intake.naming.reason(
                        str(error), file.name, without_details(error.args)
                    )
                    counted = not isinstance(error, NoImageError)
                    rejected.append(RejectedFile(files.split, file.title, reason, counted=counted))
                    continue
                record = Record(
                    encoded.data,
                    encoded.format,
                    encoded.height,
                    encoded.width,
                    label,
                    preparation.classes[label],
                    file.title,
                    preparation.synsets[label] if preparation.synsets else "",
                    more,
                )
                writer.write(*example_parts(record))
                counts.add(label, encoded.format, encoded.height, encoded.width)
                treatment[encoded.treatment] += 1
                found.update(kinds)
                narrow += [file.title] * encoded.narrow
            writer.sync()
        written = WrittenShard(
            files.split,
            writer.shard(),
            counts,
            dict(treatment),
            tuple(rejected),
            dict(found),
            tuple(narrow),
        )
        written.save(part_file(preparation.output, files.shard))
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}); run the same command again to continue"
        ) from error
    finally:
        reader.close()
        listing.close()
    return written


def _target(
    preparation: Preparation, file: ImageFile, image: Encoded
) -> tuple[Mapping[str, bytes], int]:
    """Return the features of a record besides its image, and its label."""
    if preparation.targets is None:
        return {}, file.label
    shrunk = preparation.rules.short_side is not None
    return preparation.targets.read(file, image, resize=shrunk)


def survey_files(files: FileRange, advance: Advance) -> Survey:
    """Survey some files before any shard is written."""
    listing = Listing(files.preparation.listing)
    try:
        selected = listing.files(files.split, files.begin, files.end)
        preparation = files.preparation
        return look_at(
            _counted(selected, advance),
            preparation.rules,
            FileReader(),
            preparation.intake,
        )
    finally:
        listing.close()


def survey_values(files: FileRange, advance: Advance) -> Values:
    """Find the values of the deep images among some files."""
    preparation, listing = files.preparation, Listing(files.preparation.listing)
    try:
        selected = _counted(listing.files(files.split, files.begin, files.end), advance)
        return find_values(selected, FileReader(), preparation.rules.max_pixels)
    finally:
        listing.close()


def _counted(files: Iterable[ImageFile], advance: Advance) -> Iterator[ImageFile]:
    number = 0
    for number, file in enumerate(files, 1):
        yield file
        if number % _REPORT_EVERY == 0:
            advance(_REPORT_EVERY)
    advance(number % _REPORT_EVERY)
