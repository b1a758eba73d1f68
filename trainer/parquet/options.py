"""Options of `prepare parquet`. Standard library only."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from common.annotations import Bounds
from trainer.data.prepare.options import NAME_FILES, WriteOptions

COPIED: Final = "data/images"
"""Folder of a copy of Parquet files, unless another one is given."""


@dataclass(frozen=True)
class PrepareParquetOptions(WriteOptions):
    """Write a manifest for Parquet files of images and labels, as Hugging Face publishes them. The
    files are not changed, and training reads them where they are. With --copy True write their
    images as TFRecords instead, for classification only; if that is interrupted, the same command
    continues.
    """

    input: str = ""
    """Folder of the files: train-*.parquet and validation-*.parquet (or valid, val, test), at any
    depth, or files in folders with these names."""

    output: str | None = None
    """Folder for manifest.json if INPUT cannot be written; it then refers to INPUT, which must stay
    where it is. By default the manifest is written to INPUT, and both can be moved together. With
    --copy True the folder to write, by default data/images."""

    copy: bool = False
    """Whether to write the images as shuffled TFRecords instead of describing the files. The images
    take their size once more in OUTPUT until all shards are written."""

    image_column: str | None = None
    """Column of encoded images, binary or a struct with the field `bytes`. By default the column
    that the metadata call an image, or `image`, or the only one of such a type."""

    label_column: str | None = None
    """Column of labels, integers from 0, or of a task's targets. By default the only column of such
    targets, or the one that the metadata call a class label, or `label`, or the only one of
    integers."""

    target_form: str | None = None
    """How targets that are not labels are to be read; the page of their task has the forms."""

    class_names: str | None = None
    """File with one class name per line, in the order of labels. By default the names are those in
    the metadata or in lists of names, sorted, and without them "class 0", "class 1", ..."""

    held_out: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """Fraction of each class to hold out for evaluation, if a copy is of files without such a
    split."""

    paths = ("input", "output", "class_names", *NAME_FILES)

    @property
    def folder(self) -> Path:
        """Folder of the data set that is described or written."""
        return Path(self.output or (COPIED if self.copy else self.input))
