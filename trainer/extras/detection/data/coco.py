"""Annotations in COCO's JSON (cocodataset.org/#format-data): images, annotations, categories.

The entries of a file are put into a database on disk as they are read, and taken from it by image.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from struct import iter_unpack, pack, unpack_from
from typing import Any, Final

from common.errors import ConfigError
from common.text import plural
from trainer.data.intake.names import Note
from trainer.data.prepare.input_files import ImageFile
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import used_splits
from trainer.data.tables.file_names import ambiguous
from trainer.errors import DataError
from trainer.extras.detection.boxes import Box
from trainer.extras.detection.data.annotations import Annotations, Sized, named_split
from trainer.extras.detection.data.coco_json import OUTLINE, entries
from trainer.extras.detection.data.folder import Folder

_NEEDED: Final = {
    "images": ("id", "file_name"),
    "annotations": ("image_id", "category_id"),
    "categories": ("id", "name"),
}
"""The lists of a file, and the keys that each entry has at least."""
_SIZE: Final = "2q"
_ROW: Final = "8d"
"""Formats of an image: width and height; and of an annotation: left, top, width, height, class,
crowd, area and id."""
_WINDOW: Final = 1 << 16
_SCHEMA: Final = """
CREATE TABLE image (file INTEGER, number INTEGER, id TEXT, name BLOB, width INTEGER, height INTEGER,
    path BLOB, split TEXT, changed INTEGER, size INTEGER, several BLOB, PRIMARY KEY (file, id)
) WITHOUT ROWID;
CREATE TABLE box (file INTEGER, image TEXT, category INTEGER, crowd INTEGER, content BLOB);
"""
_INDEXES: Final = "CREATE INDEX of_image ON box (file, image);"


@dataclass
class _Counts:
    """Numbers of annotations of a file."""

    bare: int = 0
    """Those without a box."""
    fractions: int = 0
    """Boxes that have an area and lie between 0 and 1."""
    pixels: int = 0
    """Others that have an area."""


def _boxes(file: ImageFile, *_: int) -> Sized:
    """See `Annotations.boxes`. The size is that in the annotations, 0 where they have none."""
    width, height = unpack_from(_SIZE, file.target)
    boxes = [
        Box(x, y, x + w, y + h, int(label), bool(crowd), area, f"the box of annotation {id_:.0f}")
        for x, y, w, h, label, crowd, area, id_ in iter_unpack(_ROW, file.target[16:])
    ]
    return boxes, width, height


def annotation_files(folder: Folder) -> list[Path]:
    """Return the JSON files of a folder that are COCO's annotations of boxes. Of several of one
    split, such as captions and keypoints, only instances are used.
    """
    paths = (folder.root / file.path for file in folder.others(".json"))
    files = [path for path in paths if _begins_like_coco(path)]
    return [path for path in files if "instances" in path.name] or files


def _begins_like_coco(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(_WINDOW)
        size = path.stat().st_size
        file.seek(max(size - _WINDOW, 0))
        text = start + file.read()
    # The notes.json of Label Studio's YOLO files has categories alone.
    categories = b'"categories"' in text and size > 2 * _WINDOW
    return b'"images"' in text or b'"annotations"' in text or categories


def read(paths: Sequence[Path], folder: Folder, wanted: Sequence[str] = ()) -> Annotations:
    """Read the files of a data set.

    Args:
        paths: Files of annotations.
        folder: Files of the data set.
        wanted: Names of the categories to use, in the order of labels; all if there are none.

    Raises:
        ConfigError: There is no such category.
        DataError: A file cannot be used, or files have different classes.
    """
    splits = _splits(paths)
    folder.database.executescript(_SCHEMA)
    categories: dict[int, str] = {}
    counts = [_Counts() for _ in splits]
    for number, path in enumerate(splits):
        stored = _stored(path, number, folder.database, counts[number])
        if number and stored != categories:
            raise DataError(
                f"{path}: has other categories than {next(iter(splits))}; all files must be of one"
                " data set"
            )
        categories = stored
    folder.database.executescript(_INDEXES)
    names = Counter(categories.values())
    titles = {
        number: f"{name} ({number})" if names[name] > 1 else name
        for number, name in categories.items()
    }
    labels = _labels(titles, wanted)
    for number, path in enumerate(splits):
        _check(path, number, categories, folder.database)
        _check_pixels(path, counts[number])
        _find_images(path, number, splits[path], folder)

    def images() -> Iterator[ImageFile | RejectedFile]:
        for number, path in enumerate(splits):
            yield from _listed(path, number, splits[path], labels, folder)

    left = ", ".join(path.name for path in paths if path not in splits)
    unread: Note = ("not read, because there are held-out images in another file: ", left)
    notes: list[Note] = [unread] * bool(left)
    bare = sum(count.bare for count in counts)
    if bare:
        notes.append(f"{plural(bare, 'annotation')} without a box: taken as no object")
    notes += _notes(labels, titles, folder.database)
    classes = tuple(titles[number] for number in labels)
    return Annotations(classes, images, _boxes, notes=tuple(notes))


def _labels(titles: Mapping[int, str], wanted: Sequence[str]) -> dict[int, int]:
    """Return the labels of categories, in their order.

    Raises:
        ConfigError: There is no category of a wanted name.
    """
    numbers = {title: number for number, title in titles.items()}
    missing = [name for name in wanted if name not in numbers]
    if missing:
        raise ConfigError(
            [f"--classes: no category is called {missing[0]!r}; there are {', '.join(numbers)}"]
        )
    return {numbers[name]: label for label, name in enumerate(wanted or numbers)}


def _stored(
    path: Path, number: int, database: sqlite3.Connection, counts: _Counts
) -> dict[int, str]:
    """Put the images and annotations of a file into a database, and count the latter; return the
    names of the categories by number, in the order of numbers.

    Raises:
        DataError: The file cannot be used.
    """
    categories: dict[int, str] = {}

    def rows() -> Iterator[tuple[str, tuple[Any, ...]]]:
        for key, place, entry in entries(path, _NEEDED):
            if key == "images":
                yield "image", (number, place, *_image(path, entry))
            elif key == "annotations":
                yield from (
                    ("box", (number, *row)) for row in _annotation(path, place, entry, counts)
                )
            else:
                id_ = _whole(f"{path}: category {entry['name']}", "id", entry["id"])
                if id_ in categories:
                    raise DataError(f"{path}: two of its categories have the same id")
                categories[id_] = str(entry["name"])

    image = "INSERT INTO image VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL, NULL)"
    box = "INSERT INTO box VALUES (?, ?, ?, ?, ?)"
    try:
        for table, row in rows():
            database.execute(image if table == "image" else box, row)
    except sqlite3.IntegrityError as error:
        raise DataError(f"{path}: two of its images have the same id") from error
    if not categories:
        raise DataError(f"{path}: has no categories; each needs an id and a name")
    return dict(sorted(categories.items()))


def _image(path: Path, entry: Mapping[str, Any]) -> tuple[str, bytes, int, int]:
    name = str(entry["file_name"])
    where = f"{path}: image {name}"
    width, height = (_whole(where, s, entry.get(s) or 0) for s in ("width", "height"))
    return _key(where, "id", entry["id"]), os.fsencode(name), width, height


def _annotation(
    path: Path, place: int, entry: Mapping[str, Any], counts: _Counts
) -> Iterator[tuple[str, int, bool, bytes]]:
    """Yield an annotation, unless it has no box, and count it: its image, category, whether it is a
    crowd, and `_ROW`, in which the category is that of the file.
    """
    id_ = entry.get("id", place)
    where = f"{path}: annotation {id_ if isinstance(id_, int | float | str) else place}"
    if entry.get("bbox") in (None, []):
        if OUTLINE in entry:
            raise DataError(
                f"{where}: has an outline, but no bbox; write left, top, width and height of the"
                " outline in pixels as its bbox"
            )
        counts.bare += 1
        return
    try:
        x, y, width, height = map(float, entry["bbox"])
        area = float(entry.get("area") or 0.0)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{where}: its bbox must be four numbers, left, top, width and height in pixels,"
            f" and its area a number, not {_shown(entry['bbox'])} and {_shown(entry.get('area'))}"
        ) from error
    category = _whole(where, "category_id", entry["category_id"])
    crowd = _whole(where, "iscrowd", entry.get("iscrowd") or 0)
    if crowd not in (0, 1):
        raise DataError(f"{where}: its iscrowd must be 0 or 1, not {crowd}")
    usable = isinstance(id_, int | float) and isfinite(id_) and abs(id_) < 1 << 53
    content = pack(_ROW, x, y, width, height, category, crowd, area, id_ if usable else place)
    if width > 0 and height > 0:
        # Rounding makes fractions a little larger than 1.
        fractions = all(-0.01 <= number <= 1.01 for number in (x, y, width, height))
        counts.fractions += fractions
        counts.pixels += not fractions
    yield _key(where, "image_id", entry["image_id"]), category, bool(crowd), content


def _check_pixels(path: Path, counts: _Counts) -> None:
    """Raises:
    DataError: All boxes of a file are fractions of their images.
    """
    if counts.fractions and not counts.pixels:
        raise DataError(
            f"{path}: every box lies between 0 and 1, as a fraction of its image, but COCO's are in"
            " pixels: multiply left and width by the width of the image, and top and height by its"
            " height"
        )


def _key(where: str, name: str, value: Any) -> str:
    """Return the id of an image as text, the same for 5, 5.0 and "5", which tools mix.

    Raises:
        DataError: It is neither a number nor a text.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{where}: its {name} must be a number or a text, not {_shown(value)}")
    return str(int(value)) if isfinite(value) and value == int(value) else str(value)


