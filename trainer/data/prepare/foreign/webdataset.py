"""WebDataset's tar archives: KEY.jpg with its label in KEY.cls or KEY.json, one after the other.

Nothing is unpacked: an image is identified by its offset in its archive, as with ImageNet.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Final

from common.errors import ConfigError
from common.files import parse_json
from common.image_files import entries_below
from common.text import plural
from trainer.data.example import BOXES, LABELS, MASK, OTHER_COMMANDS
from trainer.data.manifest import Manifest
from trainer.data.pixels.treatment import RejectedError
from trainer.data.prepare.foreign.in_place import MAX_CLASSES
from trainer.data.prepare.foreign.names import files_by_split, read_class_names
from trainer.data.prepare.input_files import (
    FileReader,
    ImageFile,
    Inputs,
    StoredFile,
    in_archive,
    on_disk,
)
from trainer.data.prepare.job import prepare
from trainer.data.prepare.options import PrepareWebdatasetOptions
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.errors import DataError

_ARCHIVES = (".tar", ".tgz", ".tar.gz")
"""Ends of names of archives. Compressed ones cannot be read in place; the error says so."""
_MEMBER = re.compile(r"((?:.*/)?[^/.]+)\.([^/]+)")
"""Key and extension of a file, as in WebDataset: the extension begins at the name's first dot."""
_IMAGES: Final = ("jpg", "jpeg", "png", "webp")
_REPORT_EVERY = 100_000


@dataclass(frozen=True)
class Sample:
    """The files of one key, which follow each other in an archive."""

    name: str
    """Archive and key."""
    files: Mapping[str, StoredFile]
    """Files by extension, in lower case."""

    def image(self) -> StoredFile:
        """Return the image.

        Raises:
            RejectedError: There is none, or there are several.
        """
        images = [name for name in _IMAGES if name in self.files]
        if len(images) == 1:
            return self.files[images[0]]
        if images:
            raise RejectedError("has several images: ", f".{', .'.join(images)}")
        raise RejectedError(f"has no image: none of .{', .'.join(_IMAGES)}")


class Labels:
    """Reads the labels of samples."""

    def __init__(self, names: tuple[str, ...], field: str) -> None:
        """Args:
        names: Names of the classes; empty if they are not known, so that labels are numbers.
        field: Field of KEY.json with the label, if there is no KEY.cls.
        """
        self._labels = {name: label for label, name in enumerate(names)}
        self._classes, self._field = len(names) or MAX_CLASSES, field
        self._reader = FileReader()
        self.unread: Counter[str] = Counter()
        """Number of labelled images by the other task, of `OTHER_COMMANDS`, that they have data
        of."""

    def read(self, sample: Sample) -> int:
        """Return the label of a sample.

        Raises:
            RejectedError: It has none, or one that is not a class.
            DataError: The archive cannot be read.
        """
        value, other = self._value(sample)
        if isinstance(value, list):
            raise RejectedError("has several labels; ", "", OTHER_COMMANDS[LABELS])
        self.unread[other] += 1
        if isinstance(value, str) and value in self._labels:
            return self._labels[value]
        text = str(value)
        number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1
        if not 0 <= number < self._classes:
            known = f"0 to {self._classes - 1:,}"
            names = " nor one of the names" if self._labels else "; name them with --class-names"
            raise RejectedError(
                "has the label ", repr(value), f", which is not a class, {known}{names}"
            )
        return number

    def close(self) -> None:
        """Close the archive that was read last."""
        self._reader.close()

    def _value(self, sample: Sample) -> tuple[object, str]:
        """Return the label, and the other task that the sample has data of."""
        if "cls" in sample.files:
            return self._text(sample, "cls").strip(), _of_another_task(sample, {})
        if "json" not in sample.files:
            other = _but(_of_another_task(sample, {}))
            raise RejectedError("has no label: neither .cls nor .json has its name", "", other)
        try:
            data = parse_json(self._text(sample, "json"))
        except ValueError as error:
            raise RejectedError(
                "has no label: its .json cannot be parsed", f" ({error})"
            ) from error
        if not isinstance(data, dict) or data.get(self._field) is None:
            fields = f"; its fields are {', '.join(data)}" if isinstance(data, dict) else ""
            other = _of_another_task(sample, data if isinstance(data, dict) else {})
            raise RejectedError(
                f"has no label: its .json has no field {self._field!r}, see --label-field",
                fields,
                _but(other),
            )
        return data[self._field], _of_another_task(sample, data)

    def _text(self, sample: Sample, extension: str) -> str:
        stored = sample.files[extension]
        file = ImageFile("", stored.path, 0, stored.container, stored.offset, stored.size)
        return self._reader.read(file).decode(errors="replace")


