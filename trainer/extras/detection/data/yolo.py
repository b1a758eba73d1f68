"""Labels in YOLO's text files: a line for each object, CLASS X Y WIDTH HEIGHT with the middle and
the size of its box as fractions of the image, or CLASS and the corners of its outline, X Y X Y ...
In the labels of a pose, for which data.yaml has `kpt_shape`, points of the object follow its box.

The labels of images/a.jpg are in labels/a.txt, where `images` is the last folder of that name in
the path, or else in a.txt next to the image. An image without such a file has no objects.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import yaml

from common.image_files import SUFFIXES
from common.text import plural
from trainer.data.intake.names import Note
from trainer.data.pixels.treatment import RejectedError
from trainer.data.prepare.input_files import ImageFile, StoredFile, in_either_form
from trainer.data.prepare.splits import used_splits
from trainer.errors import DataError
from trainer.extras.detection.boxes import Box
from trainer.extras.detection.data.annotations import Annotations, Sized, named_split
from trainer.extras.detection.data.folder import Folder

NAMES: Final = ("classes.txt", "obj.names", "_darknet.labels")
"""Files with the name of a class in each line."""
_ENDS: Final = (".txt", ".TXT", ".Txt")


@dataclass(frozen=True)
class _Described:
    """The content of data.yaml."""

    names: tuple[str, ...] = ()
    """Names of the classes in the order of labels; empty if it has none."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Split of each folder that it names."""
    points: int = 0
    """Numbers that follow the box of an object, for the points of its pose."""


