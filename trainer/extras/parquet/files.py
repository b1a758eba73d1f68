"""Parquet files before they are trained on: columns, labels and images, and refusals."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from trainer.data.example import BOXES, MASK, OTHER_COMMANDS, BrokenRecordError
from trainer.extras.parquet.format import NAMES, NUMBERS, Columns, explained, first_line
from trainer.leaves import TASKS

LARGEST_ROW_GROUP: Final = 256 << 20
"""Most bytes of a row group's images, uncompressed: each stream may hold one besides its windows.
Hugging Face's `datasets` writes 100 images into a row group, about 10 MB of photographs."""

_ROWS: Final = 1000
"""Rows whose labels are held at once."""

_REWRITE: Final = "write the files again with fewer rows in a row group, such as 100"

_LABELS: Final = ("label", "labels")
"""Usual names of the column of labels."""

_MASKS: Final = re.compile(r"mask|segmentation|annotation|(?:^|_)seg(?:$|_)", re.IGNORECASE)
"""Parts of names of columns of images that are masks."""

_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
"""Whether a type is one of texts."""


class UnfitFileError(ValueError):
    """A Parquet file that cannot be trained on; the message says why and what to do."""


@dataclass(frozen=True)
class Layout:
    """The columns of a Parquet file by its schema."""

    types: dict[str, str]
    """Type of each column, in words."""
    images: dict[str, str]
    """Columns that may hold encoded images, with the field of each, or "" for the column itself."""
    labels: list[str]
    """Columns that may hold labels."""
    targets: dict[str, tuple[str, str]]
    """Columns that may hold targets of a task, with the key of the feature, see `RowTarget`, and
    the form if they are lists of labels, or else ""."""
    features: dict[str, dict[str, Any]]
    """Features that Hugging Face's `datasets` described in the metadata, by column."""


