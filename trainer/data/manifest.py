"""The manifest: the description of a folder of shards, as JSON. Standard library only."""

import hashlib
import json
import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from common.errors import ConfigError
from common.files import parse_json, write_atomically
from common.text import listing, plural
from trainer.data.intake.record import Intake
from trainer.errors import DataError
from trainer.task_descriptions import TaskDescription

FILE_NAME = "manifest.json"
SCHEMA, FORMAT_SCHEMA = 2, 3
"""Schemas of the manifests of TFRecords, and of files of the format that the manifest names; a
trainer that does not know the latter refuses it rather than read it as the former."""
INDEX_EVERY = 64
"""Records between two of a shard's byte offsets."""

_SHOWN = 5
"""Most names of classes to print."""

SIDES = (
    *(1, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 1024, 1536),
    *(2048, 3072, 4096, 6144, 8192),
)
"""Lower bound, in pixels, of each bin in which images are counted by side."""


@dataclass(frozen=True)
class Shard:
    """One file of records."""

    file: str
    """File name relative to the manifest."""
    examples: int
    bytes: int
    xxh128: str
    """XXH3-128 of the whole file, in hexadecimal, as `xxhsum -H2` prints it."""
    offsets: tuple[int, ...] = ()
    """Byte offset of every `INDEX_EVERY`-th record, so that reading can start inside the file;
    empty if the file has blocks."""
    blocks: tuple[int, ...] = ()
    """Number of records in each block, in a format whose records are read by the block; empty if
    the file has offsets."""
    block_hashes: tuple[str, ...] = ()
    """XXH3-64 of the content of each block, in hexadecimal, as its format computes it. Not all
    writers put checksums into the file, so this is how training notices a changed byte."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, which `from_dict` reads.

        The version of a data set is a hash of these keys as well, and names data sets that runs and
        registered assets refer to, so the keys stay: `index` has the offsets or the blocks, and
        `row_groups` the hashes of the blocks, if there are any.
        """
        data = {"file": self.file, "examples": self.examples, "bytes": self.bytes}
        hashes = {"row_groups": self.block_hashes} if self.block_hashes else {}
        return {**data, "xxh128": self.xxh128, "index": self.blocks or self.offsets, **hashes}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the data that `to_dict` returns, with lists in the place of tuples."""
        index, hashes = tuple(data["index"]), tuple(data.get("row_groups", ()))
        offsets, blocks = ((), index) if hashes else (index, ())
        sizes = data["examples"], data["bytes"]
        return cls(data["file"], *sizes, data["xxh128"], offsets, blocks, hashes)


@dataclass(frozen=True)
class Sides:
    """Images of a split by size, as a count for each bin of `SIDES`; empty if they were not
    measured.
    """

    short: tuple[int, ...] = ()
    """Counts by the shorter of height and width."""
    long: tuple[int, ...] = ()
    """Counts by the longer of height and width."""


@dataclass(frozen=True)
class Origin:
    """Origin of a data set. Data sets that differ in nothing else give the same training."""

    command: str
    """The command that wrote the data set."""
    inputs: str = ""
    """Hash of the names and sizes of all inputs and of the options that shape the shards."""
    treatment: dict[str, int] = field(default_factory=dict)
    """Number of images by their treatment, such as copied untouched, converted, rejected."""
    intake: Intake | None = None
    """Data besides pixels that were taken over from the files; None if that was not recorded: data
    sets of earlier versions have all metadata, and embedded ones have none."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON, which `from_json` reads."""
        plain = {"command": self.command, "inputs": self.inputs, "treatment": self.treatment}
        return {**plain, "intake": self.intake.to_dict()} if self.intake else plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the data that `to_json` returns."""
        intake = data.get("intake")
        return cls(**{**data, "intake": Intake.from_dict(intake) if intake else None})


@dataclass(frozen=True)
class Split:
    """The shards of one part of the data."""

    shards: tuple[Shard, ...]
    class_counts: tuple[int, ...]
    """Number of images of each class."""
    encodings: tuple[str, ...]
    """Formats of the encoded images, those of JPEG and PNG that occur, sorted."""
    sides: Sides = Sides()
    treated: int = 0
    """Number of images that are treated whenever they are read, see `trainer.data.pixels`, because
    the files were not written by this project and are not changed."""

    @property
    def examples(self) -> int:
        return sum(shard.examples for shard in self.shards)

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)

    @property
    def largest_block(self) -> int:
        """Most records of a block; 0 if the files have none."""
        return max((count for shard in self.shards for count in shard.blocks), default=0)


@dataclass(frozen=True)
class Normalization:
    """Normalization of inputs: (pixel - mean) / std for each channel."""

    mean: tuple[float, float, float]
    """Mean of the training images' pixels in red, green and blue, 0 to 255."""
    std: tuple[float, float, float]
    """Standard deviation of the same pixels, 0 to 255."""


