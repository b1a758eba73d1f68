"""Options of the commands that write, describe and check data sets. Standard library only."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from common.annotations import Bounds, Positional
from trainer.config import NotNegative, Positive
from trainer.data.duplicates.leaf import DuplicateOptions
from trainer.leaves import WorkersName

TURNED: Final = ("reject", "upright", "stored")
Turned: TypeAlias = Literal["reject", "upright", "stored"]
"""Which way up the labels of images are that EXIF turns upright."""

NAME_FILES: Final = ("name_key", "name_table")
"""Options about names that are files, of which no output tells."""

OTHER_OUTPUT: Final = "another --output (with `fit`: another --data)"
"""What to choose if a folder cannot take the data set: `fit` runs the preparation as well."""


@dataclass(frozen=True)
class WriteOptions(DuplicateOptions):
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

    metadata: Literal["remove", "keep"] = "remove"
    """Whether to remove metadata from images that are copied unchanged: EXIF, XMP, IPTC, comments,
    texts, thumbnails and everything else that does not belong to the picture. Their pixels stay
    bit-identical, and a colour profile stays without its texts."""

    names: Literal["kept", "hashed", "numbered"] = "kept"
    """Names of records: those of the files, a keyed hash of them, or numbers. All later steps
    show the new name, and the command line in the manifest leaves out the inputs."""

    name_key: str | None = None
    """File with the key of hashed names; by default the environment variable TRAINER_NAME_KEY. It
    is not stored. With --names numbered, a key hides how the names determine the order."""

    name_table: str | None = None
    """File to write with the old and the new name of every record, outside of OUTPUT, readable
    only for you. It is never uploaded."""

    group_by: str | None = None
    """Regular expression that finds the group of an image in its path, such as (patient[0-9]+)/:
    its first group, or all that matches. Or tag:NAME, a tag of each file, if its format has some.
    Images of one group are never in two splits."""

    test: Annotated[float, Bounds(at_least=0, below=1)] = 0.0
    """Fraction of each class, or of the groups, for a third split, test, if the input is not split
    already: `evaluate --split test` states the result on images that neither chose weights nor a
    temperature. 0 makes no such split."""

    levels: str = "auto"
    """Values that become 0 and 255 in images of more than 8 bits. The same for all images:
    LOW:HIGH, such as 0:4095 or 0:0.3; auto, from 0 to the highest value of the bits that the data
    set uses; percentiles, 0.5% and 99.5% of its pixels; full, all values that a file can hold. Or
    of each image: bits, by the bits that it uses; window, the range that its file names, if its
    format has one. Except with full, such images are stored without loss."""

    pages: Literal["first", "all"] = "first"
    """Images to write of a file that holds several: the first one, or all of them."""

    with_: WorkersName = "processes"
    """Where shards are written: by processes of this machine, or by tasks of a cluster, which read
    and write the same folders, such as a mounted data store. The result does not depend on it."""

    paths = tuple[str, ...](("input", "output", *NAME_FILES))


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

    paths = ("train", "validation", "ground_truth", "words", "output", *NAME_FILES)


@dataclass(frozen=True)
class PrepareTfrecordsOptions:
    """Write a manifest for TFRecords that another tool wrote in the usual ImageNet schema. The
    shards are not changed.
    """

    input: str = ""
    """Folder of the shards: train-* and validation-* (or valid, val, test)."""

    first_label: Literal["auto", "0", "1"] = "auto"
    """Label of the first class in the records; auto takes the smallest label, if it is 0 or 1."""

    levels: str = "auto"
    """Values that become 0 and 255 whenever an image of more than 8 bits is read, the same for all
    images: LOW:HIGH; auto, from 0 to the highest value of the bits that the data set uses; bits, by
    the bits that each image uses; percentiles, 0.5% and 99.5% of all pixels; full, all 16 bits."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that read; 0 is one per core."""


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

    paths = ("input", "output", "class_names", *NAME_FILES)


@dataclass(frozen=True)
class VerifyOptions:
    """Check a data set against its manifest."""

    folder: Annotated[str, Positional("DIR")] = ""
    """Folder of the data set."""

    deep: bool = False
    """Also decode every image, and the other contents of a record."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that read; 0 is one per core."""
