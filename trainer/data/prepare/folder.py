"""A folder of images, with a folder for each class."""

import os
from collections.abc import Iterator
from pathlib import Path

from common.errors import ConfigError
from trainer.data.manifest import Manifest
from trainer.data.prepare.input_files import ImageFile, Inputs
from trainer.data.prepare.job import prepare
from trainer.data.prepare.options import PrepareFolderOptions
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import HIDDEN, RejectedFile
from trainer.errors import DataError

TRAINING = ("train", "training")
VALIDATION = ("validation", "val", "valid", "test", "testing")
"""Names of the folder of held-out images, in upper or lower case; the first that exists is used."""
_HIDDEN = ("Thumbs.db", "desktop.ini", "__MACOSX")
"""Names that file managers and archives leave behind, besides those that begin with a dot."""


def prepare_folder(
    options: PrepareFolderOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write the images of a folder as a data set.

    Raises:
        ConfigError: No folder is given, or the output is inside it.
        DataError: See `job.prepare`.
    """
    if not options.input:
        raise ConfigError(["--input: name the folder that has one folder per class"])
    root, output = Path(options.input), Path(options.output)
    if not root.is_dir():
        raise ConfigError([f"--input: there is no folder {root}"])
    if output.resolve().is_relative_to(root.resolve()):
        raise ConfigError([f"--output: {output} is inside --input and would become a class"])
    inputs = folder_inputs(root)
    return prepare(inputs, output, options, command, options.held_out, work_through)


def folder_inputs(root: Path) -> Inputs:
    """List a folder of images.

    Raises:
        DataError: There is no class folder.
    """
    root = root.resolve()
    above = _folders(root)
    lower = {name.lower(): name for name in above}
    train = next((lower[name] for name in TRAINING if name in lower), None)
    validation = next((lower[name] for name in VALIDATION if name in lower), None)
    notes = []
    if train and validation:
        splits = {"train": root / train, "validation": root / validation}
        left = [_shown(name) for name in above if name not in (train, validation)]
        if validation.lower().startswith("test"):
            notes.append(f"{validation}/ is used for evaluation, as there is no validation/")
        if left:
            notes.append(f"ignored beside {train}/ and {validation}/: {', '.join(left)}")
    elif train and above == [train]:
        splits = {"": root / train}
    else:
        splits = {"": root}
    classes = tuple(sorted({name for folder in splits.values() for name in _folders(folder)}))
    if not classes:
        raise DataError(
            f"{root}: has no folders; put the images of each class into a folder of its own, such"
            f" as {root / 'cat' / '1.jpg'}"
        )
    labels = {name: label for label, name in enumerate(classes)}

    def files() -> Iterator[ImageFile | RejectedFile]:
        for split, folder in splits.items():
            yield from _list(split, folder, root, labels)

    return Inputs(classes, files, notes=tuple(notes))


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as items:
        return sorted(item.name for item in items if item.is_dir() and not _is_hidden(item.name))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in _HIDDEN


def _shown(name: str) -> str:
    """Return a name in a form that can be printed, even if it is not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _list(
    split: str, folder: Path, root: Path, labels: dict[str, int]
) -> Iterator[ImageFile | RejectedFile]:
    """Yield everything below a split's folder, without following links to folders or out of `root`.

    Raises:
        DataError: The storage fails.
    """
    pending = [""]
    while pending:
        inside = pending.pop()
        try:
            with os.scandir(folder / inside) as items:
                for item in items:
                    name = f"{inside}/{item.name}" if inside else item.name
                    fault = _fault(item, root)
                    if fault:
                        yield RejectedFile(split, name, fault)
                    elif item.is_dir():
                        pending.append(name)
                    else:
                        yield _image_file(split, name, item, labels)
        except PermissionError as error:
            yield RejectedFile(split, inside, f"cannot be listed ({error.strerror})")
        except OSError as error:
            # An unknown number of files would be missing.
            raise DataError(
                f"{folder / inside}: cannot be listed ({error.strerror}); run the same command"
                " again to continue"
            ) from error


def _fault(item: "os.DirEntry[str]", root: Path) -> str:
    """Return why an entry of a folder is rejected, whatever its content; empty if it is not."""
    if _is_hidden(item.name):
        return HIDDEN
    try:
        if item.is_symlink():
            if not Path(os.path.realpath(item.path)).is_relative_to(root):
                return "is a link that leads out of the folder"
            if item.is_dir():
                return "is a link to a folder"
        if not item.is_dir() and not item.is_file():
            return "is no file, or a link to nothing"
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    return ""


def _image_file(
    split: str, name: str, item: "os.DirEntry[str]", labels: dict[str, int]
) -> ImageFile | RejectedFile:
    first, _, rest = name.partition("/")
    if not rest or first not in labels:
        return RejectedFile(split, name, "lies in no class's folder")
    try:
        status = item.stat()
    except OSError as error:
        return RejectedFile(split, name, f"cannot be looked at ({error.strerror})")
    return ImageFile(split, name, labels[first], item.path, 0, status.st_size, status.st_mtime_ns)
