"""Annotations in COCO's JSON (cocodataset.org/#format-data): images, annotations, categories."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from common.text import plural
from trainer.data.prepare.input_files import StoredFile
from trainer.detection.boxes import Box
from trainer.detection.data.annotations import Annotations, Sized, named_split
from trainer.errors import DataError

_USED: Final = {"test": "validation"}
"""What a split of a folder is used as, where a single file describes all of them."""
_READ: Final = frozenset(
    (
        *("images", "annotations", "categories", "id", "file_name", "width", "height", "name"),
        *("image_id", "category_id", "bbox", "area", "iscrowd"),
    )
)
"""Keys that are read; the others, such as the outlines of objects, are most of a file."""
_ROW: Final = 8
"""Numbers of an annotation: left, top, width, height, class, crowd, area and id."""


@dataclass(frozen=True)
class CocoBoxes:
    """Boxes by image."""

    found: Mapping[str, tuple[int, int, bytes]]
    """Width, height and annotations, float64 [n, 8], of each image by its path: small, because
    each task of a preparation takes them along."""

    def boxes(self, name: str, width: int, height: int) -> Sized:
        """See `Annotations.boxes`; the size is that of the image in the file."""
        wide, high, stored = self.found[name]
        rows = np.frombuffer(stored).reshape(-1, _ROW).tolist()
        boxes = [
            Box(x, y, x + w, y + h, int(label), bool(crowd), area, f"the box of annotation {id_:g}")
            for x, y, w, h, label, crowd, area, id_ in rows
        ]
        return boxes, wide or width, high or height


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
    used = [(path, split) for path, split in zip(paths, splits, strict=True) if split != "unused"]
    contents = [_load(path) for path, _ in used]
    categories = _categories(used[0][0], contents[0])
    for (path, _), content in zip(used, contents, strict=True):
        if _categories(path, content) != categories:
            raise DataError(
                f"{path}: has other categories than {used[0][0]}; all files must be of one data set"
            )
    names = Counter(categories.values())
    classes = tuple(
        f"{name} ({number})" if names[name] > 1 else name for number, name in categories.items()
    )
    labels = {number: label for label, number in enumerate(categories)}
    places = _Places(images)
    listed, found, crowded = list[tuple[str, StoredFile, int]](), {}, 0
    owners: dict[str, Path] = {}
    for (path, split), content in zip(used, contents, strict=True):
        state, by_image = path.stat(), _by_image(path, content, labels)
        changed = state.st_mtime_ns + state.st_size
        for image in content["images"]:
            name = str(image["file_name"])
            rows = np.array(by_image.pop(image["id"], []), float)
            place = places.find(name, path)
            if place is None:
                fault = f"is named in {path.name}, but there is no such image in the folder"
                listed.append((split, StoredFile(name, "", 0, 0, 0, fault), 0))
                continue
            if place in owners:
                raise DataError(
                    f"{place}: has annotations twice, in {owners[place]} and {path}; leave one of"
                    " them out, or name the right files with --annotations"
                )
            owners[place] = path
            crowded += int(rows.reshape(-1, _ROW)[:, 5].sum())
            width, height = (int(image.get(side) or 0) for side in ("width", "height"))
            found[place] = (width, height, rows.tobytes())
            of_place = split or named_split(place.rpartition("/")[0])
            listed.append((_USED.get(of_place, of_place), images[place], changed))
        if by_image:
            raise DataError(
                f"{path}: {plural(len(by_image), 'image_id')} of annotations, such as"
                f" {next(iter(by_image))!r}, have no entry in its images"
            )
    left = [str(path.name) for path, split in zip(paths, splits, strict=True) if split == "unused"]
    notes = []
    if left:
        notes.append(
            f"not read, because there are held-out images in another file: {', '.join(left)}"
        )
    if crowded:
        notes.append(f"{plural(crowded, 'crowd region')}, in which predictions do not count")
    return Annotations(classes, tuple(listed), CocoBoxes(found).boxes, tuple(notes))


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
    for key, fields in (
        ("images", ("id", "file_name")),
        ("annotations", ("image_id", "category_id", "bbox")),
        ("categories", ("id", "name")),
    ):
        entries = content.get(key)
        if not isinstance(entries, list):
            raise DataError(f"{path}: has no list of {key}, as COCO's JSON of instances has")
        for number, entry in enumerate(entries):
            missing = [f for f in fields if not isinstance(entry, dict) or f not in entry]
            if missing:
                raise DataError(f"{path}: entry {number} of its {key} has no {missing[0]}")
    return content


def _categories(path: Path, content: dict[str, Any]) -> dict[int, str]:
    """Return the names of the categories by number, in the order of numbers."""
    entries = content["categories"]
    if not entries:
        raise DataError(f"{path}: has no categories; each needs an id and a name")
    found = {int(entry["id"]): str(entry["name"]) for entry in entries}
    if len(found) < len(entries):
        raise DataError(f"{path}: two of its categories have the same id")
    return dict(sorted(found.items()))


def _by_image(
    path: Path, content: dict[str, Any], labels: Mapping[int, int]
) -> dict[Any, list[list[float]]]:
    """Return the numbers of the annotations by the id of their image."""
    rows = defaultdict[Any, list[list[float]]](list)
    for number, entry in enumerate(content["annotations"]):
        id_ = entry.get("id", number)
        try:
            x, y, width, height = map(float, entry["bbox"])
            area = float(entry.get("area") or 0.0)
            label = labels[int(entry["category_id"])]
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{path}: annotation {id_}: its bbox must be four numbers, left, top, width and"
                f" height in pixels, not {entry['bbox']!r}"
            ) from error
        except KeyError as error:
            raise DataError(
                f"{path}: annotation {id_}: its category_id {error} is not among its categories"
            ) from error
        key = float(id_) if isinstance(id_, int | float) else float(number)
        row = [x, y, width, height, label, float(bool(entry.get("iscrowd", 0))), area, key]
        rows[entry["image_id"]].append(row)
    return dict(rows)


def _splits(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return the split of each file by the word in its name or in its folder's; of held-out ones,
    test is used only if there is no other.
    """
    if len(paths) == 1:
        return ("",)
    words = [named_split("/".join(path.parts[-2:])) for path in paths]
    held_out = "validation" if "validation" in words else "test"
    used = {"train": "train", "": "train", held_out: "validation"}
    return tuple(used.get(word, "unused") for word in words)


class _Places:
    """Finds the image that a file of annotations names."""

    def __init__(self, images: Mapping[str, StoredFile]) -> None:
        self._images, self._by_name = images, defaultdict[str, list[str]](list)
        for path in images:
            self._by_name[path.rpartition("/")[2]].append(path)

    def find(self, name: str, annotations: Path) -> str | None:
        """Return the path of an image in the folder; None if there is none, or not only one.

        Of several of the same name, the one is meant whose path ends with the whole name, that
        lies beside the annotations, or below a folder of their split.
        """
        name = name.replace("\\", "/").removeprefix("./")
        ends = self._by_name.get(name.rpartition("/")[2], [])
        beside, split = str(annotations.parent), named_split("/".join(annotations.parts[-2:]))
        for narrower in (
            [end for end in ends if end == name or end.endswith(f"/{name}")],
            [end for end in ends if str(Path(self._images[end].container).parent) == beside],
            [end for end in ends if split and named_split(end.rpartition("/")[0]) == split],
        ):
            ends = [end for end in ends if end in narrower] or ends
        return ends[0] if len(ends) == 1 else None
