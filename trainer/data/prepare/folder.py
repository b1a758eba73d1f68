"""A folder of images, with a folder for each class. Standard library only."""

import os
from collections.abc import Iterator
from pathlib import Path

from trainer.data.manifest import Manifest
from trainer.data.prepare.engine import prepare
from trainer.data.prepare.entries import HIDDEN, Entry, Inputs, Refusal
from trainer.errors import ConfigError, DataError
from trainer.options import PrepareFolderOptions

_TRAIN = ("train", "training")
_HELD_OUT = ("validation", "val", "valid", "test", "testing")
"""Names of the folder to evaluate on, the first that is there."""


def prepare_folder(options: PrepareFolderOptions, command: str) -> Manifest:
    """Write the images of a folder as a data set.

    Raises:
        ConfigError: no folder is given, or the output lies inside of it.
        DataError: see `engine.prepare`.
    """
    if not options.input:
        raise ConfigError(["--input: name the folder that holds a folder for each class"])
    root, output = Path(options.input), Path(options.output)
    if not root.is_dir():
        raise ConfigError([f"--input: there is no folder {root}"])
    if output.resolve().is_relative_to(root.resolve()):
        raise ConfigError([f"--output: {output} lies inside of --input and would become a class"])
    return prepare(folder_inputs(root), output, options, command, options.held_out)


def folder_inputs(root: Path) -> Inputs:
    """List a folder of images.

    Raises:
        DataError: there is no folder for any class.
    """
    root = root.resolve()
    above = _folders(root)
    train = next((name for name in _TRAIN if name in above), None)
    held_out = [name for name in _HELD_OUT if name in above]
    notes = []
    if train and held_out:
        splits = {"train": root / train, "validation": root / held_out[0]}
        left = [name for name in above if name not in (train, held_out[0])]
        if held_out[0].startswith("test"):
            notes.append(f"{held_out[0]}/ is evaluated on, as there is no validation/")
        if left:
            notes.append(f"left alone beside {train}/ and {held_out[0]}/: {', '.join(left)}")
    elif train and above == [train]:
        splits = {"": root / train}
    else:
        splits = {"": root}
    classes = tuple(sorted({name for folder in splits.values() for name in _folders(folder)}))
    if not classes:
        raise DataError(
            f"{root}: has no folders, but there must be one for each class, with its images:"
            f" {root / 'cat' / '1.jpg'}"
        )
    labels = {name: label for label, name in enumerate(classes)}

    def entries() -> Iterator[Entry | Refusal]:
        for split, folder in splits.items():
            yield from _list(split, folder, root, labels)

    return Inputs(classes, entries, notes=tuple(notes))


def _folders(folder: Path) -> list[str]:
    return sorted(e.name for e in os.scandir(folder) if e.is_dir() and not e.name.startswith("."))


def _list(
    split: str, folder: Path, root: Path, labels: dict[str, int]
) -> Iterator[Entry | Refusal]:
    """Everything below a split's folder, without following links to folders or out of the root."""
    pending = [""]
    while pending:
        inside = pending.pop()
        try:
            found = list(os.scandir(folder / inside))
        except OSError as error:
            yield Refusal(split, inside, f"cannot be listed ({error.strerror})")
            continue
        for item in found:
            name = f"{inside}/{item.name}" if inside else item.name
            if item.name.startswith(".") or item.name in ("Thumbs.db", "desktop.ini"):
                yield Refusal(split, name, HIDDEN)
            elif item.is_symlink() and not Path(item.path).resolve().is_relative_to(root):
                yield Refusal(split, name, "is a link that leads out of the folder")
            elif item.is_dir() and item.is_symlink():
                yield Refusal(split, name, "is a link to a folder")
            elif item.is_dir():
                pending.append(name)
            elif not item.is_file():
                yield Refusal(split, name, "is no file, or a link to nothing")
            elif not inside:
                yield Refusal(split, name, "lies in no class's folder")
            else:
                status = item.stat()
                label = labels[name.split("/", 1)[0]]
                yield Entry(split, name, label, item.path, 0, status.st_size, status.st_mtime_ns)