@dataclass(frozen=True)
class Manifest:
    """A data set: its classes, its splits and the normalization of its images."""

    classes: tuple[str, ...]
    """Class names in the order of labels."""
    normalization: Normalization
    splits: dict[str, Split]
    origin: Origin
    first_label: int = 0
    """Label of the first class in the records: 0, or 1 in shards of writers that reserve 0 for
    background."""
    format: str = ""
    """Name of the files' format; empty for TFRecords."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Where a format of tables finds an image and its label."""
    files: str = ""
    """Absolute path of the folder that the files are in; empty if they are next to the manifest."""
    levels: tuple[float, float] | None = None
    """Values that become 0 and 255 whenever a deep image is read from files that are not changed;
    None if there are none, or if all values of 16 bits do. In shards, images have 8 bits."""

    def folder(self, beside: Path) -> Path:
        """Return the folder of the files, given that of the manifest."""
        return Path(self.files) if self.files else beside

    @property
    def version(self) -> str:
        """Hash of everything but the origin and where the files are; equal versions give the same
        training.
        """
        entries = self._to_json().items()
        data = {key: value for key, value in entries if key not in ("origin", "files")}
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]

    def save(self, folder: Path) -> None:
        """Write manifest.json; call it after all other files are written, so that the presence of
        the manifest means a complete data set.
        """
        schema = FORMAT_SCHEMA if self.format else SCHEMA
        data = {"schema": schema, "version": self.version, **self._to_json()}
        write_atomically(folder / FILE_NAME, json.dumps(data, indent=1) + "\n")

    def _to_json(self) -> dict[str, Any]:
        # "deviation" is the standard deviation; the key stays, like those of shards. Entries of
        # only some data sets are left out elsewhere for the same reason.
        splits = {
            name: {**asdict(split), "shards": [shard.to_dict() for shard in split.shards]}
            for name, split in self.splits.items()
        }
        for split in splits.values():
            if not split["treated"]:
                del split["treated"]
        return {
            "classes": self.classes,
            "mean": self.normalization.mean,
            "deviation": self.normalization.std,
            "splits": splits,
            "origin": self.origin.to_json(),
            "first_label": self.first_label,
            **({"format": self.format, "columns": self.columns} if self.format else {}),
            **({"files": self.files} if self.files else {}),
            **({"levels": self.levels} if self.levels else {}),
        }


