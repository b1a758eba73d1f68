"""The words for splits in names of files and folders."""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from trainer.errors import DataError

_WORDS: Final = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "val", "valid"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Splits by their words; of several, the first counts."""


def split_of(path: str) -> str:
    """Return the split that a path names by a word of the file's name, or else of the nearest
    folder's: train, validation or test; an empty text if it names none.
    """
    for part in reversed(path.lower().split("/")):
        for word in re.split(r"[-_.]", part):
            if word in _WORDS:
                return _WORDS[word]
    return ""


def used_splits(words: Collection[str]) -> dict[str, str]:
    """Return the split for each of the words that `split_of` returns: train, validation, or empty
    if it is still undecided. A test split is held out for evaluation if there is no other.
    """
    if "validation" in words:
        return {"": "", "train": "train", "validation": "validation", "test": "test"}
    return {"": "", "train": "train", "test": "validation"}


def splits_of_rows(words: Collection[str], table: Path) -> dict[str, str]:
    """Return the split of a table's images by the word of their row, empty if it is still
    undecided; words of images that are left out are missing.

    Raises:
        DataError: No image is for training.
    """
    if set(words) <= {"", "train"}:
        return dict.fromkeys(words, "")
    if "train" not in words:
        raise DataError.of(
            "", str(table), ": no image is for training; give some rows the split train"
        )
    return {word: split for word, split in used_splits(words).items() if word}


def test_folder(names: Iterable[str], validation: str | None) -> str | None:
    """Return which folder has the images of a test split, besides those that are held out for
    validation.
    """
    lower = {name.lower(): name for name in names}
    folders = (lower[word] for word, split in _WORDS.items() if split == "test" and word in lower)
    return next((name for name in folders if name != validation), None)


def split_folders(names: Iterable[str]) -> tuple[str | None, str | None]:
    """Return which folders have the training and the held-out images, by their whole names in upper
    or lower case; one of the split `test` is held out only if there is no other.
    """
    lower = {name.lower(): name for name in names}
    folders = [(_WORDS[word], lower[word]) for word in _WORDS if word in lower]
    train = next((name for split, name in folders if split == "train"), None)
    return train, next((name for split, name in folders if split != "train"), None)
