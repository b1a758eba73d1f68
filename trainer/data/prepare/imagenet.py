"""ILSVRC2012 as downloaded, or unpacked: its images and their classes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from common.errors import ConfigError
from trainer.data.intake.names import Note
from trainer.data.manifest import Manifest
from trainer.data.prepare.imagenet_labels import (
    DEVKIT,
    SYNSET,
    GroundTruth,
    class_names,
    read_ground_truth,
    read_words,
)
from trainer.data.prepare.input_files import (
    ImageFile,
    Inputs,
    StoredFile,
    in_archive,
    in_folder,
    listed,
    look,
    on_disk,
)
from trainer.data.prepare.job import prepare
from trainer.data.prepare.on_disk import OnDisk
from trainer.data.prepare.options import PrepareImagenetOptions
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.errors import DataError

CLASSES = 1000

_TRAIN, _VALIDATION = "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"
_SOURCE = "image-net.org offers it after sign-in"
_NUMBERED = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG")
_NUMBERED_NAME = "ILSVRC2012_val_NNNNNNNN.JPEG"

_ARCHIVE = re.compile(r"(n\d{8})\.tar")


def prepare_imagenet(
    options: PrepareImagenetOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write ILSVRC2012 as a data set.

    Raises:
        ConfigError: A required input is not given, or does not exist.
        DataError: An input has the wrong content; see also `job.prepare`.
    """
    _check(options)
    inputs = imagenet_inputs(
        Path(options.train),
        Path(options.validation),
        Path(options.ground_truth) if options.ground_truth else None,
        Path(options.words) if options.words else None,
    )
    output = Path(options.output)
    return prepare(inputs, output, options, command, work_through=work_through)


def _check(options: PrepareImagenetOptions) -> None:
    problems = []
    for option, value, archive in (
        ("--train", options.train, _TRAIN),
        ("--validation", options.validation, _VALIDATION),
    ):
        if not value:
            problems.append(f"{option}: name {archive}, or the folder unpacked from it; {_SOURCE}")
        elif not Path(value).exists():
            problems.append(f"{option}: {value} does not exist; expected {archive}; {_SOURCE}")
        elif Path(value).is_dir() and Path(options.output).resolve().is_relative_to(
            Path(value).resolve()
        ):
            problems.append(f"--output: {options.output} is inside {option}")
    for option, other in (("--ground-truth", options.ground_truth), ("--words", options.words)):
        if other and not Path(other).exists():
            problems.append(f"{option}: {other} does not exist")
    if problems:
        raise ConfigError(problems)


def imagenet_inputs(
    train: Path, validation: Path, ground_truth: Path | None, words: Path | None
) -> Inputs:
    """List ILSVRC2012, or a part of it. Labels are 0, 1, ... in the order of synsets.

    Args:
        train: ILSVRC2012_img_train.tar, a folder of its inner archives, or a folder with one folder
            per synset.
        validation: ILSVRC2012_img_val.tar, a folder of its images, or a folder sorted into synsets.
        ground_truth: Classes of the validation images, see `read_ground_truth`; not needed if they
            are sorted.
        words: Names of the synsets, see `read_words`.

    Raises:
        ConfigError: The validation images are not sorted, and there is no ground truth.
        DataError: There are no classes, or the files do not belong together. Listing the files
            raises it as well, if an archive is incomplete or damaged.
    """
    synsets = find_classes(train)
    if not synsets:
        raise DataError(
            f"{train}: has neither archives nNNNNNNNN.tar nor folders nNNNNNNNN; name"
            f" {_TRAIN} itself, or the folder that was unpacked from it"
        )
    labels = {synset: label for label, synset in enumerate(synsets)}
    sorted_validation = find_classes(validation) if validation.is_dir() else []
    truth = read_ground_truth(ground_truth) if ground_truth else GroundTruth(())
    if not sorted_validation and not ground_truth:
        raise ConfigError(
            [
                f"--ground-truth: {validation} is not sorted into synsets, so name {DEVKIT}, a file"
                " with one synset per line, or LOC_val_solution.csv"
            ]
        )
    _check_known(
        sorted_validation or truth.synsets,
        labels,
        validation if sorted_validation else ground_truth,
        train,
    )
    notes = list[Note]()
    if len(synsets) != CLASSES:
        notes.append(
            f"{len(synsets):,} synsets, not ImageNet's {CLASSES:,}: labels are"
            f" 0..{len(synsets) - 1} in their sorted order"
        )
    known = read_words(words, labels) if words else truth.words
    unnamed = sum(1 for synset in synsets if not known.get(synset))
    if unnamed:
        notes.append(
            f"{unnamed:,} of {len(synsets):,} classes are named by their synset, because --words"
            " has no words for it"
        )
    if sorted_validation and ground_truth:
        notes.append(
            ("", f"{validation}", " is sorted into synsets, so ", f"{ground_truth}", " is not used")
        )

    def files() -> Iterator[ImageFile | RejectedFile]:
        # First, because this shows early whether these match their ground truth.
        if sorted_validation:
            yield from _sorted("validation", validation, labels)
        else:
            numbered = [labels[synset] for synset in truth.synsets]
            yield from _numbered(validation, numbered, ground_truth)
        yield from _sorted("train", train, labels)

    return Inputs(class_names(synsets, known), files, tuple(synsets), tuple(notes))


