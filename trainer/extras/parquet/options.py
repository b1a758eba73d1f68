"""Options of `prepare parquet`. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from common.annotations import Bounds
from trainer.gone import LAST


@dataclass(frozen=True)
class PrepareParquetOptions:
    """Write a manifest for Parquet files of images and labels, as Hugging Face publishes them. The
    files are not changed, and training reads them where they are.
    """

    GONE: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("copy", "reencode", "shard_mb", "seed", "max_rejected", "max_pixels", "held_out", "with",
         "metadata", "names", "name_key", "name_table", "group_by", "pages", "test"),
        f"{LAST}, as files are read where they are; write their images to a folder"
        " (docs/data.md), and use `prepare folder`",
    )  # fmt: skip

    input: str = ""
    """Folder of the files: train-*.parquet and validation-*.parquet (or valid, val, test), at any
    depth, or files in folders with these names."""

    output: str | None = None
    """Folder for manifest.json if INPUT cannot be written; it then refers to INPUT, which must stay
    where it is. By default the manifest is written to INPUT, and both can be moved together."""

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

    levels: str = "auto"
    """Values that become 0 and 255 whenever an image of more than 8 bits is read, the same for all
    images: LOW:HIGH; auto, from 0 to the highest value of the bits that the data set uses; bits, by
    the bits that each image uses; percentiles, 0.5% and 99.5% of all pixels; full, all 16 bits."""

    processes: Annotated[int, Bounds(at_least=0)] = 0
    """Processes that read; 0 is one per core."""

    @property
    def folder(self) -> Path:
        """Folder of the data set that is described."""
        return Path(self.output or self.input)
