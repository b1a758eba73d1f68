"""What the commands other than `train` can be told."""

from dataclasses import dataclass
from typing import Annotated, Literal

from common.fields import Bounds
from trainer.config import NotNegative, Positive


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


@dataclass(frozen=True)
class WriteOptions:
    """How images become shards; the same for every source of files."""

    reencode: str | None = None
    """SHORT_SIDE[:QUALITY], such as 292:90: shrink larger images to this short side, in pixels, and
    make all of them JPEGs of this quality (default 90). For data sets whose images are much larger
    than the network's input. None copies JPEGs untouched."""

    shard_mb: Annotated[int, Positive] = 128
    """Size of a shard, in MB of 1,000,000 bytes; the last images of a split share theirs evenly."""

    seed: Annotated[int, Bounds(at_least=0, below=2**31)] = 0
    """Decides the order of images in the shards, and which are held out."""

    max_rejected: str = "1%"
    """Files that may be left out because they are no usable images: a number, or a percentage of
    all. More are an error. rejected.csv names each with the reason."""

    max_pixels: Annotated[int, Positive] = 50_000_000
    """Pixels of the largest image that is taken; larger ones are rejected, as decoding one would
    fill the memory."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that read and write; 0 is one for each core. The result does not depend on it."""


@dataclass(frozen=True)
class PrepareFolderOptions(WriteOptions):
    """Write a folder of images as TFRecords: INPUT/CLASS/..., or INPUT/train/CLASS/... and
    INPUT/validation/CLASS/... Interrupted and started again, it continues.
    """

    input: str = ""
    """Folder with a folder for each class, or with train and validation (val, valid, test) above
    them."""

    output: str = "data/images"
    """Folder to write; may be a mounted data store."""

    held_out: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """Part of each class that is held out for evaluation, if INPUT is not divided already."""


@dataclass(frozen=True)
class PrepareImagenetOptions(WriteOptions):
    """Write ILSVRC2012 as TFRecords, from the archives as they are downloaded or from unpacked
    folders. Interrupted and started again, it continues.
    """

    train: str = ""
    """ILSVRC2012_img_train.tar, a folder of its 1,000 inner archives, or a folder of unpacked ones
    (n01440764/...)."""

    validation: str = ""
    """ILSVRC2012_img_val.tar, a folder of its images, or a folder that is sorted into synsets."""

    ground_truth: str | None = None
    """Classes of the validation images, unless they are sorted: ILSVRC2012_devkit_t12.tar.gz, a
    file with a synset a line, or LOC_val_solution.csv."""

    words: str | None = None
    """Names of the synsets: words.txt, synset_words.txt or LOC_synset_mapping.txt. None names the
    classes by their synsets, or by the words in the development kit."""

    output: str = "data/imagenet"
    """Folder to write; may be a mounted data store."""


@dataclass(frozen=True)
class PrepareTfrecordsOptions:
    """Describe TFRecords that another tool wrote, in the usual ImageNet schema, by a manifest
    beside them; the shards stay as they are.
    """

    input: str = ""
    """Folder of the shards: train-* and validation-* (or val-*)."""

    first_label: Literal["auto", "0", "1"] = "auto"
    """What the records call the first class; auto looks whether any label is 0."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that read; 0 is one for each core."""


@dataclass(frozen=True)
class VerifyOptions:
    """Check a data set against its manifest: python -m trainer verify DIR [options]."""

    deep: bool = False
    """Decode every image as well."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that read; 0 is one for each core."""


@dataclass(frozen=True)
class InspectOptions:
    """Write a page that shows a data set: python -m trainer inspect DIR [options]."""

    output: str | None = None
    """File to write; none is inspect.html in DIR."""

    per_class: Annotated[int, Bounds(at_least=1, at_most=100)] = 8
    """Images shown of each class; fewer of more than 100 classes, so that the page stays small."""
