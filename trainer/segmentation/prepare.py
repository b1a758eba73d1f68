"""A folder of images, and a folder of their masks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from common.errors import ConfigError
from trainer.data.manifest import Manifest
from trainer.data.prepare.input_files import ImageFile, Inputs, folder_problems, in_folder
from trainer.data.prepare.job import prepare
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import split_folders
from trainer.errors import DataError
from trainer.segmentation.mask_files import IGNORED, MaskFolder
from trainer.segmentation.options import PrepareSegmentationOptions


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
    found = MaskFolder(masks.resolve(), len(options.classes))
    inputs = paired_inputs(images.resolve(), found, tuple(options.classes))
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
        raise DataError(f"{images}: has no files")

    def files() -> Iterator[ImageFile | RejectedFile]:
        for stored in in_folder(images, images):
            split = next(
                (name for name, folder in splits.items() if stored.path.startswith(f"{folder}/")),
                "",
            )
            if splits and not split:
                fault = f"is neither in {train}/ nor in {validation}/"
            else:
                fault = stored.fault or _mask_fault(masks, stored.path)
            if fault:
                yield RejectedFile(split, stored.path, fault)
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
                stored.changed + state.st_mtime_ns + state.st_size,
            )

    return replace(Inputs(classes, files, above=0), targets=masks)


def _mask_fault(masks: MaskFolder, name: str) -> str:
    path = masks.path(name)
    return "" if path.is_file() else f"has no mask {path.relative_to(masks.folder)}"
