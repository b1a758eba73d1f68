"""The classes of ILSVRC2012's validation images, which are not sorted, and the names of WordNet's
synsets.
"""

import csv
import gzip
import io
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from common.text import plural
from trainer.errors import DataError

DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"

SYNSET = re.compile(r"n\d{8}")

_NUMBERS = "ILSVRC2012_validation_ground_truth.txt"
_META = "meta.mat"
_IMAGE = re.compile(r"ILSVRC2012_val_(\d{8})")


@dataclass(frozen=True)
class GroundTruth:
    """Classes of the validation images."""

    synsets: Sequence[str]
    """Synset of each image, in the order of image numbers, which start at 1."""
    words: dict[str, str] = field(default_factory=dict)
    """Words of each synset, if the development kit has them."""


def read_ground_truth(path: Path) -> GroundTruth:
    """Read the classes of the validation images.

    Args:
        path: Archive of the development kit, its file of numbers next to meta.mat, a text file with
            one synset per line, or Kaggle's LOC_val_solution.csv.

    Raises:
        DataError: The file is not one of these, is damaged, or lacks an image.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name {DEVKIT}, or data/{_NUMBERS} in the unpacked")
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed or tarfile.is_tarfile(path):
        return _from_devkit(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is neither {DEVKIT} nor text ({error.reason})") from error
    if not lines:
        raise DataError(f"{path}: is empty")
    if lines[0].startswith("ImageId,"):
        return GroundTruth(_from_csv(path, lines))
    if not lines[0].strip().isdigit():
        return GroundTruth(_from_synsets(path, lines))
    meta = path.parent / _META
    if not meta.exists():
        raise DataError(
            f"{path}: its numbers are not labels in the order of synsets, and there is no {_META}"
            f" next to it that maps them to synsets; name {DEVKIT}, which has both"
        )
    with meta.open("rb") as file:
        return _from_numbers(path, lines, *_read_meta(file, meta))


def _from_devkit(path: Path) -> GroundTruth:
    content: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if name in (_META, _NUMBERS) and member.isreg():
                    file = archive.extractfile(member)
                    assert file is not None
                    content[name] = file.read()
            # Read to the end, where gzip verifies its checksum.
            assert archive.fileobj is not None
            while archive.fileobj.read(1 << 20):
                pass
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: is incomplete, damaged or not an archive ({error}); download it again"
        ) from error
    for name in (_META, _NUMBERS):
        if name not in content:
            raise DataError(f"{path}: there is no {name} in it; name {DEVKIT}")
    ids, words = _read_meta(io.BytesIO(content[_META]), f"{path}: {_META}")
    lines = content[_NUMBERS].decode(errors="replace").split()
    return _from_numbers(f"{path}: {_NUMBERS}", lines, ids, words)


def _read_meta(file: IO[bytes], where: object) -> tuple[dict[int, str], dict[str, str]]:
    """Return the synset of each ILSVRC2012_ID, and the words of each synset."""
    import numpy as np  # noqa: PLC0415 not needed by other forms, and slow to import
    import scipy.io  # noqa: PLC0415
    from scipy.io.matlab import MatReadError  # noqa: PLC0415

    ids, words = {}, {}
    try:
        for row in np.atleast_1d(scipy.io.loadmat(file, squeeze_me=True)["synsets"]):
            # The others are hypernyms of these synsets, which no image has as a label.
            if int(row["num_children"]) == 0:
                synset = str(row["WNID"])
                ids[int(row["ILSVRC2012_ID"])] = synset
                words[synset] = row["words"] if isinstance(row["words"], str) else ""
    except (MatReadError, ValueError, KeyError, TypeError, IndexError, NotImplementedError,
            OSError, zlib.error) as error:  # fmt: skip
        raise DataError(
            f"{where}: is not the development kit's table of synsets"
            f" ({type(error).__name__}: {error}); name {DEVKIT}"
        ) from error
    return ids, words


def _from_numbers(
    where: object, lines: Sequence[str], ids: dict[int, str], words: dict[str, str]
) -> GroundTruth:
    synsets = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text.isdecimal() or int(text) not in ids:
            raise DataError(
                f"{where}, line {number}: {text[:40]!r} is not an ILSVRC2012_ID in {_META}"
            )
        synsets.append(ids[int(text)])
    return GroundTruth(synsets, words)


def _from_synsets(path: Path, lines: Sequence[str]) -> list[str]:
    synsets = [line.strip() for line in lines]
    for number, synset in enumerate(synsets, 1):
        if not SYNSET.fullmatch(synset):
            raise DataError(
                f"{path}, line {number}: {synset[:40]!r} is not a synset like n01440764; name"
                f" {DEVKIT}, a file with one synset per line, or LOC_val_solution.csv"
            )
    return synsets


def _from_csv(path: Path, lines: Sequence[str]) -> list[str]:
    synsets: dict[int, str] = {}
    for number, row in enumerate(csv.reader(lines[1:]), 2):
        image = _IMAGE.fullmatch(row[0]) if len(row) == 2 else None
        synset = SYNSET.fullmatch(row[1].split(" ")[0]) if image else None
        if image is None or synset is None:
            raise DataError(
                f"{path}, line {number}: is not like 'ILSVRC2012_val_00000001,n01751748 ...'"
            )
        if int(image[1]) in synsets:
            raise DataError(f"{path}, line {number}: has {image[0]} a second time")
        synsets[int(image[1])] = synset[0]
    missing = next((n for n in range(1, len(synsets) + 1) if n not in synsets), None)
    if missing is not None:
        raise DataError(
            f"{path}: has {plural(len(synsets), 'image')}, but not ILSVRC2012_val_{missing:08d}"
        )
    return [synsets[number] for number in range(1, len(synsets) + 1)]


def read_words(path: Path, synsets: Collection[str]) -> dict[str, str]:
    """Read the words of some synsets: words.txt, synset_words.txt or LOC_synset_mapping.txt.

    Args:
        path: File with a synset and its words per line, separated by a tab or a space.
        synsets: Synsets to read; words.txt has all of WordNet's.

    Raises:
        DataError: The file is not text, or has words for none of the synsets.
    """
    words_of = {}
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for line in lines:
                synset, *rest = line.split(None, 1)[:2] or [""]
                if rest and synset in synsets:
                    words_of[synset] = rest[0].strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text ({error.reason})") from error
    if not words_of:
        raise DataError(
            f"{path}: has words for none of the {len(synsets)} synsets; expected lines such as"
            " 'n01440764 tench, Tinca tinca'"
        )
    return words_of


def class_names(synsets: Sequence[str], words: Mapping[str, str]) -> tuple[str, ...]:
    """Return a unique name for each class.

    Args:
        synsets: Synsets in the order of labels.
        words: Words of each synset, separated by commas; the first becomes the name. A synset
            without words is its own name.
    """
    first = [words.get(synset, "").split(",")[0].strip() or synset for synset in synsets]
    times = Counter(first)
    return tuple(
        f"{name} ({synset})" if times[name] > 1 else name
        for name, synset in zip(first, synsets, strict=True)
    )
