"""`ml-trainer prepare multilabel`: images of a table, or of folders of classes."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from unicodedata import normalize
from zlib import crc32

from common.errors import ConfigError
from common.image_files import is_image
from common.text import plural
from trainer.data.manifest import Manifest
from trainer.data.pixels.treatment import Encoded
from trainer.data.prepare.folder import folder_inputs
from trainer.data.prepare.input_files import (
    ImageFile,
    Inputs,
    StoredFile,
    folder_problems,
    in_folder,
)
from trainer.data.prepare.job import prepare
from trainer.data.prepare.on_disk import OnDisk
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import split_folders, split_of, splits_of_rows
from trainer.data.tables.file_names import ByName, ambiguous, roots_of
from trainer.data.tables.reader import RowProblems
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
    files = OnDisk[StoredFile]()
    for file in in_folder(root, root):
        files[file.path] = file
    by_name = ByName(files, OnDisk(), roots_of(options.input))
    paths, rows_of = _paths(table.rows, by_name, path)
    labels = {name: label for label, name in enumerate(table.classes)}
    word, splits = _splits(table.rows, paths, path)

    def listed() -> Iterator[Listed]:
        for row in table.rows.values():
            split, file = splits.get(word(row)), files.get(paths.get(row.file, ""))
            if split is None:
                continue
            if file is None or file.fault:
                yield _rejected(row, split, file, by_name, path)
            else:
                target = pack((labels[name] for name in row.classes), len(labels))
                changed = file.changed + crc32(target)
                name = _name(row.file, file.path)
                yield ImageFile(
                    split, name, 0, file.container, 0, file.size, changed, target=target
                )

    unused = sum(word(row) not in splits for row in table.rows.values())
    left = f"left out, because they are of no split: {plural(unused, 'row')}"
    images = sum(
        is_image(path) and not file.fault and path not in rows_of for path, file in files.items()
    )
    alone = f"left out, because the table does not name them: {plural(images, 'image')}"
    notes = (*table.notes, *([left] if unused else []), *([alone] if images else []))
    grouped = options.group_column is not None
    return Inputs(
        table.classes,
        listed,
        notes=notes,
        targets=Classes(),
        above=0,
        group=(lambda file: table.rows[rows_of[paths.get(file.name, file.name)]].group)
        if grouped
        else None,
    )


def _paths(
    rows: Mapping[str, Row], by_name: ByName[StoredFile], path: Path
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the paths of files by their names in a table, and the names by paths.

    Raises:
        DataError: Two rows name the same file.
    """
    paths, names, problems = OnDisk[str](), OnDisk[str](), RowProblems()
    for row in rows.values():
        file = by_name.path(row.file)
        if file is None:
            continue
        first = names.get(file)
        if first is not None:
            again = f"{row.file!r} is in line {rows[first].line} already; write one row"
            problems.add(row.line, again)
            continue
        paths[row.file], names[file] = file, row.file
    problems.check(path)
    return paths, names


def _name(named: str, path: str) -> str:
    """Return the name of an image: that in the table if it is the path but for the form of its
    letters, and otherwise the path.
    """
    return named if normalize("NFC", named) == normalize("NFC", path) else path


def _rejected(
    row: Row, split: str, file: StoredFile | None, by_name: ByName[StoredFile], path: Path
) -> RejectedFile:
    if file:
        return RejectedFile.of(split, row.file, file.fault)
    several = by_name.several(row.file)
    first, paths, last = ambiguous(several) if several else ("is not in the folder", "", "")
    line = f"line {row.line} of {path.name}"
    return RejectedFile.of(split, row.file, "is named by ", line, f", but {first}", paths, last)


def _splits(
    rows: Mapping[str, Row], paths: Mapping[str, str], path: Path
) -> tuple[Callable[[Row], str], dict[str, str]]:
    """Return the function that gives the word for the split of a row, as the table or the first
    folder of its path says; and the splits by word, empty if they are still undecided. Words of
    rows that are left out are missing.
    """
    words, folders = set[str](), set[str]()

    def top(row: Row) -> str:
        return paths.get(row.file, row.file).partition("/")[0]

    for row in rows.values():
        words.add(row.split)
        if split_of(top(row)):
            folders.add(top(row))

    def word(row: Row) -> str:
        return row.split

    if not any(words) and all(split_folders(folders)):
        words = {split_of(top(row)) for row in rows.values()}

        def word(row: Row) -> str:
            return split_of(top(row))

    return word, splits_of_rows(words, path)


def of_folders(root: Path) -> Inputs:
    """Return the images of class folders, of which equal files in several folders are one.

    Raises:
        DataError: There is no class folder, or a file cannot be read.
    """
    inputs = folder_inputs(root)
    images, rejected = OnDisk[ImageFile](), OnDisk[RejectedFile]()
    for file in inputs.files():
        if isinstance(file, RejectedFile):
            rejected[f"{file.split}/{file.name}"] = file
        else:
            # Its path from the root, because both splits may have the same one in their folders.
            name = Path(file.container).relative_to(root).as_posix()
            images[f"{file.split} {file.size:020} {name}"] = replace(file, name=name)
    merged, several = OnDisk[ImageFile](), 0
    for file, labels in _merged(images[key] for key in images.ordered()):
        target = pack(labels, len(inputs.classes))
        several += len(labels) > 1
        merged[file.name] = replace(
            file, label=0, changed=file.changed + crc32(target), target=target
        )
    notes = [*inputs.notes, f"{plural(several, 'image')} of {len(merged):,} in several classes"]

    def files() -> Iterator[Listed]:
        yield from rejected.values()
        yield from merged.values()

    return Inputs(inputs.classes, files, notes=tuple(notes), targets=Classes(), above=1)


def _merged(images: Iterable[ImageFile]) -> Iterator[tuple[ImageFile, set[int]]]:
    """Yield each image once, the first of equal files, with the classes of all of them. Only files
    of equal sizes are read.

    Args:
        images: Images by split, size and name.
    """

    def size(file: ImageFile) -> tuple[str, int]:
        return file.split, file.size

    for _, group in groupby(images, key=size):
        alike = [*group]
        by_content: dict[bytes, tuple[ImageFile, set[int]]] = {}
        for file in alike:
            content = _digest(file) if len(alike) > 1 else b""
            by_content.setdefault(content, (file, set()))[1].add(file.label)
        yield from by_content.values()


def _digest(file: ImageFile) -> bytes:
    try:
        with Path(file.container).open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError as error:
        raise DataError(
            f"{file.container}: cannot be read ({error.strerror}); run the same command again to"
            " continue"
        ) from error
