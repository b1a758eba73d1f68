"""Options of `ml-trainer fit`. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Positional, Required


@dataclass(frozen=True)
class FitOptions:
    """Train on a folder of images with one folder for each class, or with a table of their classes:
    prepare the data set, check it, choose a run that fits it, train, and write the report. Each
    step is a command, which is printed; options after `--` are those of `ml-trainer train`.
    """

    folder: Annotated[str, Positional("DIR"), Required("name the folder of the images")] = ""
    """Folder with one folder per class, or with folders train and validation that contain the class
    folders; or a data set that a preparation has written."""

    trainer: Annotated[tuple[str, ...], Positional("[-- OPTION...]")] = ()
    """Options of the run, such as --epochs 5."""

    data: str | None = None
    """Folder of the data set to write; None is data/NAME-set, by the name of DIR."""

    name: str | None = None
    """Name of the run; None makes one of the preset and the time. That of an interrupted run
    continues it."""

    weights: str | None = None
    """File of weights to start from, such as one that `ml-trainer weights` has fetched; None starts
    from random weights."""

    mirror: bool | None = None
    """Whether to mirror half of the training images left to right; None does it with photographs in
    colour from 64 pixels on alone, because left and right differ in X-rays, text and many other
    images."""

    table: str | None = None
    """CSV file with the class of each image, in place of folders; its columns for file, class,
    group and split are found by their names."""

    file_column: str | None = None
    """Column of the table with the file names, if it is not found."""

    class_column: str | None = None
    """Column of the table with the classes, if it is not found."""

    group_column: str | None = None
    """Column of the table with the groups, such as patients. Images of one group are never in two
    splits."""

    split_column: str | None = None
    """Column of the table with the splits: train, validation or test."""

    test: float | None = None
    """Part of the images to keep for `ml-trainer evaluate --split test`, which neither chooses
    weights nor ends a run."""

    group_by: str | None = None
    """Regular expression that finds the group of an image in its path, such as (patient[0-9]+)/.
    Images of one group are never in two splits."""

    max_rejected: str | None = None
    """Most files that may be rejected as unusable: a number, or a percentage of all files; None is
    1%."""

    levels: str | None = None
    """Values that become black and white in images of more than 8 bits, as `ml-trainer prepare
    folder` takes them: bits for files of different depths; None is auto."""

    runs_dir: str = "runs"
    """Folder of all runs."""