def _whole(where: str, name: str, value: Any) -> int:
    """Return a whole number, also one that is written as text or with a fraction of 0.

    Raises:
        DataError: It is not a number, or larger than any that occurs.
    """
    try:
        number = int(value)
        exact = float(value) == number and abs(number) < 1 << 53
    except (TypeError, ValueError, OverflowError):
        exact = False
    if not exact:
        raise DataError(f"{where}: its {name} must be a whole number, not {_shown(value)}")
    return number


def _shown(value: Any) -> str:
    """Return a value in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _check(
    path: Path, number: int, categories: Mapping[int, str], database: sqlite3.Connection
) -> None:
    """Check that annotations are of images and categories of their file.

    Raises:
        DataError: One is not.
    """
    known = ", ".join("?" * len(categories))
    query = f"SELECT content FROM box WHERE file = ? AND category NOT IN ({known}) LIMIT 1"  # noqa: S608
    row = database.execute(query, (number, *categories)).fetchone()
    if row:
        (*_, category, _, _, id_) = unpack_from(_ROW, row[0])
        raise DataError(
            f"{path}: annotation {id_:.0f}: its category_id {category:.0f} is not among its"
            " categories"
        )
    query = """SELECT count(DISTINCT image), min(image) FROM box WHERE file = ?1 AND NOT EXISTS
        (SELECT 1 FROM image WHERE image.file = ?1 AND image.id = box.image)"""
    count, first = database.execute(query, (number,)).fetchone()
    if count:
        raise DataError(
            f"{path}: {plural(count, 'image_id')} of annotations, such as {first},"
            " have no entry in its images"
        )


def _find_images(path: Path, number: int, split: str, folder: Folder) -> None:
    """Find the file of each image.

    Raises:
        DataError: An image has annotations twice.
    """
    named = named_split("/".join(path.parts[-2:]))
    parent = path.resolve().parent
    root = folder.root.resolve()
    beside = parent.relative_to(root).as_posix() if parent.is_relative_to(root) else None
    beside = "" if beside == "." else beside
    state = path.stat()
    database = folder.database
    used = "UPDATE file SET used = ? WHERE path = ? AND used = 0"
    unclear = "UPDATE image SET several = ? WHERE file = ? AND id = ?"
    update = "UPDATE image SET path = ?, split = ?, size = ?, changed = ? WHERE file = ? AND id = ?"
    for id_, name in database.execute("SELECT id, name FROM image WHERE file = ?", (number,)):
        files = folder.image_of(os.fsdecode(name), beside, named)
        if len(files) != 1:
            several = os.fsencode(" and ".join(file.path for file in files)) or None
            database.execute(unclear, (several, number, id_))
            continue
        (file,) = files
        stored = os.fsencode(file.path)
        if database.execute(used, (number + 1, stored)).rowcount != 1:
            raise DataError.of(
                "",
                file.path,
                ": has annotations twice, the second time in ",
                str(path),
                "; an image must have one entry in one file: leave the other out, or name the right"
                " files with --annotations",
            )
        # Where a single file describes all splits, the folders tell them.
        of_image = split or named_split(file.path.rpartition("/")[0])
        of_image = "validation" if of_image == "test" else of_image
        changed = file.changed + state.st_mtime_ns + state.st_size
        database.execute(update, (stored, of_image, file.size, changed, number, id_))


def _listed(
    path: Path, number: int, split: str, labels: Mapping[int, int], folder: Folder
) -> Iterator[ImageFile | RejectedFile]:
    """Yield the images of a file with their boxes, in its order."""
    query = """SELECT id, name, width, height, path, split, changed, size, several FROM image
        WHERE file = ? ORDER BY number"""
    boxes = "SELECT content FROM box WHERE file = ? AND image = ? ORDER BY rowid"
    rows = folder.database.execute(query, (number,))
    for id_, name, width, height, stored, of_image, changed, size, several in rows:
        if stored is None:
            missing = ", but there is no such image in the folder", "", ""
            if several:
                first, paths, last = ambiguous(os.fsdecode(several))
                missing = f", but {first}", paths, last
            yield RejectedFile.of(split, os.fsdecode(name), "is named in ", path.name, *missing)
            continue
        target = bytearray(pack(_SIZE, width, height))
        for (content,) in folder.database.execute(boxes, (number, id_)):
            *place, category, crowd, area, own = unpack_from(_ROW, content)
            if int(category) in labels:
                target += pack(_ROW, *place, labels[int(category)], crowd, area, own)
        full = str(folder.root / os.fsdecode(stored))
        yield ImageFile(
            of_image, os.fsdecode(stored), 0, full, 0, size, changed, target=bytes(target)
        )


def _notes(
    labels: Mapping[int, int], titles: Mapping[int, str], database: sqlite3.Connection
) -> Iterator[str]:
    """Yield what people should know of the annotations."""
    query = "SELECT category, count(*), sum(crowd) FROM box GROUP BY category"
    counts = {category: (count, crowds) for category, count, crowds in database.execute(query)}
    crowded = sum(crowds for category, (_, crowds) in counts.items() if category in labels)
    if crowded:
        yield f"{plural(crowded, 'crowd region')}, in which predictions do not count"
    without = [titles[number] for number in labels if number not in counts]
    if without:
        # Some tools write a root of all categories, which no object has.
        yield (
            f"warning: {plural(len(without), 'class', 'classes')} without any box:"
            f" {', '.join(without)}; name the others with --classes to leave"
            f" {'it' if len(without) == 1 else 'them'} out"
        )
    left = sum(count for category, (count, _) in counts.items() if category not in labels)
    if left:
        boxes = plural(left, "box", "boxes")
        yield f"left out, because --classes does not name their class: {boxes}"


def _splits(paths: Sequence[Path]) -> dict[Path, str]:
    """Return the split of each file by the word in its name or in its folder's, empty for a single
    file. Of held-out files, those for tests are used only if there are no others.
    """
    if len(paths) == 1:
        return {paths[0]: ""}
    words = {path: named_split("/".join(path.parts[-2:])) for path in paths}
    used = used_splits(words.values()) | {"": "train"}
    return {path: used[word] for path, word in words.items() if word in used}