def _boxes(folder: Path, points: int, image: ImageFile, width: int, height: int) -> Sized:
    """See `Annotations.boxes`; fractions fit an image of any size.

    Args:
        folder: Folder of the data set.
        points: See `_Described.points`.
        image: The image; its `target` is the path of its labels, empty if it has none.
        width: Width of the image, in pixels.
        height: Height of the image, in pixels.
    """
    file = os.fsdecode(image.target)
    if not file:
        return [], width, height
    try:
        lines = (folder / file).read_text(encoding="utf-8-sig").splitlines()
    except (PermissionError, UnicodeDecodeError) as error:
        raise RejectedError("has labels, ", file, ", that cannot be read", f" ({error})") from error
    except OSError as error:
        raise DataError(
            f"{folder / file}: cannot be read ({error.strerror}); run the same command again to"
            " continue"
        ) from error
    boxes = [
        _box(f"line {number} of {file}", line.split(), width, height, points)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    return boxes, width, height


def _box(where: str, words: Sequence[str], width: int, height: int, points: int) -> Box:
    """Read a line.

    Raises:
        RejectedError: It is not one of a box or an outline.
    """
    line = " ".join(words)
    try:
        label, *numbers = map(float, words)
    except ValueError as error:
        raise RejectedError("has labels that are not numbers in ", f"{where}: {line}") from error
    if not label.is_integer():
        raise RejectedError("has a class that is not a whole number in ", f"{where}: {words[0]}")
    if points:
        if len(numbers) not in (4, 4 + points):
            raise RejectedError(
                f"has {len(words)} numbers in ",
                where,
                f"; an object has its class, x, y, width and height, and {points} numbers of its"
                " points, by the kpt_shape of data.yaml",
            )
        numbers = numbers[:4]
    # Some tools write corners of exactly 1 a little larger.
    if any(not -0.01 <= number <= 1.01 for number in numbers):
        raise RejectedError(
            "has numbers that are not fractions of the image, 0 to 1, in ",
            f"{where}: {line}",
            "; divide pixels by width and height",
        )
    if len(numbers) == 4:
        x, y, across, down = numbers
        left, top, right, bottom = x - across / 2, y - down / 2, x + across / 2, y + down / 2
    elif len(numbers) >= 6 and len(numbers) % 2 == 0:
        xs, ys = numbers[0::2], numbers[1::2]
        left, top, right, bottom = min(xs), min(ys), max(xs), max(ys)
    else:
        raise RejectedError(
            f"has {len(words)} numbers in ",
            where,
            "; an object has its class and x, y, width and height, or its class and the corners of"
            " its outline",
        )
    corners = (left * width, top * height, right * width, bottom * height)
    return Box(*corners, int(label), where=where)


def read(folder: Folder, classes: tuple[str, ...]) -> Annotations:
    """Find the labels of images and the names of the classes.

    Args:
        folder: Files of the data set.
        classes: Names that the user gave; empty to find them in files.

    Raises:
        DataError: No image has labels, one has two files of them, or there are no names.
    """
    labelled, splits = 0, set[str]()
    described = _described(folder)
    for image in folder.images():
        splits.add(_split(image.path, described.folders))
        labels = _labels(folder, image.path)
        if labels:
            labelled += 1
            folder.database.execute(
                "UPDATE file SET used = 1 WHERE path = ?", (os.fsencode(labels.path),)
            )
    if not labelled:
        example = next(folder.images()).path
        raise DataError(
            f"{folder.root}: has no annotations. For COCO, put the JSON of instances into the"
            f" folder or name it with --annotations; for YOLO, {example} would have its labels in"
            f" {' or '.join(f'{place}.txt' for place in _places(example))}"
        )
    names = classes or described.names or _listed_names(folder)
    if not names:
        raise DataError(
            f"{folder.root}: no file has the names of the classes; write data.yaml with names, or"
            " name the classes in their order with --classes"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{folder.root}: two classes are called {twice[0]!r}; give them other names"
        )
    used = used_splits(splits)
    # Another meaning of the labels must change the hash of the listing as well.
    mark = crc32(b"points %d" % described.points) if described.points else 0

    def images() -> Iterator[ImageFile]:
        for file in folder.images():
            word = _split(file.path, described.folders)
            if word in used:
                text = _labels(folder, file.path)
                changed = mark + file.changed + (text.changed + text.size if text else 0)
                target = os.fsencode(text.path) if text else b""
                yield ImageFile(
                    used[word], file.path, 0, file.container, 0, file.size, changed, target=target
                )

    notes = _notes(folder, folder.images_count - labelled)
    boxes = partial(_boxes, folder.root, described.points)
    return Annotations(names, images, boxes, relative=True, notes=(*notes,))


def _notes(folder: Folder, bare: int) -> Iterator[Note]:
    if bare:
        yield f"{plural(bare, 'image')} without a file of labels: taken as without objects"
    query = "SELECT path FROM file WHERE NOT image AND NOT used"
    rows = folder.database.execute(query)
    unread = [
        path for (path,) in rows if path.lower().endswith(b".txt") and _of_image(folder, path)
    ]
    if unread:
        yield (
            f"warning: {plural(len(unread), 'text file')} not read, such as ",
            os.fsdecode(min(unread)),
            ": an image has the same name, but in another folder",
        )


def _of_image(folder: Folder, path: bytes) -> bool:
    """Return whether a text has the name of an image, wherever both are."""
    name = os.fsdecode(path).rpartition("/")[2]
    stem = name[: -len(".txt")]
    return name not in NAMES and any(folder.has_image(f"{stem}{suffix}") for suffix in SUFFIXES)


def _labels(folder: Folder, path: str) -> StoredFile | None:
    """Return the labels of an image; None if it has none.

    Raises:
        DataError: It has two files.
    """
    places = (place + end for place in _places(path) for end in _ENDS)
    files = [file for place in places if (file := folder.at(place))]
    if len(files) > 1:
        raise DataError.of(
            "",
            path,
            ": has two files of labels, ",
            f"{files[0].path} and {files[1].path}",
            "; remove the wrong one",
        )
    return files[0] if files else None


def _places(path: str) -> tuple[str, ...]:
    """Return where the labels of an image may be, without their suffix: in the folder `labels`, and
    next to it.
    """
    beside = path.rpartition(".")[0]
    parts = beside.split("/")
    folders = [number for number, part in enumerate(parts[:-1]) if part.lower() == "images"]
    if not folders:
        return (beside,)
    parts[folders[-1]] = "labels"
    return "/".join(parts), beside


def _split(path: str, described: Mapping[str, str]) -> str:
    """Return the split of an image: that of its folder in data.yaml, or the word in its path."""
    folders = [folder for folder in described if path.startswith(f"{folder}/")]
    if folders:
        return described[max(folders, key=len)]
    return named_split(path.rpartition("/")[0])


def _listed_names(folder: Folder) -> tuple[str, ...]:
    """Return the names of the classes in a file with one in each line; none without one."""
    files = folder.others(*NAMES)
    file = next((folder.root / file.path for file in files if file.name in NAMES), None)
    lines = file.read_text(encoding="utf-8-sig").splitlines() if file else []
    return tuple(line.strip() for line in lines if line.strip())


def _described(folder: Folder) -> _Described:
    """Return the content of the first YAML file with names, and the first `kpt_shape` of one.

    Raises:
        DataError: A file cannot be read, or its content is not that of YOLO.
    """
    points = 0
    for path in (folder.root / file.path for file in folder.others(".yaml", ".yml")):
        try:
            # All values as texts: in YAML 1.1, names such as `on` and `no` are booleans.
            content = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506 - safe
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise DataError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from error
        if not isinstance(content, dict):
            continue
        points = points or _points(path, content.get("kpt_shape"))
        names = content.get("names")
        if isinstance(names, dict):
            if sorted(names) != sorted(map(str, range(len(names)))):
                raise DataError(f"{path}: its names must be numbered from 0 without gaps")
            names = [names[str(number)] for number in range(len(names))]
        if isinstance(names, list) and names:
            return _Described(tuple(map(str, names)), _folders(folder.root, path, content), points)
    return _Described(points=points)


def _points(file: Path, shape: Any) -> int:
    """Return the numbers that follow each box, from the `kpt_shape` of a file.

    Raises:
        DataError: It is not the number of points and that of numbers for each.
    """
    if shape is None:
        return 0
    numbers = shape if isinstance(shape, list) else [shape]
    if len(numbers) != 2 or not all(isinstance(n, str) and n.isdecimal() for n in numbers):
        raise DataError(
            f"{file}: its kpt_shape must be two numbers, such as [17, 3]: points of an object, and"
            " numbers of a point"
        )
    return int(numbers[0]) * int(numbers[1])


def _folders(folder: Path, file: Path, content: Mapping[str, Any]) -> dict[str, str]:
    """Return the splits of the folders that a data.yaml names, wherever it thinks that it is."""
    splits = {}
    for word, split in (("train", "train"), ("val", "validation"), ("test", "test")):
        places = content.get(word) or []
        for place in [places] if isinstance(places, str) else places:
            bases = (file.parent / str(content.get("path") or ""), file.parent, folder)
            inside = [in_either_form(base, str(place).removeprefix("../")) for base in bases]
            known = next((p for p in inside if p.is_dir() and folder in p.parents), None)
            if known:
                splits[known.relative_to(folder).as_posix()] = split
    return splits
