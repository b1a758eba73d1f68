"""What the commands other than `train` can be told."""

from dataclasses import dataclass
from typing import Annotated, Literal

from trainer.config import Positive


@dataclass(frozen=True)
class EvaluateOptions:
    """Evaluate a checkpoint of a run."""

    run: str = "runs/latest"
    """Folder of the run."""

    checkpoint: Literal["last", "best"] = "last"
    """last: the newest valid one; best: the one with the best top-1 among those kept."""

    data_dir: str | None = None
    """Folder of the data set, if it is not where the run found it."""


@dataclass(frozen=True)
class ExportOptions:
    """Write a run's model as a SavedModel that takes encoded images and needs none of this code."""

    run: str = "runs/latest"
    """Folder of the run; its data set need not be there."""

    checkpoint: Literal["last", "best"] = "last"
    """last: the newest valid one; best: the one with the best top-1 among those kept."""

    output: str | None = None
    """Folder to write; none is `export` in the run's. An older export in it is replaced."""

    top: Annotated[int, Positive] = 5
    """Classes that the model gives for an image; all of them if it has fewer."""

    onnx: bool = False
    """Write model.onnx as well. It takes pixels that are decoded and cropped, as ONNX has no
    portable way to decode images, and is compared with the SavedModel."""


@dataclass(frozen=True)
class PredictOptions:
    """Print the most probable classes of images: python -m trainer predict IMAGE... [options].
    An IMAGE is a JPEG or PNG, or a folder that is searched for .jpg, .jpeg and .png.
    """

    run: str = "runs/latest"
    """Folder of the run whose export is used."""

    model: str | None = None
    """Folder of an export that is used instead of a run's."""

    top: Annotated[int | None, Positive] = None
    """Classes to print for an image; none is all that the model gives, 5 unless it was exported
    with another --top."""

    json: bool = False
    """Print a JSON object a line for each image."""


@dataclass(frozen=True)
class ReportOptions:
    """Write a page about a run, or one that compares several: python -m trainer report RUN [RUN...]
    [options]. A RUN is the folder of a run; none is runs/latest.
    """

    output: str | None = None
    """File to write; none is report.html in the run's folder, and compare.html beside the first of
    several runs."""


@dataclass(frozen=True)
class PrepareDigitsOptions:
    """Write scikit-learn's digits as TFRecords: 1,437 images to train on, 360 held out."""

    output: str = "data/digits"
    """Folder to write; replaced if it holds the same data set already."""


@dataclass(frozen=True)
class PrepareSyntheticOptions:
    """Write JPEGs of noise as TFRecords, 500 x 375 pixels and 117 KB on average: for measuring what
    reading photographs costs, not for learning.
    """

    output: str = "data/synthetic"
    """Folder to write; it stays as it is if it holds the same data set already."""

    images: Annotated[int, Positive] = 1000
    """Images to train on; a tenth as many are held out."""
