"""A folder of images, with a folder for each class."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unicodedata import normalize

from common.errors import ConfigError
from common.image_files import is_hidden
from trainer.data.intake.names import Note
from trainer.data.manifest import Manifest
from trainer.data.prepare.encode import may_be_image
from trainer.data.prepare.input_files import (
    ImageFile,
    Inputs,
    in_folder,
    listed,
)
from trainer.data.prepare.job import prepare
from trainer.data.prepare.options import PrepareFolderOptions
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import split_folders, split_of, test_folder
from trainer.errors import DataError


def prepare_folder(
    options: PrepareFolderOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write the images of a folder as a data set.

    Raises:
        ConfigError: No folder is given, or the output is inside it.
        DataError: See `job.prepare`.
    """
    if not options.input:
        raise ConfigError(
            ["--input: name the folder that has one folder per class (with make: INPUT=DIR)"]
        )
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
    splits, notes = _splits(root)
    names = {name for folder in splits.values() for name in _folders(folder)}
    forms = Counter(normalize("NFC", name) for name in names)
    # macOS stores é as two characters, so two splits may have the folder of a class in two forms.
    of_folder = {
        name: composed if forms[composed := normalize("NFC", name)] > 1 else name for name in names
    }
    classes = tuple(sorted({*of_folder.values()}))
    if not classes:
        raise DataError.of(
            "",
            str(root),
            ": has no folders; put the images of each class into a folder of its own, such as ",
            str(root / "cat" / "1.jpg"),
        )
    numbers = {name: number for number, name in enumerate(classes)}
    labels = {name: numbers[of_class] for name, of_class in of_folder.items()}

    def files() -> Iterator[ImageFile | RejectedFile]:
        for split, folder in splits.items():
            for stored in in_folder(folder, root):
                name = stored.path.removeprefix(f"{folder.name}/" if folder != root else "")
                first, _, rest = name.partition("/")
                if stored.fault or not rest or first not in labels:
                    reason = stored.fault or "lies in no class's folder"
                    yield RejectedFile(split, name, reason, counted=may_be_image(name))
                else:
                    yield ImageFile(
                        split, name, labels[first], stored.container, 0, stored.size, stored.changed
                    )

    return Inputs(classes, files, notes=tuple(notes), above=1)


def _splits(root: Path) -> tuple[dict[str, Path], list[Note]]:
    """Return the folder of each split, and notes on them; one folder of the split "" if the images
    are not divided.
    """
    above, notes = _folders(root), list[Note]()
    train, validation = split_folders(above)
    if train and above == [train]:
        return {"": root / train}, notes
    if not train or not validation:
        return {"": root}, notes
    splits = {"train": root / train, "validation": root / validation}
    if split_of(validation) == "test":
        notes.append(f"{validation}/ is used for evaluation, as there is no validation/")
    elif test := test_folder(above, validation):
        splits["test"] = root / test
    used = {folder.name for folder in splits.values()}
    left = [_shown(name) for name in above if name not in used]
    if left:
        beside = [f"{folder.name}/" for folder in splits.values()]
        notes.append((f"ignored next to {' and '.join(beside)}: ", ", ".join(left)))
    return splits, notes


def _folders(folder: Path) -> list[str]:
    return [item.name for item in listed(folder) if item.is_dir() and not is_hidden(item.name)]


def _shown(name: str) -> str:
    """Return a name in a form that can be printed, even if it is not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")
