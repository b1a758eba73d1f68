"""`ml-trainer prepare tfrecords`: a manifest for shards that another tool wrote.

find the shards  ->  scan each, in parallel  ->  determine the labels  ->  statistics
                 ->  write manifest.json next to them; the shards are not changed
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from common.errors import ConfigError
from trainer.data.example import BrokenRecordError
from trainer.data.formats.tfrecord import FRAME, TFRECORDS, read_frames
from trainer.data.manifest import INDEX_EVERY, Manifest
from trainer.data.prepare.foreign.in_place import (
    MAX_CLASSES,
    Labels,
    Scanned,
    describe,
    existing_manifest,
    note_name,
    save_described,
)
from trainer.data.prepare.foreign.names import files_by_split
from trainer.data.prepare.options import PrepareTfrecordsOptions
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.errors import DataError

_NO_SHARD = {".csv", ".idx", ".index", ".json", ".md5", ".partial", ".sha256", ".txt"}
"""Extensions of files that other tools put next to their shards."""
_GZIP = b"\x1f\x8b"


def prepare_tfrecords(
    options: PrepareTfrecordsOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Describe the shards in a folder by a manifest in the same folder.

    Raises:
        ConfigError: No folder is given.
        DataError: Shards are missing, damaged or cannot be trained on, labels are ambiguous, or the
            folder has a manifest of other shards.
    """
    if not options.input:
        raise ConfigError(["--input: name the folder of the shards"])
    folder = Path(options.input)
    by_split = find_shards(folder)
    existing = existing_manifest(folder)
    paths = [path for of_split in by_split.values() for path in of_split.values()]
    for path in paths:
        _check_uncompressed(path)

    def classes_of(scanned: Scanned, labels: Labels) -> tuple[tuple[str, ...], int]:
        names: dict[int, tuple[str, str]] = {}
        for part in scanned:
            for label, name in part.names.items():
                note_name(names, label, name, part.shard.file)
        first = _first_label(folder, labels, options.first_label)
        return _class_names(names, range(first, max(map(max, labels.values())) + 1)), first

    images = _estimate(paths)
    manifest = describe(
        folder, by_split, TFRECORDS, images, options, command, classes_of, work_through
    )
    return save_described(folder, manifest, existing)


def _check_uncompressed(path: Path) -> None:
    with path.open("rb") as file:
        if file.read(len(_GZIP)) == _GZIP:
            raise DataError(
                f"{path}: is compressed with gzip, so it could only be read from its start;"
                " uncompress the shards with gunzip first"
            )


def _estimate(paths: Sequence[Path]) -> int:
    """Estimate the number of images in some shards from the size of the first ones."""
    try:
        sizes = [len(frame.data) + FRAME for frame in islice(read_frames(paths[0]), INDEX_EVERY)]
    except BrokenRecordError:
        return 0
    return sum(path.stat().st_size for path in paths) * len(sizes) // max(sum(sizes), 1)


def _first_label(folder: Path, labels: Labels, option: str) -> int:
    """Return the label of the first class."""
    smallest = min(min(counts) for counts in labels.values())
    largest = max(max(counts) for counts in labels.values())
    run = f"labels run from {smallest:,} to {largest:,}"
    choose = "set the label of the first class with --first-label 0 or --first-label 1"
    if smallest < 0 or largest - smallest >= MAX_CLASSES:
        raise DataError(
            f"{folder}: {run}, which is not a valid numbering of classes; write the shards again"
        )
    if option != "auto":
        if smallest < int(option):
            raise DataError(f"{folder}: {run}, but --first-label is {option}")
        return int(option)
    train, validation = labels["train"], labels["validation"]
    if min(validation) < min(train) or max(validation) > max(train):
        raise DataError(
            f"{folder}: training labels run from {min(train):,} to {max(train):,}, held-out labels"
            f" from {min(validation):,} to {max(validation):,}; they may not mean the same classes."
            f" If they do, {choose}"
        )
    if smallest > 1:
        raise DataError(f"{folder}: {run}, so the label of the first class is ambiguous; {choose}")
    hint = " (if class 0 has no images, use --first-label 0)" if smallest else ""
    print(f"{run}; the first class is assumed to be {smallest}{hint}", flush=True)
    return smallest


def _class_names(names: Mapping[int, tuple[str, str]], labels: range) -> tuple[str, ...]:
    """Return a unique name for each label: its text, with a suffix in brackets if it is not unique.

    Without a text the name is the synset, and without a synset "class" and a number from 0.
    """
    known = [names.get(label, ("", "")) for label in labels]
    times = Counter(text or synset for text, synset in known)
    return tuple(
        (text or synset or f"class {number}")
        if times[text or synset] == 1 or not (text or synset)
        else f"{text or synset} ({synset if text and synset else label})"
        for number, (label, (text, synset)) in enumerate(zip(labels, known, strict=True))
    )


def find_shards(folder: Path) -> dict[str, dict[str, Path]]:
    """Return the shards of each split by their names, in their order; see `files_by_split`.

    Raises:
        DataError: There is no such folder, a split has no shards or lacks some, or has shards of
            several series.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    files = {
        path.name: path
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix not in _NO_SHARD and not path.name.startswith(".")
    }
    return files_by_split(files, str(folder), "", divide=False)
