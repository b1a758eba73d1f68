"""Options of the commands that write data sets for detection. Standard library only."""

from dataclasses import dataclass
from typing import Annotated, Literal

from common.annotations import Bounds
from trainer.data.prepare.options import NAME_FILES, Turned, WriteOptions


@dataclass(frozen=True)
class PrepareShapesOptions:
    """Write shapes on scikit-learn's photographs, with boxes, as TFRecords: 1,600 training images
    and 200 held-out images of 96 x 96 pixels.
    """

    output: str = "data/shapes"
    """Folder to write; left unchanged if it already holds the same data set."""

    source = "shapes"


@dataclass(frozen=True)
class PrepareDetectionOptions(WriteOptions):
    """Write images and the boxes of their objects as TFRecords. COCO: files of annotations in JSON,
    in INPUT or named. YOLO: a text file for each image, labels/a.txt for images/a.jpg or next to
    the image, and the names of the classes in data.yaml, classes.txt or --classes. If it is
    interrupted, the same command continues.
    """

    input: str = ""
    """Folder of images and annotations. Images are held out if a folder or a JSON file is called
    validation, val, valid or test, and training images are in others."""

    annotations: tuple[str, ...] = ()
    """Files of COCO's JSON, if they are not in INPUT: one, or one for training and one for
    validation, told by such words in their names."""

    classes: tuple[str, ...] = ()
    """Names of the classes of YOLO's files in their order, if no file has them; or of the
    categories of COCO's files to use, by default all."""

    output: str = "data/objects"
    """Folder to write; may be a mounted data store."""

    held_out: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """Fraction of the images to hold out for evaluation, if INPUT is not split already."""

    unfit_boxes: Literal["reject", "drop"] = "reject"
    """A box without an area, or that reaches out of its image by more than a pixel: reject the
    image, or drop the box, which leaves an object without a box in the image."""

    most_boxes: Annotated[int, Bounds(at_least=1, at_most=1000)] = 100
    """Most boxes of an image; images with more are rejected. A run needs --detection.boxes as large
    as the largest number in the data."""

    turned_images: Turned = "reject"
    """Which way up the boxes are of photographs that EXIF turns upright: upright as people see the
    photograph, or stored as its pixels are in the file. By default such an image is rejected,
    unless the size in COCO's file tells."""
    paths = ("input", "annotations", "output", *NAME_FILES)