def prepare_webdataset(
    options: PrepareWebdatasetOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write the images of WebDataset's archives as a data set.

    Raises:
        ConfigError: No archive is given, or one does not exist.
        DataError: An archive is incomplete, damaged or compressed, or labels have no classes; see
            also `job.prepare`.
    """
    archives = find_archives(options.input, named=options.names == "kept")
    names = read_class_names(options.class_names)
    inputs = webdataset_inputs(archives, names, options.label_field)
    output = Path(options.output)
    return prepare(inputs, output, options, command, options.held_out, work_through)


def find_archives(given: tuple[str, ...], *, named: bool = True) -> dict[str, dict[str, Path]]:
    """Return the archives of each split, by their names for the user; see `files_by_split`.

    Raises:
        ConfigError: No archive is given, or one does not exist.
        DataError: There are no archives, no training archives, or two of the same name; or one of a
            series is missing; or this user may not list a folder.
    """
    if not given:
        raise ConfigError(["--input: name the archives, or their folder"])
    missing = [f"--input: {text} does not exist" for text in given if not Path(text).exists()]
    if missing:
        raise ConfigError(missing)
    archives: dict[str, Path] = {}
    for root in map(Path, given):
        for path in sorted(entries_below(root, DataError)) if root.is_dir() else [root]:
            # The names of records begin with it, so it must not depend on where the input is.
            name = path.relative_to(root).as_posix() if root.is_dir() else path.name
            if path.is_file() and (path == root or path.name.endswith(_ARCHIVES)):
                if name in archives:
                    raise DataError.of(
                        "--input: there are two archives ",
                        name,
                        "; name a folder that contains both",
                    )
                archives[name] = path.resolve()
    return files_by_split(archives, ", ".join(given), _ARCHIVES[0], divide=True, named=named)


def webdataset_inputs(
    archives: Mapping[str, Mapping[str, Path]], names: tuple[str, ...], field: str
) -> Inputs:
    """List the images of some archives.

    Args:
        archives: Archives of each split, see `find_archives`.
        names: Names of the classes; empty to find out how many there are from all labels, which
            reads the archives' headers twice.
        field: Field of KEY.json with the label, if there is no KEY.cls.

    Raises:
        DataError: An archive is incomplete, damaged or compressed, or no image has a label. Listing
            the files raises it as well.
    """
    classes = names or _numbered_classes(archives, field)

    def files() -> Iterator[ImageFile | RejectedFile]:
        labels = Labels(classes if names else (), field)
        for split, paths in archives.items():
            for name, path in paths.items():
                for sample in samples(name, path):
                    yield _listed(split, sample, labels)
        labels.close()
        for other, count in labels.unread.items():
            if other:
                print(
                    f"{plural(count, 'image')} with {other} besides a class: only classes are used"
                )

    return Inputs(classes, files)


def _but(other: str) -> str:
    return f", but {other}; {OTHER_COMMANDS[other]}" if other else ""


def _of_another_task(sample: Sample, fields: Mapping[str, object]) -> str:
    """Return the other task that a sample has data of, one of `OTHER_COMMANDS`; empty if none."""
    if fields.keys() & {"bbox", "bboxes", "boxes", "annotations", "objects"}:
        return BOXES
    masks = (
        set(name.split(".")) & {"seg", "mask", "masks", "segmentation"} for name in sample.files
    )
    return MASK if any(masks) else ""


def _listed(split: str, sample: Sample | RejectedFile, labels: Labels) -> ImageFile | RejectedFile:
    if isinstance(sample, RejectedFile):
        return replace(sample, split=split)
    try:
        image, label = sample.image(), labels.read(sample)
    except RejectedError as error:
        return RejectedFile.of(split, sample.name, *error.args)
    name = f"{sample.name}{Path(image.path).suffix}"
    return ImageFile(split, name, label, image.container, image.offset, image.size, image.changed)


def _numbered_classes(archives: Mapping[str, Mapping[str, Path]], field: str) -> tuple[str, ...]:
    """Return a name for each class, given that labels are numbers.

    Raises:
        DataError: No image has a label.
    """
    labels, largest, example = Labels((), field), -1, ""
    paths = chain.from_iterable(of_split.items() for of_split in archives.values())
    every_sample = chain.from_iterable(samples(name, path) for name, path in paths)
    for number, sample in enumerate(every_sample, 1):
        if number % _REPORT_EVERY == 0:
            print(f"reading labels: {number:,} images so far", flush=True)
        listed = _listed("", sample, labels)
        if isinstance(listed, ImageFile):
            largest = max(largest, listed.label)
        else:
            example = example or f"; for example, {listed.name} {listed.reason}"
    labels.close()
    if largest < 0:
        raise DataError.of("the archives have no image with a label", example)
    return tuple(f"class {label}" for label in range(largest + 1))


def samples(name: str, path: Path) -> Iterator[Sample | RejectedFile]:
    """Yield the samples of an archive, and the files that belong to none.

    Args:
        name: Name of the archive for the user.
        path: Archive.

    Raises:
        DataError: The archive is incomplete, damaged or compressed.
    """
    for key, members in groupby(in_archive(on_disk(path)), _key):
        files: dict[str, StoredFile] = {}
        for member in members:
            match = _MEMBER.fullmatch(member.path)
            if member.fault or not match:
                reason = member.fault or "has no extension, so it belongs to no image"
                yield RejectedFile("", f"{name}/{member.path}", reason)
            else:
                files[match[2].lower()] = member
        if files:
            yield Sample(f"{name}/{key}", files)


def _key(member: StoredFile) -> str:
    match = _MEMBER.fullmatch(member.path)
    return match[1] if match else member.path
