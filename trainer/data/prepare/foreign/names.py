"""Names that other tools give to files and classes, and what follows from them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from common.errors import ConfigError
from common.text import listing, plural
from trainer.data.prepare.splits import split_of
from trainer.errors import DataError

_SERIES = re.compile(r"(.*?)(\d+)-of-(\d+)(.*)")


def files_by_split(
    files: Mapping[str, Path], where: str, suffix: str, *, divide: bool, named: bool = True
) -> dict[str, dict[str, Path]]:
    """Return the files of the training and the held-out split, in their order; and of the split for
    tests, if the files are to be divided.

    A split is named as `split_of` says. Files of the split `test` are held out for evaluation if
    there is no other such split.

    Args:
        files: Files by their path in the folder that was given.
        where: Name of that folder, for errors.
        suffix: End of their names.
        divide: Whether the held-out split may be missing. The others are then of the split "",
            which is still to be divided; and so are all files if none names a split.
        named: Whether messages may name files.

    Raises:
        DataError: A split has no files, lacks some, or has files of several series.
    """
    by_split: dict[str, dict[str, Path]] = {"train": {}, "validation": {}, "test": {}, "": {}}
    for name, path in files.items():
        by_split[split_of(name)][name] = path
    train, held, test, others = by_split.values()
    used = {"train": train, "validation": held or test}
    if held and test and divide:
        used["test"] = test
    elif held:
        others |= test
    if divide and not used["validation"] and (train or others):
        used, others = ({"": train}, others) if train else ({"": others}, {})
    empty = [split for split, paths in used.items() if not paths]
    if empty:
        raise DataError.of(
            "",
            where,
            f": has no files *{suffix} of the {' and the '.join(empty)} split; files are"
            f" named such as train-0{suffix} and validation-0{suffix} (or valid, val or test), or"
            " are in folders with these names",
        )
    if others:
        shown = f"\n{listing([*others])}" if named else f" {plural(len(others), 'file')}"
        print(f"not of a split that is used, so never read:{shown}")
    for split, paths in used.items():
        check_series(where, split or "train", paths)
    return used


def check_series(where: object, split: str, names: Iterable[str]) -> None:
    """Refuse a series of files with a gap, and several series that would be mixed.

    Args:
        where: Folder of the files, for errors.
        split: Split of the files, for errors.
        names: Their names, such as train-00000-of-00002; names of no series are accepted together.

    Raises:
        DataError: Files are missing, or are of several series.
    """
    matches = [_SERIES.fullmatch(name) for name in names]
    series = {(match[1], match[3], match[4]) if match else None for match in matches}
    if series == {None}:
        return
    if len(series) > 1:
        shown = ", ".join(
            f"{begin}*-of-{total}{end}" for begin, total, end in sorted(filter(None, series))
        )
        others = " and others" if None in series else ""
        raise DataError.of(
            *("", str(where), f": the {split} shards are of several series: ", f"{shown}{others}"),
            "; keep only one in the folder",
        )
    ((begin, total, end),) = filter(None, series)
    numbers = {int(match[2]) for match in matches if match}
    width = len(next(match[2] for match in matches if match))
    # Some tools count from 1.
    first = 1 if 0 not in numbers and int(total) in numbers else 0
    missing = [
        f"{begin}{number:0{width}d}-of-{total}{end}"
        for number in range(first, first + int(total))
        if number not in numbers
    ]
    if missing:
        more = f" and {len(missing) - 10:,} more" if len(missing) > 10 else ""
        raise DataError.of(
            *("", str(where), f": the following {split} shards are missing: "),
            *(f"{', '.join(missing[:10])}{more}", "; copy them as well"),
        )


def read_class_names(file: str | None) -> tuple[str, ...]:
    """Read the file of --class-names; empty if none is given.

    Raises:
        ConfigError: It cannot be read, or has an empty line.
    """
    if file is None:
        return ()
    try:
        names = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"--class-names: {file}: cannot be read ({error})"]) from error
    if not names or not all(name.strip() for name in names):
        raise ConfigError([f"--class-names: {file}: must have one name on each line"])
    return told_apart(names)


def told_apart(names: Sequence[object]) -> tuple[str, ...]:
    """Return the names of classes, with the label behind those that are not unique."""
    texts = [str(name).strip() for name in names]
    times = Counter(texts)
    return tuple(
        text if times[text] == 1 else f"{text} ({label})" for label, text in enumerate(texts)
    )
