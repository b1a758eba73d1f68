"""`ml-trainer prepare multilabel`: images of a table, or of folders of classes."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from zlib import crc32

from common.errors import ConfigError
from common.image_files import is_image, same_name
from common.text import plural
from trainer.data.manifest import Manifest
from trainer.data.pixels.treatment import Encoded
from trainer.data.prepare.folder import folder_inputs
from trainer.data.prepare.input_files import (
    ImageFile,
    Inputs,
    folder_problems,
    in_folder,
)
from trainer.data.prepare.job import prepare
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import split_folders, split_of, used_splits
from trainer.errors import DataError
from trainer.extras.multilabel.classes import main_class, pack
from trainer.extras.multilabel.leaf import MULTI_HOT
from trainer.extras.multilabel.options import PrepareMultilabelOptions
from trainer.extras.multilabel.table import Row, read_table

Listed = ImageFile | RejectedFile


@dataclass(frozen=True)
class Classes:
    """The classes of the images, which the listing has; see `TargetFiles`."""

    def read(
        self, file: ImageFile, image: Encoded, *, resize: bool
    ) -> tuple[dict[str, bytes], int]:
        """See `TargetFiles.read`: the classes, and the first one of them."""
        del image, resize
        return {MULTI_HOT: file.target}, main_class(file.target)


def prepare_multilabel(
    options: PrepareMultilabelOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write images and their classes as a data set.

    Raises:
        ConfigError: A folder or file is not given or does not exist, or an option does not apply.
        DataError: The table cannot be used; or see `job.prepare`.
    """
    folder, output = Path(options.input), Path(options.output)
    problems = folder_problems(options.output, input=options.input)
    if options.table is None:
        problems += [
            f"--{name.replace('_', '-')}: is about a table; add --table FILE, or leave it out"
            for name in (
                "file_column",
                "class_column",
                "group_column",
                "separator",
                "uncertain",
                "blank",
                "classes",
            )
            if getattr(options, name) != getattr(PrepareMultilabelOptions(), name)
        ]
    elif not Path(options.table).is_file():
        problems.append(f"--table: no file {options.table}")
    if options.pages != "first":
        problems.append("--pages: classes are of the first image of a file; set it to first")
    if not options.separator:
        problems.append("--separator: is empty; give the text between two classes")
    if options.group_by is not None and options.group_column is not None:
        problems.append("--group-by: groups are those of --group-column; give one of both")
    if len(set(options.classes)) < len(options.classes):
        problems.append("--classes: a name is given twice")
    if problems:
        raise ConfigError(problems)
    root = folder.resolve()
    inputs = of_table(root, options) if options.table is not None else of_folders(root)
    return prepare(inputs, output, options, command, options.held_out, work_through)


def of_table(root: Path, options: PrepareMultilabelOptions) -> Inputs:
    """Return the images that a table names. Those that are not in the folder are rejected.

    Raises:
        DataError: The table cannot be used, or none of its images is for training.
    """
    path = Path(options.table or "")
    table = read_table(path, options)
    files = {file.path: file for file in in_folder(root, root)}
    find = same_name(files)
    labels = {name: label for label, name in enumerate(table.classes)}
    stored = {
        row.file: pack((labels[name] for name in row.classes), len(labels)) for row in table.rows
    }
    splits = _splits(table.rows, path)

    def listed() -> Iterator[Listed]:
        for row in table.rows:
            split, file = splits.get(row.file), files.get(find(row.file))
            if split is None:
                continue
            if file is None or file.fault:
                line = f"line {row.line} of {path.name}"
                absent = ("is named by ", line, ", but is not in the folder")
                yield RejectedFile.of(split, row.file, *((file.fault,) if file else absent))
            else:
                changed = file.changed + crc32(stored[row.file])
                target = stored[row.file]
                yield ImageFile(
                    split, row.file, 0, file.container, 0, file.size, changed, target=target
                )

    unused = len(table.rows) - len(splits)
    left = f"left out, because they are of no split: {plural(unused, 'row')}"
    named = {find(row.file) for row in table.rows}
    images = sum(is_image(path) and not files[path].fault for path in files if path not in named)
    alone = f"left out, because the table does not name them: {plural(images, 'image')}"
    notes = (*table.notes, *([left] if unused else []), *([alone] if images else []))
    groups = {row.file: row.group for row in table.rows}
    grouped = options.group_column is not None
    return Inputs(
        table.classes,
        listed,
        notes=notes,
        targets=Classes(),
        above=0,
        group=(lambda file: groups[file.name]) if grouped else None,
    )


def _splits(rows: Sequence[Row], path: Path) -> dict[str, str]:
    """Return the split of each file, empty if it is still undecided, as the table or the first
    folder of its path says. Those that are left out are missing.
    """
    words = {row.file: row.split for row in rows}
    tops = {file.partition("/")[0] for file in words}
    if not any(words.values()) and all(split_folders(tops)):
        words = {file: split_of(file.partition("/")[0]) for file in words}
    found = set(words.values())
    if found <= {"", "train"}:
        return dict.fromkeys(words, "")
    if "train" not in found:
        raise DataError(f"{path}: no image is for training; give some rows the split train")
    used = used_splits(found)
    return {file: used[word] for file, word in words.items() if word and word in used}


def of_folders(root: Path) -> Inputs:
    """Return the images of class folders, of which equal files in several folders are one.

    Raises:
        DataError: There is no class folder, or a file cannot be read.
    """
    inputs = folder_inputs(root)
    listed = [
        # Its path from the root, because both splits may have the same one in their folders.
        replace(file, name=Path(file.container).relative_to(root).as_posix())
        if isinstance(file, ImageFile)
        else file
        for file in inputs.files()
    ]
    images = [file for file in listed if isinstance(file, ImageFile)]
    merged = [*_merged(images)]
    count = len(inputs.classes)
    stored = {file.name: pack(labels, count) for file, labels in merged}
    rejected = [file for file in listed if isinstance(file, RejectedFile)]
    several = sum(len(labels) > 1 for _, labels in merged)
    notes = [*inputs.notes, f"{plural(several, 'image')} of {len(merged):,} in several classes"]

    def files() -> Iterator[Listed]:
        yield from rejected
        for file, _ in merged:
            changed = file.changed + crc32(stored[file.name])
            yield replace(file, label=0, changed=changed, target=stored[file.name])

    return Inputs(inputs.classes, files, notes=tuple(notes), targets=Classes(), above=1)


def _merged(images: Iterable[ImageFile]) -> Iterator[tuple[ImageFile, set[int]]]:
    """Yield each image once, the first of equal files, with the classes of all of them. Only files
    of equal sizes are read.
    """

    def size(file: ImageFile) -> tuple[str, int]:
        return file.split, file.size

    for _, group in groupby(sorted(images, key=lambda file: (*size(file), file.name)), key=size):
        alike = [*group]
        found: dict[bytes, tuple[ImageFile, set[int]]] = {}
        for file in alike:
            content = _digest(file) if len(alike) > 1 else b""
            found.setdefault(content, (file, set()))[1].add(file.label)
        yield from found.values()


def _digest(file: ImageFile) -> bytes:
    try:
        with Path(file.container).open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError as error:
        raise DataError(
            f"{file.container}: cannot be read ({error.strerror}); run the same command again to"
            " continue"
        ) from error
