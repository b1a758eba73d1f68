"""Images that are sorted into WordNet's synsets, a folder or an archive for each."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trainer.data.prepare.archive import in_archive
from trainer.data.prepare.found import Found, in_folder, listed, look, on_disk
from trainer.data.prepare.words import SYNSET
from trainer.errors import DataError

_ARCHIVE = re.compile(r"(n\d{8})\.tar")


def find_classes(place: Path) -> list[str]:
    """The synsets that there are images of, sorted.

    Args:
        place: an archive of archives nNNNNNNNN.tar, or a folder of such archives or of folders
            nNNNNNNNN.

    Raises:
        DataError: a class is there twice, or cannot be used as a whole; or the archive is
            compressed, incomplete or damaged.
    """
    places: dict[str, str] = {}
    for synset, path, fault in _tops(place):
        if fault:
            # Without one class, all later ones would have other labels.
            raise DataError(
                f"{place}: {path} {fault}, so its class would be missing; put the images"
                " themselves there"
            )
        if synset in places:
            raise DataError(
                f"{place}: has the class {synset} twice, as {places[synset]} and as {path}; move"
                " one of them away"
            )
        places[synset] = path
    return sorted(places)


def _tops(place: Path) -> Iterator[tuple[str, str, str]]:
    """Synset, path and fault of whatever stands for a class."""
    if not place.is_dir():
        for found in in_archive(on_disk(place)):
            if archive := _ARCHIVE.fullmatch(found.name):
                yield archive[1], found.path, found.fault
        return
    for item in listed(place):
        archive, folder = _ARCHIVE.fullmatch(item.name), SYNSET.fullmatch(item.name)
        if folder and item.is_dir(follow_symlinks=False):
            yield folder[0], item.name, ""
        elif folder:
            yield folder[0], item.name, look(item, place).fault or "is not a folder"
        elif archive:
            yield archive[1], item.name, look(item, place).fault


def sorted_files(place: Path) -> Iterator[tuple[str, Found]]:
    """All files of the classes, each with its synset; those of a class follow each other.

    What belongs to no class has an empty synset.

    Args:
        place: as in `find_classes`.

    Raises:
        DataError: an archive is compressed, incomplete or damaged.
    """
    if place.is_dir():
        for found in in_folder(place, place):
            top = found.path.partition("/")[0]
            if archive := _ARCHIVE.fullmatch(found.path):
                yield from ((archive[1], inner) for inner in in_archive(found))
            else:
                yield top if SYNSET.fullmatch(top) and top != found.path else "", found
        return
    for found in in_archive(on_disk(place)):
        if archive := _ARCHIVE.fullmatch(found.name):
            inside = in_archive(replace(found, path=found.name))
            yield from ((archive[1], inner) for inner in inside)
        else:
            yield "", found
