"""A folder of images, and a folder of their masks."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final
from zlib import crc32

from common.errors import ConfigError
from common.text import plural
from trainer.data.manifest import Manifest
from trainer.data.pixels.treatment import RejectedError
from trainer.data.prepare.encode import may_be_image
from trainer.data.prepare.input_files import ImageFile, Inputs, folder_problems, in_folder
from trainer.data.prepare.job import prepare
from trainer.data.prepare.options import TURNED
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import split_folders
from trainer.errors import DataError
from trainer.extras.segmentation.mask_files import IGNORED, MaskFolder, read_colours
from trainer.extras.segmentation.options import PrepareSegmentationOptions

_TURNED_MARK: Final = 1_000_003
"""Added to the time of change for each other `--turned-images`."""
_TOLD_EVERY: Final = 10.0
"""Seconds between two lines of progress."""


def prepare_segmentation(
    options: PrepareSegmentationOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write images and their masks as a data set.

    Raises:
        ConfigError: A folder is not given or does not exist, or the classes are invalid.
        DataError: See `job.prepare`.
    """
    images, masks, output = (Path(p) for p in (options.images, options.masks, options.output))
    problems = folder_problems(options.output, images=options.images, masks=options.masks)
    if not 2 <= len(options.classes) <= IGNORED:
        problems.append(
            f"--classes: {len(options.classes)} names; name 2 to {IGNORED} classes in the order of"
            " their values in the masks, the background first"
        )
    if len(set(options.classes)) < len(options.classes):
        problems.append("--classes: a name is given twice")
    if problems:
        raise ConfigError(problems)
    colours = read_colours(masks.resolve(), options.classes)
    folder = MaskFolder(masks.resolve(), len(options.classes), options.turned_images, colours)
    inputs = paired_inputs(images.resolve(), folder, tuple(options.classes))
    inputs = replace(inputs, notes=(*_notes(inputs, folder, options.classes),))
    return prepare(inputs, output, options, command, options.held_out, work_through)


def paired_inputs(images: Path, masks: MaskFolder, classes: tuple[str, ...]) -> Inputs:
    """List the images that have a mask of the same path and name, with the suffix .png.

    Args:
        images: Folder of the images; may have folders train and validation.
        masks: Masks.
        classes: Class names, the background first.

    Raises:
        DataError: The folder has no files.
    """
    train, validation = split_folders(path.name for path in images.iterdir() if path.is_dir())
    splits = {"train": train, "validation": validation} if train and validation else {}
    if not any(images.iterdir()):
        raise DataError.of("", str(images), ": has no files")
    mark = _TURNED_MARK * TURNED.index(masks.turned)
    mark += crc32(repr(sorted(masks.colours.items())).encode()) if masks.colours else 0

    def files() -> Iterator[ImageFile | RejectedFile]:
        for stored in in_folder(images, images):
            if _is_mask(Path(stored.container), stored.path, images, masks):
                continue
            split = next(
                (name for name, folder in splits.items() if stored.path.startswith(f"{folder}/")),
                "",
            )
            fault: tuple[str, ...]
            if splits and not split:
                fault = (f"is neither in {train}/ nor in {validation}/",)
            else:
                fault = (stored.fault,) if stored.fault else _mask_fault(masks, stored.path)
            if fault:
                rejected = RejectedFile.of(split, stored.path, *fault)
                yield replace(rejected, counted=may_be_image(stored.path))
                continue
            state = masks.path(stored.path).stat()
            yield ImageFile(
                split,
                stored.path,
                0,
                stored.container,
                0,
                stored.size,
                # A mask that is changed must change the hash of the listing as well.
                stored.changed + state.st_mtime_ns + state.st_size + mark,
            )

    return replace(Inputs(classes, files, above=0), targets=masks)


def _is_mask(file: Path, name: str, images: Path, masks: MaskFolder) -> bool:
    """Return whether a file in the folder of the images is a mask, because masks are in the same
    folder or in one below it.
    """
    if masks.folder == images:
        mask = masks.path(name)
        return file.exists() and mask.exists() and mask.samefile(file)
    return masks.folder.is_relative_to(images) and file.is_relative_to(masks.folder)


def _mask_fault(masks: MaskFolder, name: str) -> tuple[str, ...]:
    path = masks.path(name)
    return () if path.is_file() else ("has no mask ", str(path.relative_to(masks.folder)))


def _notes(inputs: Inputs, masks: MaskFolder, classes: Sequence[str]) -> Iterator[str]:
    """Look at masks until each class was seen, and yield what people should know of them all.

    Raises:
        DataError: All masks have the values 0 and 255 alone.
    """
    absent, ignored, pixels, used, began = set(range(1, len(classes))), 0, 0, 0, time.monotonic()
    strange = 0
    for file in inputs.files():
        if not isinstance(file, ImageFile):
            continue
        used += 1
        if not absent:
            continue
        path = masks.path(file.name)
        with suppress(OSError, RejectedError):
            histogram = masks.opened(path.read_bytes(), path.name).histogram()
            absent -= {value for value, count in enumerate(histogram) if count}
            ignored += histogram[IGNORED]
            strange += sum(histogram[len(classes) : IGNORED])
            pixels += sum(histogram)
        if time.monotonic() - began > _TOLD_EVERY:
            began = time.monotonic()
            print(f"looking for all classes in masks: {used:,} masks so far", flush=True)
    if ignored and not strange and len(absent) == len(classes) - 1:
        raise DataError.of(
            f"all masks have only the values 0 and {IGNORED}, and {IGNORED} means pixels that do"
            f" not count: write the pixels of {classes[1]} as 1, or save masks of 1 bit per pixel"
        )
    if absent:
        share = f", and {IGNORED} covers {ignored / pixels:.0%}" if ignored else ""
        names = ", ".join(classes[value] for value in sorted(absent))
        ask = f": is it meant as {'one of them' if len(absent) > 1 else 'it'}?" if ignored else ""
        yield (
            f"warning: {plural(len(absent), 'class', 'classes')} without any pixel in a mask:"
            f" {names}{share}{ask}"
        )
    listed = in_folder(masks.folder, masks.folder)
    count = sum(not file.fault and file.name.lower().endswith(".png") for file in listed)
    if count > used:
        yield f"left out, because no usable image has their name: {plural(count - used, 'mask')}"
