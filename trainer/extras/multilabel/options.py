"""Options of the commands that write data sets of several classes per image. Standard library
only.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from common.annotations import Bounds
from trainer.data.prepare.options import NAME_FILES, WriteOptions

Marked = Literal["error", "ignore", "positive", "negative"]
"""Meaning of a mark that is neither 1 nor 0."""


@dataclass(frozen=True)
class PrepareTilesOptions:
    """Write scikit-learn's digits in four tiles as TFRecords: 3,000 training images and 400
    held-out images of 16 x 16 pixels, whose classes are the digits that they show.
    """

    output: str = "data/tiles"
    """Folder to write; left unchanged if it already holds the same data set."""

    source = "tiles"


@dataclass(frozen=True)
class PrepareMultilabelOptions(WriteOptions):
    """Write images that have any number of classes as TFRecords: those of a table, a CSV file with
    a row for each image, or without one those of INPUT/CLASS/..., where equal files in several
    folders are one image of several classes. If it is interrupted, the same command continues.
    """

    input: str = ""
    """Folder of the images; may have folders train and validation (val, valid, test)."""

    table: str | None = None
    """CSV file with a row of names of columns, and a row for each image; its separator and its
    encoding are found. Its classes are texts in
    one column, or are columns of their own with 1 or 0. A column `split` says train or validation
    (val, valid, test). None: classes are folders."""

    file_column: str | None = None
    """Column with the path of an image in INPUT, or its name; None is the first."""

    class_column: str | None = None
    """Column with the names of an image's classes. None is the one called classes, class, labels,
    label or tags or, if there is none, each column but those of file and split is a class."""

    group_column: str | None = None
    """Column with the groups, such as patients: images of one group are never in two splits."""

    separator: str = "|"
    """Text between the names of two classes in their column."""

    uncertain: Marked = "error"
    """Meaning of -1, an uncertain class, in columns of classes: positive, negative, or ignore,
    which leaves the image out. By default, it is an error."""

    blank: Marked = "error"
    """Meaning of an empty field in columns of classes, as for `uncertain`."""

    classes: tuple[str, ...] = ()
    """Names of the classes in the order of labels. If they are columns, others are then left out.
    By default all that are found, in alphabetical order, or in that of their columns."""

    output: str = "data/multilabel"
    """Folder to write; may be a mounted data store."""

    held_out: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """Fraction of the images to hold out for evaluation, if they are not split already."""

    paths = ("input", "table", "output", *NAME_FILES)
