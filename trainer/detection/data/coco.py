"""Annotations in COCO's JSON (cocodataset.org/#format-data): images, annotations, categories."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from struct import iter_unpack, pack
from typing import Any, Final

from common.text import plural
from trainer.data.prepare.input_files import ImageFile, StoredFile
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import used_splits
from trainer.detection.boxes import Box
from trainer.detection.data.annotations import Annotations, Sized, named_split
from trainer.errors import DataError

_NEEDED: Final = {
    "images": ("id", "file_name"),
    "annotations": ("image_id", "category_id", "bbox"),
    "categories": ("id", "name"),
}
"""The lists of a file, and what each entry has at least."""
_READ: Final = {*_NEEDED, *chain(*_NEEDED.values()), "width", "height", "area", "iscrowd"}
"""Keys that are read; the others, such as the outlines of objects, are most of a file."""
_ROW: Final = "8d"
"""Format of an annotation: left, top, width, height, class, crowd, area and id."""


def _boxes(found: Mapping[str, tuple[int, int, bytes]], name: str, *_: int) -> Sized:
    """See `Annotations.boxes`. The size is that in the file, 0 where it has none.

    Args:
        found: Width, height and annotations, `_ROW` each, of the images by their paths.
        name: Path of the image.
    """
    width, height, stored = found[name]
    boxes = [
        Box(x, y, x + w, y + h, int(label), bool(crowd), area, f"the box of annotation {id_:.0f}")
        for x, y, w, h, label, crowd, area, id_ in iter_unpack(_ROW, stored)
    ]
    return boxes, width, height


def annotation_files(folder: Path, files: Sequence[StoredFile]) -> list[Path]:
    """Return the JSON files among those of a folder that are COCO's annotations of boxes. Of
    several of one split, such as captions and keypoints, only instances are used.
    """
    found = [
        folder / file.path
        for file in files
        if file.path.endswith(".json") and _begins_like_coco(folder / file.path)
    ]
    return [path for path in found if "instances" in path.name] or found


def _begins_like_coco(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(1 << 16)
        file.seek(max(path.stat().st_size - (1 << 16), 0))
        text = start + file.read()
    return b'"images"' in text or b'"annotations"' in text or b'"categories"' in text


def read(paths: Sequence[Path], images: Mapping[str, StoredFile]) -> Annotations:
    """Read the files of a data set.

    Args:
        paths: Files of annotations.
        images: Image files by their paths in the folder.

    Raises:
        DataError: A file cannot be used, or files have different classes.
    """
    splits = _splits(paths)
    contents = {path: _load(path) for path in splits}
    (first, categories), *others = (
        (path, _categories(path, content)) for path, content in contents.items()
    )
    for path, found in others:
        if found != categories:
            raise DataError(
                f"{path}: has other categories than {first}; all files must be of one data set"
            )
    names = Counter(categories.values())
    classes = tuple(
        f"{name} ({number})" if names[name] > 1 else name for number, name in categories.items()
    )
    labels = {number: label for label, number in enumerate(categories)}
    by_name = defaultdict[str, list[StoredFile]](list)
    for image in images.values():
        by_name[image.name].append(image)
    listed, owners = list[ImageFile | RejectedFile](), dict[str, Path]()
    # As bytes, which are small, because each task of a preparation takes them along.
    stored: dict[str, tuple[int, int, bytes]] = {}
    for path, content in contents.items():
        state, by_image = path.stat(), _by_image(path, content, labels)
        for entry in content["images"]:
            name = str(entry["file_name"])
            file = _image_of(name, path, by_name)
            if file is None:
                fault = f"is named in {path.name}, but there is no such image in the folder"
                listed.append(RejectedFile(splits[path], name, fault))
                continue
            if file.path in owners:
                raise DataError(
                    f"{file.path}: has annotations twice, in {owners[file.path]} and {path}; leave"
                    " one of them out, or name the right files with --annotations"
                )
            owners[file.path] = path
            where = f"{path}: image {name}"
            width, height = (_whole(where, s, entry.get(s) or 0) for s in ("width", "height"))
            stored[file.path] = (width, height, bytes(by_image[entry["id"]]))
            # Where a single file describes all splits, the folders tell them.
            split = splits[path] or named_split(file.path.rpartition("/")[0])
            split = "validation" if split == "test" else split
            changed = file.changed + state.st_mtime_ns + state.st_size
            listed.append(ImageFile(split, file.path, 0, file.container, 0, file.size, changed))
    left = ", ".join(path.name for path in paths if path not in splits)
    notes = [f"not read, because there are held-out images in another file: {left}"] * bool(left)
    crowded = sum(row[5] > 0 for *_, rows in stored.values() for row in iter_unpack(_ROW, rows))
    if crowded:
        notes.append(f"{plural(crowded, 'crowd region')}, in which predictions do not count")
    return Annotations(classes, tuple(listed), partial(_boxes, stored), tuple(notes))


def _load(path: Path) -> dict[str, Any]:
    """Read a file, without the outlines of objects, which are most of it.

    Raises:
        DataError: It is not COCO's JSON; says where.
    """

    def shorter(entry: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in entry.items() if key in _READ}

    try:
        content = json.loads(path.read_bytes(), object_hook=shorter)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: is not COCO's JSON, which has images, annotations and categories")
    for key, fields in _NEEDED.items():
        entries = content.get(key)
        if not isinstance(entries, list):
            raise DataError(f"{path}: has no list of {key}, as COCO's JSON of instances has")
        for number, entry in enumerate(entries):
            missing = [f for f in fields if not isinstance(entry, dict) or f not in entry]
            if missing:
                raise DataError(f"{path}: entry {number} of its {key} has no {missing[0]}")
    return content


def _whole(where: str, name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: its {name} must be a whole number, not {value!r}") from error


def _categories(path: Path, content: dict[str, Any]) -> dict[int, str]:
    """Return the names of the categories by number, in the order of numbers."""
    entries = content["categories"]
    if not entries:
        raise DataError(f"{path}: has no categories; each needs an id and a name")
    found = {
        _whole(f"{path}: category {e['name']}", "id", e["id"]): str(e["name"]) for e in entries
    }
    if len(found) < len(entries):
        raise DataError(f"{path}: two of its categories have the same id")
    return dict(sorted(found.items()))


def _by_image(
    path: Path, content: dict[str, Any], labels: Mapping[int, int]
) -> dict[Any, bytearray]:
    """Return the annotations, `_ROW` each, by the id of their image."""
    found = defaultdict(bytearray, {entry["id"]: bytearray() for entry in content["images"]})
    if len(found) < len(content["images"]):
        raise DataError(f"{path}: two of its images have the same id")
    for number, entry in enumerate(content["annotations"]):
        id_ = entry.get("id", number)
        where = f"{path}: annotation {id_}"
        try:
            x, y, width, height = map(float, entry["bbox"])
            area = float(entry.get("area") or 0.0)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{where}: its bbox must be four numbers, left, top, width and height in pixels,"
                f" and its area a number, not {entry['bbox']!r} and {entry.get('area')!r}"
            ) from error
        label = labels.get(_whole(where, "category_id", entry["category_id"]))
        if label is None:
            raise DataError(
                f"{where}: its category_id {entry['category_id']} is not among its categories"
            )
        key = id_ if isinstance(id_, int | float) else number
        row = (x, y, width, height, label, bool(entry.get("iscrowd")), area, key)
        found[entry["image_id"]] += pack(_ROW, *row)
    unknown = [*found][len(content["images"]) :]
    if unknown:
        raise DataError(
            f"{path}: {plural(len(unknown), 'image_id')} of annotations, such as {unknown[0]!r},"
            " have no entry in its images"
        )
    return found


def _splits(paths: Sequence[Path]) -> dict[Path, str]:
    """Return the split of each file by the word in its name or in its folder's, empty for a single
    file. Of held-out files, those for tests are used only if there are no others.
    """
    if len(paths) == 1:
        return {paths[0]: ""}
    words = {path: named_split("/".join(path.parts[-2:])) for path in paths}
    used = used_splits(words.values()) | {"": "train"}
    return {path: used[word] for path, word in words.items() if word in used}


def _image_of(
    name: str, annotations: Path, by_name: Mapping[str, Sequence[StoredFile]]
) -> StoredFile | None:
    """Return the image that a file of annotations names; None if there is none, or not only one.

    Of several of the same name, the one is meant whose path ends with all that is named, that lies
    beside the annotations, or below a folder of their split, in this order.
    """
    name = name.replace("\\", "/").removeprefix("./")
    split = named_split("/".join(annotations.parts[-2:]))

    def fit(file: StoredFile) -> tuple[bool, bool, bool]:
        folder = file.path.rpartition("/")[0]
        return (
            f"/{file.path}".endswith(f"/{name}"),
            Path(file.container).parent == annotations.parent,
            bool(split) and named_split(folder) == split,
        )

    files = by_name.get(name.rpartition("/")[2], ())
    most = max(map(fit, files), default=None)
    best = [file for file in files if fit(file) == most]
    return best[0] if len(best) == 1 else None
