"""Options of `prepare table`. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds
from trainer.data.prepare.options import NAME_FILES, WriteOptions


@dataclass(frozen=True)
class PrepareTableOptions(WriteOptions):
    """Write images with one class each, which a table names, as TFRecords. The table is a CSV file
    with a row for each image; its separator and its encoding are found. If it is interrupted, the
    same command continues.
    """

    input: str = ""
    """Folder of the images, at any depth."""

    table: str = ""
    """CSV file: a row of names of columns, and a row for each image."""

    file_column: str | None = None
    """Column with the files: their paths in INPUT, or their names, with or without the suffix. None
    is the column most of whose values are files of INPUT."""

    class_column: str | None = None
    """Column with the classes. None is the one called class, label, category, target or diagnosis,
    or Klasse or Diagnose."""

    group_column: str | None = None
    """Column with the groups, such as patients: images of one group are never in two splits. None
    is the one called patient, patient_id, subject, person or group, if there is one; none uses no
    groups."""

    split_column: str | None = None
    """Column that says train, validation (val, valid) or test of each image. None is the one called
    split, subset or partition, if there is one; none uses none."""

    keep_columns: tuple[str, ...] = ()
    """Columns to keep with the data set, in columns.csv. By default all but
    those of files, classes and splits; none if names are changed, as a column may identify people.
    none keeps none."""

    output: str = "data/images"
    """Folder to write; may be a mounted data store."""

    held_out: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """Fraction of each class to hold out for evaluation, if the table does not say."""

    paths = ("input", "table", "output", *NAME_FILES)
