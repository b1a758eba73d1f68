"""Options of the commands other than `train`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from common.annotations import Bounds, Positional
from trainer.config import NotNegative, Positive
from trainer.data.prepare.options import (
    InspectOptions,
    PrepareFolderOptions,
    PrepareImagenetOptions,
    PrepareTfrecordsOptions,
    PrepareWebdatasetOptions,
    VerifyOptions,
    WriteOptions,
)

__all__ = [
    "InspectOptions",
    "PrepareFolderOptions",
    "PrepareImagenetOptions",
    "PrepareTfrecordsOptions",
    "PrepareWebdatasetOptions",
    "VerifyOptions",
]


@dataclass(frozen=True)
class EvaluateOptions:
    """Evaluate a checkpoint of a run."""

    run: str = "runs/latest"
    """Folder of the run."""

    checkpoint: Literal["last", "best"] = "last"
    """last: the newest valid checkpoint; best: the best kept checkpoint by its evaluation."""

    data_dir: str | None = None
    """Folder of the data set, if it has moved since the training."""


@dataclass(frozen=True)
class ExportOptions:
    """Write a run's model as a SavedModel that takes encoded images and needs none of this code."""

    run: str = "runs/latest"
    """Folder of the run; its data set need not be there."""

    checkpoint: Literal["last", "best"] = "last"
    """last: the newest valid checkpoint; best: the best kept checkpoint by its evaluation."""

    output: str | None = None
    """Folder to write, by default `export` in the run folder. An existing export is replaced."""

    top: Annotated[int, Positive] = 5
    """Classes that the model returns for each image; all of them if it has fewer."""

    onnx: bool = False
    """Also write model.onnx, and compare its results with those of the SavedModel. Its input is
    decoded and cropped pixels, because ONNX has no portable way to decode images."""


@dataclass(frozen=True)
class PredictOptions:
    """Print the most probable classes of images, using an exported model."""

    images: Annotated[tuple[str, ...], Positional("IMAGE...")] = ()
    """JPEGs or PNGs, or folders that are searched for .jpg, .jpeg and .png."""

    run: str = "runs/latest"
    """Folder of the run whose export is used."""

    model: str | None = None
    """Folder of an export to use instead of the run's."""

    top: Annotated[int | None, Positive] = None
    """Classes to print for each image, by default all that the model returns: 5, unless it was
    exported with another --top."""

    json: bool = False
    """Print one JSON object per image, each on a line of its own."""


@dataclass(frozen=True)
class ServeOptions:
    """Answer requests for the classes of images, with an exported model, until Ctrl-C. Needs
    `make serve`, which installs the server.
    """

    run: str = "runs/latest"
    """Folder of the run whose export is served."""

    model: str | None = None
    """Folder of an export to serve instead of the run's."""

    host: str = "127.0.0.1"
    """Address to listen on. The server does not ask who sends a request: 0.0.0.0 opens it to all
    who reach this machine."""

    port: Annotated[int, Bounds(at_least=1, at_most=65535)] = 5001
    """Port to listen on."""

    workers: Annotated[int, NotNegative] = 0
    """Processes that answer; 0 is one per core. Each loads the model."""

    timeout: Annotated[float, Positive] = 30.0
    """Longest pause of a client in the middle of its request, in seconds; then it is refused."""


@dataclass(frozen=True)
class ScoreOptions:
    """Write the most probable classes of all images in a folder to files, with an exported model.
    If it is interrupted, the same command continues.
    """

    run: str = "runs/latest"
    """Folder of the run whose export is used."""

    model: str | None = None
    """Folder of an export to use instead of the run's."""

    input: str = ""
    """Folder that is searched for .jpg, .jpeg and .png, at any depth."""

    output: str = ""
    """Folder to write; may be a mounted data store."""

    format: Literal["parquet", "csv"] = "parquet"
    """Format of the files."""

    images_per_file: Annotated[int, Positive] = 1000
    """Images in one file, which is also what an interruption can cost."""

    part: Annotated[int | None, NotNegative] = None
    """Part of the files to write, from 0, if several machines share them; see --parts. None is the
    rank that mpirun gave this process, or 0."""

    parts: Annotated[int | None, Positive] = None
    """Number of machines that share the files, each with its own --part and the same other options.
    None is the number of processes that mpirun started, of which the first lists the images for all
    and ends last, or 1."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that predict, with one thread each; 0 is one per core. The result does not depend
    on it."""

    with_: Literal["processes", "spark"] = "processes"
    """spark: write the files by tasks of Spark, which read and write the same folders, such as a
    mounted data store. The result does not depend on it."""


@dataclass(frozen=True)
class ReportOptions:
    """Write a page about a run, or one that compares several."""

    runs: Annotated[tuple[str, ...], Positional("[RUN...]")] = ("runs/latest",)
    """Folders of the runs; without one it is runs/latest."""

    output: str | None = None
    """File to write, by default report.html in the run folder, or compare.html beside the first of
    several run folders."""


@dataclass(frozen=True)
class StacksOptions:
    """Print the Python stacks of all ranks of a run that trains on this machine, and what each rank
    waits for. The run continues.
    """

    run: Annotated[str, Positional("[RUN]")] = "runs/latest"
    """Folder of the run; without one it is runs/latest."""

    seconds: Annotated[float, Positive] = 30.0
    """Longest time to wait for the ranks, in seconds; each looks for requests every 10 s."""


@dataclass(frozen=True)
class SparkOptions:
    """Train on a Spark cluster, each rank in a task of its own: `spark --num-proc 8 -- OPTIONS`
    with the options of `train` after `--`. Start it by spark-submit, or by Python alone for a
    session on this machine.
    """

    num_proc: Annotated[int, Positive] = 1
    """Number of ranks; as many tasks must be able to run at once."""

    restarts: Annotated[int, NotNegative] = 3
    """How often in a row a crashed run is restarted without a newer checkpoint."""


@dataclass(frozen=True)
class PrepareDigitsOptions:
    """Write scikit-learn's digits as TFRecords: 1,437 training images and 360 held-out images."""

    output: str = "data/digits"
    """Folder to write; left unchanged if it already holds the same data set."""


@dataclass(frozen=True)
class PrepareScenesOptions:
    """Write scikit-learn's digits on its photographs, with masks, as TFRecords: 2,400 training
    images and 240 held-out images of 32 x 32 pixels.
    """

    output: str = "data/scenes"
    """Folder to write; left unchanged if it already holds the same data set."""


@dataclass(frozen=True)
class PrepareSyntheticOptions:
    """Write JPEGs of noise as TFRecords, 500 x 375 pixels and 117 KB on average: for measuring what
    reading photographs costs, not for learning.
    """

    output: str = "data/synthetic"
    """Folder to write; left unchanged if it already holds the same data set."""

    images: Annotated[int, Positive] = 1000
    """Training images; a tenth as many are held out."""


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