def _check_known(
    synsets: Sequence[str], labels: dict[str, int], where: Path | None, train: Path
) -> None:
    unknown = sorted(set(synsets) - labels.keys())
    if unknown:
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise DataError(
            f"{where}: has {len(unknown)} synsets that are not among the {len(labels)} classes of"
            f" {train}: {shown}"
        )


def _sorted(split: str, path: Path, labels: dict[str, int]) -> Iterator[ImageFile | RejectedFile]:
    """Yield images whose class follows from their folder or archive."""
    seen = OnDisk[None]()
    last = ""
    for synset, file in sorted_files(path):
        # A name that contains its synset can have a duplicate only within the same class.
        if split == "train" and synset != last:
            seen = OnDisk()
            last = synset
        if file.fault or synset not in labels:
            reason = file.fault or "is in no class's folder or archive"
            yield RejectedFile(split, file.path, reason)
            continue
        usual = file.name.startswith(f"{synset}_") or (
            split == "validation" and _NUMBERED.fullmatch(file.name)
        )
        name = file.name if usual else f"{synset}/{file.name}"
        if name in seen:
            yield RejectedFile(split, file.path, "has the name of another image")
            continue
        seen[name] = None
        yield _image_file(split, name, labels[synset], file)


def _numbered(
    path: Path, labels: Sequence[int], ground_truth: Path | None
) -> Iterator[ImageFile | RejectedFile]:
    """Yield images whose class follows from the number in their name."""
    seen = bytearray(len(labels))
    files = in_folder(path, path) if path.is_dir() else in_archive(on_disk(path))
    for file in files:
        match = _NUMBERED.fullmatch(file.name)
        if file.fault or not match:
            reason = file.fault or f"is not named {_NUMBERED_NAME}"
            yield RejectedFile("validation", file.path, reason)
            continue
        number = int(match[1])
        if not 1 <= number <= len(labels):
            raise DataError(
                f"{path}: has {file.name}, but {ground_truth} has the classes of {len(labels):,}"
                " images; use files that belong together"
            )
        if seen[number - 1]:
            yield RejectedFile("validation", file.path, "has the name of another image")
            continue
        seen[number - 1] = 1
        yield _image_file("validation", file.name, labels[number - 1], file)
    missing = seen.count(0)
    if missing:
        raise DataError(
            f"{path}: has {len(labels) - missing:,} images named {_NUMBERED_NAME}, but"
            f" {ground_truth} has the classes of {len(labels):,}; the first that is missing is"
            f" ILSVRC2012_val_{seen.find(0) + 1:08d}.JPEG"
        )


def _image_file(split: str, name: str, label: int, file: StoredFile) -> ImageFile | RejectedFile:
    if not file.size:
        return RejectedFile(split, name, "is empty")
    return ImageFile(split, name, label, file.container, file.offset, file.size, file.changed)


def find_classes(path: Path) -> list[str]:
    """Return the synsets that have images, sorted.

    Args:
        path: Archive of archives nNNNNNNNN.tar, or folder of such archives or of folders nNNNNNNNN.

    Raises:
        DataError: A class exists twice, or cannot be used as a whole; or the archive is compressed,
            incomplete or damaged.
    """
    members: dict[str, str] = {}
    for synset, member, fault in _tops(path):
        if fault:
            # Without one class, all later classes would have other labels.
            raise DataError(
                f"{path}: {member} {fault}, so its class would be missing; put the images"
                " themselves there"
            )
        if synset in members:
            raise DataError(
                f"{path}: has the class {synset} twice, as {members[synset]} and as {member}; move"
                " one of them away"
            )
        members[synset] = member
    return sorted(members)


def _tops(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield synset, path and fault of each archive or folder of a class."""
    if not path.is_dir():
        for file in in_archive(on_disk(path)):
            if archive := _ARCHIVE.fullmatch(file.name):
                yield archive[1], file.path, file.fault
        return
    for item in listed(path):
        archive, folder = _ARCHIVE.fullmatch(item.name), SYNSET.fullmatch(item.name)
        if folder and item.is_dir(follow_symlinks=False):
            yield folder[0], item.name, ""
        elif folder:
            yield folder[0], item.name, look(item, path).fault or "is not a folder"
        elif archive:
            yield archive[1], item.name, look(item, path).fault


def sorted_files(path: Path) -> Iterator[tuple[str, StoredFile]]:
    """Yield all files of the classes, each with its synset, class by class.

    Files that belong to no class have an empty synset.

    Args:
        path: Archive or folder, as in `find_classes`.

    Raises:
        DataError: An archive is compressed, incomplete or damaged.
    """
    if path.is_dir():
        for file in in_folder(path, path):
            top = file.path.partition("/")[0]
            if archive := _ARCHIVE.fullmatch(file.path):
                yield from ((archive[1], inner) for inner in in_archive(file))
            else:
                yield top if SYNSET.fullmatch(top) and top != file.path else "", file
        return
    for file in in_archive(on_disk(path)):
        if archive := _ARCHIVE.fullmatch(file.name):
            inside = in_archive(replace(file, path=file.name))
            yield from ((archive[1], inner) for inner in inside)
        else:
            yield "", file
