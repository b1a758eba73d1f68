"""`python -m trainer prepare parquet`: a manifest for Parquet files of images and labels.

find the files of each split  ->  find the columns and the classes  ->  scan each, in parallel
                              ->  statistics  ->  write manifest.json; the files are not changed
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from common.errors import ConfigError
from common.text import listing
from trainer.data.example import BrokenRecordError
from trainer.data.formats.parquet import ParquetFormat
from trainer.data.formats.parquet_files import (
    Layout,
    UnfitFileError,
    check_row_groups,
    find_columns,
    read_layout,
)
from trainer.data.manifest import Columns, Manifest, Origin
from trainer.data.prepare.in_place.description import (
    MAX_CLASSES,
    ForeignShard,
    check_series,
    count_splits,
    existing_manifest,
    labels_by_split,
    measure_normalization,
    save_described,
    scan_all,
)
from trainer.data.prepare.options import PrepareParquetOptions
from trainer.errors import DataError

SPLITS = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
}
"""Splits by the words for them in names of files and folders."""
_NAME = re.compile(rf"({'|'.join(SPLITS)})([-_.].*)?\.parquet")
_OF_COPIES = ("reencode", "shard_mb", "seed", "max_rejected", "max_pixels", "held_out", "with_")
"""Options that a description in place has no use for."""
_LARGE_ROW_GROUP = 32_000_000
"""Bytes of a row group from which the user is told of the memory that it takes."""
_EXPECTED = (
    "files are named train-*.parquet and validation-*.parquet (or valid, val or test), or are in"
    " folders with these names, such as data/train-00000-of-00002.parquet"
)


def prepare_parquet(options: PrepareParquetOptions, line: str) -> Manifest:
    """Describe the Parquet files in a folder by a manifest.

    Args:
        options: Options of the command.
        line: Command line, for the manifest.

    Raises:
        ConfigError: No folder is given, an option is for copies alone, or a file of class names
            cannot be read.
        DataError: Files are missing, damaged or cannot be trained on, columns are ambiguous, labels
            are out of range, or the folder has a manifest of other files.
    """
    problems = [
        f"--{name.rstrip('_').replace('_', '-')}: applies to copies only; add --copy True"
        for name in _OF_COPIES
        if getattr(options, name) != getattr(PrepareParquetOptions(), name)
    ]
    if not options.input:
        problems.append("--input: name the folder of the Parquet files")
    if problems:
        raise ConfigError(problems)
    folder = Path(options.input)
    output = Path(options.output or folder)
    paths = find_files(folder)
    output.mkdir(parents=True, exist_ok=True)
    existing = existing_manifest(output)
    everything = [path for of_split in paths.values() for path in of_split]
    columns, layout = agreed_columns(everything, options)
    names = class_names(layout, columns, options)
    rows = sum(_checked(path, columns) for path in everything)
    files, classes = ParquetFormat(columns), len(names) or MAX_CLASSES
    shards = [
        ForeignShard(split, path, path.relative_to(folder).as_posix(), files, classes)
        for split, of_split in paths.items()
        for path in of_split
    ]
    scanned = scan_all(shards, rows, options.processes)
    labels = labels_by_split(folder, scanned)
    known = range(len(names) or max(map(max, labels.values())) + 1)
    splits = count_splits(scanned, labels, known)
    manifest = Manifest(
        classes=names or tuple(f"class {label}" for label in known),
        normalization=measure_normalization(folder, files, splits["train"].shards),
        splits=splits,
        origin=Origin(line, treatment={"left as they are": rows}),
        columns=columns,
        files="" if output.resolve() == folder.resolve() else str(folder.resolve()),
    )
    described = save_described(output, manifest, existing)
    _note_row_groups(described)
    return described


def _note_row_groups(manifest: Manifest) -> None:
    """Tell of row groups that take much memory, because each stream of a training holds some."""
    train = manifest.splits["train"]
    size = train.largest_row_group * train.bytes / train.examples
    if size > _LARGE_ROW_GROUP:
        print(
            f"row groups have up to {train.largest_row_group:,} images, about {size / 1e6:,.0f} MB,"
            " and each stream of a training holds one or more: `train --dry-run` prints the memory"
            " that this takes; a smaller --data.streams takes less, and a copy with --copy True"
            " least"
        )


def find_files(folder: Path, *, divide: bool = False) -> dict[str, list[Path]]:
    """Return the files of the training and the held-out split, in their order.

    A split is named by the file or else by the nearest folder. Files of the split `test` are held
    out only if there is no other such split.

    Args:
        folder: Folder of the files.
        divide: Whether the held-out split may be missing. The others are then of the split "",
            which is still to be divided; and so are all files if none names a split.

    Raises:
        DataError: A split has no files, lacks some, or has files of several series.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    found: dict[str, list[Path]] = {"train": [], "validation": [], "test": [], "": []}
    for path in sorted(folder.rglob("*.parquet")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            found[_split(name)].append(path)
    others, test = found.pop(""), found.pop("test")
    if found["validation"]:
        others += test
    else:
        found["validation"] = test
    empty = [name for name, paths in found.items() if not paths]
    if divide and "validation" in empty and (found["train"] or others):
        found, others = ({"": found["train"]}, others) if found["train"] else ({"": others}, [])
    elif empty:
        splits = " and the ".join(empty)
        raise DataError(
            f"{folder}: has no Parquet files of the {splits} split; {_EXPECTED}. If all images are"
            " in one split, --copy True holds some of them out"
        )
    if others:
        print(f"not of a split that is used, so never read:\n{listing([*map(str, others)])}")
    for split, paths in found.items():
        check_series(
            folder, split or "train", [path.relative_to(folder).as_posix() for path in paths]
        )
    return found


def _split(name: Path) -> str:
    """Return the split that a file is of, given its path in the folder, or an empty text."""
    match = _NAME.fullmatch(name.name)
    if match:
        return SPLITS[match[1]]
    return next((SPLITS[part] for part in reversed(name.parts[:-1]) if part in SPLITS), "")


def agreed_columns(paths: list[Path], options: PrepareParquetOptions) -> tuple[Columns, Layout]:
    """Return the columns and the schema of all files.

    Raises:
        DataError: A file cannot be trained on, or differs from the first one.
    """
    agreed: tuple[Columns, Layout] | None = None
    for path in paths:
        try:
            layout = read_layout(str(path))
            columns = find_columns(layout, options.image_column, options.label_column)
        except UnfitFileError as error:
            raise DataError(f"{path}: {error}") from error
        if agreed is None:
            agreed = columns, layout
        first, described = agreed
        names = [each.features.get(first.label, {}).get("names") for each in (described, layout)]
        if columns != first or names[0] != names[1]:
            what = "columns" if columns != first else "class names"
            raise DataError(
                f"{path}: has other {what} than {paths[0]}; all files must be of one data set"
            )
    assert agreed is not None
    return agreed


def _checked(path: Path, columns: Columns) -> int:
    try:
        return check_row_groups(str(path), columns)
    except UnfitFileError as error:
        raise DataError(f"{path}: {error}") from error
    except BrokenRecordError as error:
        raise DataError(f"{path}: cannot be read ({error}); copy it again") from error


def class_names(
    layout: Layout, columns: Columns, options: PrepareParquetOptions
) -> tuple[str, ...]:
    """Return the names in the file that is given, or in the metadata; empty if there are none.

    Raises:
        ConfigError: The file cannot be read, or has an empty line.
    """
    if options.class_names is not None:
        return told_apart(read_class_names(options.class_names))
    described = layout.features.get(columns.label, {}).get("names")
    return told_apart(described if isinstance(described, list) else [])


def read_class_names(file: str) -> list[str]:
    """Read the file of --class-names.

    Raises:
        ConfigError: It cannot be read, or has an empty line.
    """
    try:
        names = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"--class-names: {file}: cannot be read ({error})"]) from error
    if not names or not all(name.strip() for name in names):
        raise ConfigError([f"--class-names: {file}: must have one name on each line"])
    return names


def told_apart(names: Sequence[object]) -> tuple[str, ...]:
    """Return the names of classes, with the label behind those that are not unique."""
    texts = [str(name).strip() for name in names]
    times = Counter(texts)
    return tuple(
        text if times[text] == 1 else f"{text} ({label})" for label, text in enumerate(texts)
    )