def read_layout(path: str) -> Layout:
    """Read the schema of a file.

    Raises:
        UnfitFileError: It is encrypted or no Parquet file.
        OSError: It cannot be read.
    """
    with Path(path).open("rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - 4, 0))
        mark = file.read()
    if mark == b"PARE":
        raise UnfitFileError("is encrypted; write it again without encryption")
    try:
        with explained():
            schema = pq.read_schema(path)
    except BrokenRecordError as error:
        raise UnfitFileError(f"is not a Parquet file ({error}); copy it again") from error
    described = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        features = json.loads(described).get("info", {}).get("features", {})
    except (ValueError, AttributeError):
        features = {}
    features = features if isinstance(features, dict) else {}
    fields = {field.name: _image_field(field.type) for field in schema}
    return Layout(
        {field.name: str(field.type) for field in schema},
        {name: field for name, field in fields.items() if field is not None},
        [field.name for field in schema if pa.types.is_integer(field.type)],
        {
            field.name: (task.rows.feature, form)
            for field in schema
            for task in TASKS.values()
            if task.rows and (form := _form(field.type, task.rows.fields)) is not None
        },
        {name: feature for name, feature in features.items() if isinstance(feature, dict)},
    )


def find_columns(layout: Layout, image: str | None, label: str | None) -> Columns:
    """Return the columns to train on: those that are named, or that `datasets` described as image
    and class, or that are called image and label, or the only ones of a fitting type. If the file
    has masks, integers of another name must be named.

    Args:
        layout: Schema of a file.
        image: Name of the image column, or None.
        label: Name of the label column, or None.

    Raises:
        UnfitFileError: A column is not there, has no fitting type or is ambiguous.
    """
    found_image = _choose(layout, "image", image, [*layout.images], "Image", ("image", "img"))
    column = label if label is not None else _only_target(layout)
    if column in layout.targets:
        return Columns(found_image, column, layout.images[found_image], *layout.targets[column])
    others = [name for name in layout.images if name != found_image]
    masks = [name for name in others if _MASKS.search(name) or name in _LABELS]
    named = {name for name, of in layout.features.items() if of.get("_type") == "ClassLabel"}
    named |= {*_LABELS} & layout.types.keys() - layout.images.keys()
    # Integers of any name, such as ids, do not say that an image has a class and no mask.
    if not label and not named and (masks or (others and not layout.labels)):
        raise UnfitFileError(
            "has no column that is called or described as one of labels, but another one of images,"
            f" {(masks or others)[0]!r}; if these are masks, {OTHER_COMMANDS[MASK]}; otherwise name"
            " the column of classes with --label-column"
        )
    found_label = _choose(layout, "label", label, layout.labels, "ClassLabel", _LABELS)
    return Columns(found_image, found_label, layout.images[found_image])


def _only_target(layout: Layout) -> str:
    """Return the only column of targets, or "". A list of integers or texts may be anything: it is
    one of labels if it is called or described so, or is of the only integers, unless a column of
    integers is called or described so.
    """
    described = {name for name, of in layout.features.items() if of.get("_type") == "ClassLabel"}
    others = not (described | {*_LABELS}).isdisjoint(layout.labels)

    def is_target(column: str, form: str) -> bool:
        of_items = layout.features.get(column, {}).get("feature")
        named = isinstance(of_items, dict) and of_items.get("_type") == "ClassLabel"
        alone = form == NUMBERS and not layout.labels
        return not form or (not others and (named or alone or column in _LABELS))

    columns = [column for column, (_, form) in layout.targets.items() if is_target(column, form)]
    return columns[0] if len(columns) == 1 else ""


def unread_columns(layout: Layout, columns: Columns) -> dict[str, str]:
    """Return the columns with labels of other tasks, with their kind: these are not read."""
    masks = {name: MASK for name in layout.images if _MASKS.search(name)}
    boxes = {name: BOXES for name, (_, form) in layout.targets.items() if not form}
    used = columns.image, columns.label
    return {name: what for name, what in (boxes | masks).items() if name not in used}


def check_row_groups(path: str, columns: Columns) -> int:
    """Return the number of rows of a file whose row groups are small enough.

    Raises:
        UnfitFileError: A row group is too large, or encrypted.
        OSError: The file cannot be read.
    """
    with explained():
        footer = pq.read_metadata(path)
        # The metadata of an encrypted column abort the process, but reading a row raises an error.
        if footer.num_row_groups:
            _check_readable(path, columns)
    leaves = [footer.schema.column(number).path for number in range(footer.num_columns)]
    leaf = leaves.index(columns.leaf)
    for part in range(footer.num_row_groups):
        size = footer.row_group(part).column(leaf).total_uncompressed_size
        if size > LARGEST_ROW_GROUP:
            raise UnfitFileError(
                f"row group {part}: has {size / 1e6:,.0f} MB of images, more than"
                f" {LARGEST_ROW_GROUP / 1e6:,.0f} MB, which is too much to hold for each stream;"
                f" {_REWRITE}"
            )
    return int(footer.num_rows)


def label_rows(path: str, columns: Columns) -> Iterator[Any]:
    """Yield the values of the column of labels, as plain Python.

    Raises:
        BrokenBlockError: A row group cannot be decoded.
        OSError: The file cannot be read.
    """
    with explained(), pa.OSFile(path) as file:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        for batch in parquet.iter_batches(_ROWS, columns=[columns.label], use_threads=False):
            yield from batch.column(0).to_pylist()


def listed_texts(path: str, columns: Columns) -> Iterator[str]:
    """Yield the texts in the lists of all rows, without the blanks around them; empty ones and
    nulls are left out. Raises as `label_rows` does.
    """
    for row in label_rows(path, columns):
        yield from filter(None, (text and text.strip() for text in row or ()))


def _check_readable(path: str, columns: Columns) -> None:
    parquet = pq.ParquetFile(path, buffer_size=1 << 20)
    try:
        next(parquet.iter_batches(1, [0], [columns.leaf, columns.label]), None)
    except OSError as error:
        if "crypt" in str(error):
            raise UnfitFileError(
                f"has encrypted columns ({first_line(error)}); write it again without encryption"
            ) from error
        # Anything else the scan names with its row group.


def _choose(
    layout: Layout,
    what: str,
    named: str | None,
    fitting: list[str],
    feature: str,
    usual: tuple[str, ...],
) -> str:
    option = f"--{what}-column"
    columns = ", ".join(f"{name} ({kind})" for name, kind in layout.types.items())
    if named is not None:
        if named not in layout.types:
            raise UnfitFileError(f"has no column {named!r} ({option}); its columns are {columns}")
        if named not in fitting:
            wanted = "encoded images" if what == "image" else "integers"
            raise UnfitFileError(
                f"its column {named!r} is not one of {wanted}; its columns are {columns}"
            )
        return named
    described = [name for name in fitting if layout.features.get(name, {}).get("_type") == feature]
    by_name = [name for name in usual if name in fitting]
    strange = next((name for name in usual if name in layout.types and name not in fitting), "")
    if what == "label" and strange and not described and not by_name:
        raise UnfitFileError(
            f"its column {strange!r} is of the type {layout.types[strange]}, but labels are"
            f" integers from 0; write them as int64, or name another column with {option}. Its"
            f" columns are {columns}"
        )
    for candidates in (described, by_name[:1], fitting):
        if len(candidates) == 1:
            return candidates[0]
        if candidates and candidates is described:
            break
    raise UnfitFileError(f"which column is the {what} is not clear; name it with {option}. Its"
                         f" columns are {columns}")  # fmt: skip


def _form(kind: pa.DataType, fields: frozenset[str]) -> str | None:
    """Return "" for a struct of lists or a list of structs that have some fields or, if there are
    none of them, the form of a list of labels; None for a column of another type.
    """
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    items = kind.value_type if is_list else kind
    if fields:
        is_struct = pa.types.is_struct(items)
        return "" if is_struct and fields <= {field.name for field in items} else None
    if is_list and pa.types.is_integer(items):
        return NUMBERS
    return NAMES if is_list and any(is_text(items) for is_text in _TEXTS) else None


def _image_field(kind: pa.DataType) -> str | None:
    """Return the field with encoded images of a type, "" for the column itself, or None."""
    if _is_binary(kind):
        return ""
    if pa.types.is_struct(kind):
        number = kind.get_field_index("bytes")
        if number >= 0 and _is_binary(kind.field(number).type):
            return "bytes"
    return None


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
