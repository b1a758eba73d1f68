"""Options of the commands other than `train`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from common.annotations import Bounds, Positional
from trainer.config import NotNegative, Positive


@dataclass(frozen=True)
class EvaluateOptions:
    """Evaluate a checkpoint of a run."""

    run: str = "runs/latest"
    """Folder of the run."""

    checkpoint: Literal["last", "best"] = "last"
    """last: the newest valid checkpoint; best: the best kept checkpoint by its evaluation."""

    data_dir: str | None = None
    """Folder of the data set, if it has moved since the training."""

    json: bool = False
    """Print one JSON object: the loss, the metrics and the number of images."""


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
class WriteOptions:
    """How images become shards; the same for every source of files."""

    reencode: str | None = None
    """SHORT_SIDE[:QUALITY], such as 292:90: shrink larger images to this short side, in pixels, and
    make all of them JPEGs of this quality (default 90). For data sets whose images are much larger
    than the network's input. None copies JPEGs untouched."""

    shard_mb: Annotated[int, Positive] = 128
    """Target size of a shard, in MB (1,000,000 bytes); the images of a split are spread evenly.
    Smaller data sets have smaller shards: up to 64, as far as each then has 64 images or more."""

    seed: Annotated[int, Bounds(at_least=0, below=2**31)] = 0
    """Seed for the order of images in the shards and for the choice of held-out images."""

    max_rejected: str = "1%"
    """Most files that may be rejected as unusable: a number, or a percentage of all files. More
    than that is an error. rejected.csv lists each rejected file with the reason."""

    max_pixels: Annotated[int, Positive] = 50_000_000
    """Largest accepted image, in pixels. Larger images are rejected, because decoding one could
    exhaust the memory."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that read and write; 0 is one per core. The result does not depend on it."""

    with_: Literal["processes", "spark"] = "processes"
    """spark: write the shards by tasks of Spark, which read and write the same folders, such as a
    mounted data store. The result does not depend on it."""


@dataclass(frozen=True)
class PrepareFolderOptions(WriteOptions):
    """Write a folder of images as TFRecords: INPUT/CLASS/..., or INPUT/train/CLASS/... and
    INPUT/validation/CLASS/... If it is interrupted, the same command continues.
    """

    input: str = ""
    """Folder with one folder per class, or with folders train and validation (val, valid, test)
    that contain the class folders."""

    output: str = "data/images"
    """Folder to write; may be a mounted data store."""

    held_out: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """Fraction of each class to hold out for evaluation, if INPUT is not split already."""


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


@dataclass(frozen=True)
class PrepareImagenetOptions(WriteOptions):
    """Write ILSVRC2012 as TFRecords, from the downloaded archives or from unpacked folders. If
    it is interrupted, the same command continues.
    """

    train: str = ""
    """ILSVRC2012_img_train.tar, a folder of its 1,000 inner archives, or a folder of the unpacked
    inner archives (n01440764/...)."""

    validation: str = ""
    """ILSVRC2012_img_val.tar, a folder of its images, or a folder with one folder per synset."""

    ground_truth: str | None = None
    """Classes of the validation images, unless these are sorted into synsets:
    ILSVRC2012_devkit_t12.tar.gz, a file with one synset per line, or LOC_val_solution.csv."""

    words: str | None = None
    """Names of the synsets: words.txt, synset_words.txt or LOC_synset_mapping.txt. By default the
    names in the development kit are used, and without them the synsets themselves."""

    output: str = "data/imagenet"
    """Folder to write; may be a mounted data store."""


@dataclass(frozen=True)
class PrepareTfrecordsOptions:
    """Write a manifest for TFRecords that another tool wrote in the usual ImageNet schema. The
    shards are not changed.
    """

    input: str = ""
    """Folder of the shards: train-* and validation-* (or val-*)."""

    first_label: Literal["auto", "0", "1"] = "auto"
    """Label of the first class in the records; auto takes the smallest label, if it is 0 or 1."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that read; 0 is one per core."""


COPIED = "data/images"
"""Folder of a copy of Parquet files, unless another one is given."""


@dataclass(frozen=True)
class PrepareParquetOptions(WriteOptions):
    """Write a manifest for Parquet files of images and labels, as Hugging Face publishes them. The
    files are not changed, and training reads them where they are. With --copy True write their
    images as TFRecords instead; if that is interrupted, the same command continues. For
    classification only.
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
    """Column of labels, integers from 0. By default the column that the metadata call a class
    label, or `label`, or the only one of integers."""

    class_names: str | None = None
    """File with one class name per line, in the order of labels. By default the names are those in
    the metadata, and without them "class 0", "class 1", ..."""

    held_out: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """Fraction of each class to hold out for evaluation, if a copy is of files without such a
    split."""


@dataclass(frozen=True)
class PrepareWebdatasetOptions(WriteOptions):
    """Write the images of WebDataset's tar archives as TFRecords: KEY.jpg (or jpeg, png, webp) with
    its label in KEY.cls or KEY.json. Nothing is unpacked. If it is interrupted, the same command
    continues.
    """

    input: tuple[str, ...] = ()
    """Archives, or folders of archives: train-*.tar and validation-*.tar (or valid, val, test), at
    any depth, or archives in folders with these names."""

    output: str = "data/images"
    """Folder to write; may be a mounted data store."""

    label_field: str = "label"
    """Field of KEY.json with the label, for images without KEY.cls."""

    class_names: str | None = None
    """File with one class name per line, in the order of labels; labels may then be names as well.
    By default labels are numbers from 0, and the names "class 0", "class 1", ..."""

    held_out: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """Fraction of each class to hold out for evaluation, if no archive is of such a split."""


@dataclass(frozen=True)
class VerifyOptions:
    """Check a data set against its manifest."""

    folder: Annotated[str, Positional("DIR")] = ""
    """Folder of the data set."""

    deep: bool = False
    """Also decode every image, and every mask."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that read; 0 is one per core."""


@dataclass(frozen=True)
class InspectOptions:
    """Write a page that shows a data set."""

    folder: Annotated[str, Positional("DIR")] = ""
    """Folder of the data set."""

    output: str | None = None
    """File to write, by default inspect.html in DIR."""

    per_class: Annotated[int, Bounds(at_least=1, at_most=100)] = 8
    """Images shown per class; fewer if there are more than 100 classes, to keep the page small."""