def load_manifest(folder: Path) -> Manifest:
    """Read and check a manifest and the presence and size of its shards.

    Raises:
        DataError: There is no such folder or valid manifest, or shards do not match it; names all
            those shards.
    """
    manifest = read_manifest(folder)
    _check(manifest, manifest.folder(folder))
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Read a manifest without checking its shards.

    Raises:
        DataError: There is no such folder or no valid manifest.
    """
    path = folder / FILE_NAME
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such data folder; `ml-trainer prepare` writes one")
    if not path.is_file():
        raise DataError(
            f"{folder}: there is no {FILE_NAME}; name the folder that `ml-trainer prepare`"
            " has written, not that of the images"
        )
    return parse_manifest(path.read_bytes(), str(path))


def parse_manifest(content: bytes, source: str) -> Manifest:
    """Parse the content of a manifest.json, wherever it comes from.

    Args:
        content: Content of the file.
        source: Name of the file or its folder, for errors.

    Raises:
        DataError: The content is not a manifest, has another schema, or was edited.
    """
    try:
        data = parse_json(content)
        if data["schema"] not in (SCHEMA, FORMAT_SCHEMA):
            raise DataError(
                f"{source}: schema {data['schema']} is not supported, only {SCHEMA} and"
                f" {FORMAT_SCHEMA}; remove the folder and prepare the data again"
            )
        manifest, version = _from_json(data), data["version"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{source}: not a manifest ({type(error).__name__}: {error})") from error
    if manifest.version != version:
        raise DataError(f"{source}: was edited; its content has version {manifest.version}, not"
                        f" {version}; prepare the data again")  # fmt: skip
    return manifest


def _from_json(data: dict[str, Any]) -> Manifest:
    return Manifest(
        classes=tuple(data["classes"]),
        normalization=Normalization(tuple(data["mean"]), tuple(data["deviation"])),
        splits={
            name: Split(
                shards=tuple(Shard.from_dict(shard) for shard in split["shards"]),
                class_counts=tuple(split["class_counts"]),
                encodings=tuple(split["encodings"]),
                sides=Sides(*(tuple(split["sides"][name]) for name in ("short", "long"))),
                treated=split.get("treated", 0),
            )
            for name, split in data["splits"].items()
        },
        origin=Origin.from_json(data["origin"]),
        first_label=data["first_label"],
        format=data["format"] if data["schema"] == FORMAT_SCHEMA else "",
        columns=data.get("columns", {}),
        files=data.get("files", ""),
        levels=tuple(data["levels"]) if "levels" in data else None,
    )


def _check(manifest: Manifest, folder: Path) -> None:
    faults = []
    for name, split in manifest.splits.items():
        if sum(split.class_counts) != split.examples:
            faults.append(
                f"{name}: {sum(split.class_counts)} images in classes, {split.examples} in shards"
            )
        for shard in split.shards:
            path = folder / shard.file
            if not path.is_file():
                faults.append(f"{shard.file}: missing")
            elif path.stat().st_size != shard.bytes:
                faults.append(f"{shard.file}: {path.stat().st_size} bytes, not {shard.bytes}")
    if faults:
        raise DataError(
            f"{folder}: the manifest does not match its shards; copy or prepare them again:\n"
            f"{listing(faults)}"
        )


def joined(splits: Sequence[Split]) -> Split:
    """Return several splits as one, in their order; the sizes of images are not known of it."""
    return Split(
        tuple(shard for split in splits for shard in split.shards),
        tuple(map(sum, zip(*(split.class_counts for split in splits), strict=True))),
        tuple(sorted({name for split in splits for name in split.encodings})),
        treated=sum(split.treated for split in splits),
    )


def check_trainable(
    manifest: Manifest, classes: int | None, source: str, task: TaskDescription
) -> None:
    """Refuse a data set that a run cannot learn from.

    Args:
        manifest: Manifest of the data set.
        classes: Number of outputs of the network; None is the number of classes of the data set.
        source: Name of the data set, for errors.
        task: The task; of the targets in records, a manifest counts labels only.

    Raises:
        DataError: A split has no images, or all training images are of one class.
        ConfigError: The network has another number of classes.
    """
    target = manifest.columns.get("target")
    if task.features and manifest.format and target not in task.features:
        raise DataError(
            f"{source}: its files of the format {manifest.format} hold labels, and no other target;"
            f" write a data set for {task.name} with `ml-trainer {task.prepare}`"
        )
    for split in ("train", "validation"):
        if split not in manifest.splits or not manifest.splits[split].examples:
            raise DataError(f"{source}: has no images in the split {split!r}; prepare it again")
    counts = manifest.splits["train"].class_counts
    present = [name for name, count in zip(manifest.classes, counts, strict=True) if count]
    if len(present) < 2 and not task.features:
        raise DataError(
            f"{source}: all training images are of the class {present[0]!r}, so there is nothing to"
            " learn; prepare a data set with images of at least two classes"
        )
    if classes not in (None, len(manifest.classes)):
        raise ConfigError(
            [f"--model.classes: {classes}, but {source} has {len(manifest.classes)} classes"]
        )


def empty_classes(manifest: Manifest, split: str) -> list[str]:
    """Return the names of the classes that have no image in a split."""
    counts = manifest.splits[split].class_counts
    return [name for name, count in zip(manifest.classes, counts, strict=True) if not count]


def warn_of_empty_classes(manifest: Manifest) -> None:
    """Print the classes that have no image in a split, for each split."""
    for split in manifest.splits:
        if empty := empty_classes(manifest, split):
            more = ", ..." if len(empty) > _SHOWN else ""
            which = f"{split} of {plural(len(empty), 'class', 'classes')}"
            print(f"warning: no images in {which}: {', '.join(empty[:_SHOWN])}{more}",
                  file=sys.stderr)  # fmt: skip


@dataclass
class SplitCounts:
    """Counts over some records of a split, which can be merged."""

    class_counts: list[int]
    encodings: set[str]
    short: list[int]
    """Number of images by short side, see `SIDES`."""
    long: list[int]

    @staticmethod
    def empty(classes: int) -> "SplitCounts":
        return SplitCounts([0] * classes, set(), [0] * len(SIDES), [0] * len(SIDES))

    def add(self, label: int, encoding: str, height: int, width: int) -> None:
        """Count one image, given its label, counted from 0, and its size in pixels."""
        self.class_counts[label] += 1
        self.encodings.add(encoding)
        self.short[bisect_right(SIDES, max(min(height, width), 1)) - 1] += 1
        self.long[bisect_right(SIDES, max(height, width, 1)) - 1] += 1

    def merge(self, other: "SplitCounts") -> None:
        """Add the counts of other records."""
        for own, more in (
            (self.class_counts, other.class_counts),
            (self.short, other.short),
            (self.long, other.long),
        ):
            own[:] = [a + b for a, b in zip(own, more, strict=True)]
        self.encodings |= other.encodings

    def split(self, shards: tuple[Shard, ...]) -> Split:
        """Return the split, if these are the counts of all its records."""
        return Split(
            shards,
            tuple(self.class_counts),
            tuple(sorted(self.encodings)),
            Sides(tuple(self.short), tuple(self.long)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, which `from_dict` reads."""
        return {**vars(self), "encodings": sorted(self.encodings)}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> "SplitCounts":
        """Read the data that `to_dict` returns."""
        return SplitCounts(**{**data, "encodings": set(data["encodings"])})
