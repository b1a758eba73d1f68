"""What WordNet's synsets are called."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from trainer.errors import DataError

SYNSET = re.compile(r"n\d{8}")


def read_words(path: Path, synsets: Collection[str]) -> dict[str, str]:
    """Read the words of some synsets: words.txt, synset_words.txt or LOC_synset_mapping.txt.

    Args:
        path: a synset and its words a line, with a tab or space between.
        synsets: the wanted ones; words.txt has all of WordNet's.

    Raises:
        DataError: it is no text, or has words for none of them.
    """
    found = {}
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for line in lines:
                synset, *words = line.split(None, 1)[:2] or [""]
                if words and synset in synsets:
                    found[synset] = words[0].strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no text in UTF-8 ({error.reason})") from error
    if not found:
        raise DataError(
            f"{path}: has words for none of the {len(synsets)} synsets; a line is to be like"
            " 'n01440764 tench, Tinca tinca'"
        )
    return found


def class_names(synsets: Sequence[str], words: Mapping[str, str]) -> tuple[str, ...]:
    """Names of classes, each of its own.

    Args:
        synsets: in the order of labels.
        words: of a synset, with commas between; the first becomes the name. A synset without is
            its own name.
    """
    first = [words.get(synset, "").split(",")[0].strip() or synset for synset in synsets]
    times = Counter(first)
    return tuple(
        f"{name} ({synset})" if times[name] > 1 else name
        for name, synset in zip(first, synsets, strict=True)
    )
