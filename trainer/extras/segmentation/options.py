"""Options of the commands that write data sets for segmentation. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds
from trainer.data.prepare.options import NAME_FILES, Turned, WriteOptions


@dataclass(frozen=True)
class PrepareScenesOptions:
    """Write scikit-learn's digits on its photographs, with masks, as TFRecords: 2,400 training
    images and 240 held-out images of 32 x 32 pixels.
    """

    output: str = "data/scenes"
    """Folder to write; left unchanged if it already holds the same data set."""

    source = "scenes"


@dataclass(frozen=True)
class PrepareSegmentationOptions(WriteOptions):
    """Write images and their masks as TFRecords, from two folders: the mask of IMAGES/a/b.jpg is
    MASKS/a/b.png, a PNG of one channel whose values are the classes of the pixels, 255 for pixels
    that do not count. If it is interrupted, the same command continues.
    """

    images: str = ""
    """Folder of the images; may have folders train and validation (val, valid, test), which MASKS
    must have as well."""

    masks: str = ""
    """Folder of the masks."""

    classes: tuple[str, ...] = ()
    """Names of the classes in the order of their values in the masks, the background first."""

    output: str = "data/segmentation"
    """Folder to write; may be a mounted data store."""

    held_out: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """Fraction of the images to hold out for evaluation, if IMAGES is not split already."""

    turned_images: Turned = "reject"
    """Which way up the masks are of photographs that EXIF turns upright: upright as people see the
    photograph, or stored as its pixels are in the file. By default such an image is rejected
    unless the sizes tell."""
    paths = ("images", "masks", "output", *NAME_FILES)
