"""ImageNet in small: its archives, folders and lists, of three classes."""

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import scipy.io
from PIL import Image

from tests.trainer.support.data_sets.image_files import saved
from trainer.data.prepare.input_files import ImageFile
from trainer.data.prepare.rejected import RejectedFile

TENCH, BIRD, MACHINE = SYNSETS = ("n01440764", "n02012849", "n03126707")
COLOURS = {TENCH: (220, 30, 30), BIRD: (30, 220, 30), MACHINE: (30, 30, 220)}
IDS = {TENCH: 2, BIRD: 3, MACHINE: 1}
"""ILSVRC2012_ID, in another order than that of the synsets."""
WORDS = {TENCH: "tench, Tinca tinca", BIRD: "crane", MACHINE: "crane"}
TRUTH = (BIRD, MACHINE, TENCH, MACHINE, BIRD)
"""Class of each validation image."""


def photograph(synset, number=0):
    """A photograph that shows its class by its colour, and differs from the others of it."""
    image = Image.new("RGB", (40 + number, 30), COLOURS[synset])
    return saved(image, "JPEG")


def tar(files, kind=tarfile.GNU_FORMAT):
    """An archive of contents, or of members that have none."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as written:
        for name, content in files.items():
            member = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            member.name = name
            if isinstance(content, bytes):
                member.size = len(content)
            written.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


def special(kind, target=""):
    member = tarfile.TarInfo()
    member.type, member.linkname = kind, target
    return member


IMAGES = {
    synset: {f"{synset}_{7 * number}.JPEG": photograph(synset, number) for number in range(3)}
    for synset in SYNSETS
}
VALIDATION = {
    f"ILSVRC2012_val_{number:08d}.JPEG": photograph(synset, number)
    for number, synset in enumerate(TRUTH, 1)
}
CONTENTS = {name: data for files in (*IMAGES.values(), VALIDATION) for name, data in files.items()}


def write_files(folder, files):
    """Files in a folder, and in folders below."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def train_archives(images=IMAGES):
    # As in the original, not in the order of synsets.
    return {f"{synset}.tar": tar(files) for synset, files in reversed(images.items())}


def make_train(folder, form, images=IMAGES):
    match form:
        case "archive":
            return put(folder / "ILSVRC2012_img_train.tar", tar(train_archives(images)))
        case "archives":
            return write_files(folder / "train", train_archives(images))
        case "folders":
            files = {f"{s}/{name}": data for s in images for name, data in images[s].items()}
            return write_files(folder / "train", files)
    raise ValueError(form)


def make_validation(folder, form, images=VALIDATION):
    match form:
        case "archive":
            return put(folder / "ILSVRC2012_img_val.tar", tar(images))
        case "archive with a folder":
            inside = {f"./val/{name}": data for name, data in images.items()}
            return put(folder / "ILSVRC2012_img_val.tar", tar(inside))
        case "folder":
            return write_files(folder / "val", images)
        case "sorted":
            sorted_ = zip(TRUTH, images.items(), strict=True)
            return write_files(folder / "val", {f"{s}/{name}": data for s, (name, data) in sorted_})
    raise ValueError(form)


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def meta():
    """The development kit's table: leaves in their own order, and a synset above them."""
    names = ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children", "children")
    rows = np.empty((4, 1), [(name, object) for name in names])
    for place, synset in enumerate(sorted(SYNSETS, key=IDS.__getitem__)):
        rows[place, 0] = (IDS[synset], synset, WORDS[synset], "", 0, np.array([]))
    rows[3, 0] = (4, "n00001740", "entity", "", 3, np.array([1, 2, 3]))
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"synsets": rows})
    return buffer.getvalue()


def numbers():
    return "".join(f"{IDS[synset]}\n" for synset in TRUTH).encode()


def devkit():
    data = "ILSVRC2012_devkit_t12/data"
    files = {
        "ILSVRC2012_devkit_t12/readme.txt": b"read me",
        f"{data}/meta.mat": meta(),
        f"{data}/ILSVRC2012_validation_ground_truth.txt": numbers(),
    }
    return tar(files)


def make_truth(folder, form):
    match form:
        case "development kit":
            path = folder / "ILSVRC2012_devkit_t12.tar.gz"
            path.write_bytes(gzip.compress(devkit()))
            return path
        case "unpacked development kit":
            put(folder / "data" / "meta.mat", meta())
            return put(folder / "data" / "ILSVRC2012_validation_ground_truth.txt", numbers())
        case "synsets":
            return put(folder / "imagenet_2012_validation_synset_labels.txt", "\n".join(TRUTH))
        case "solution":
            # Kaggle's is in no order, and has boxes.
            lines = [
                f"ILSVRC2012_val_{number:08d},{synset} 1 2 33 44 {synset} 5 6 7 8 \n"
                for number, synset in enumerate(TRUTH, 1)
            ]
            header = "ImageId,PredictionString\n"
            return put(folder / "LOC_val_solution.csv", header + "".join(reversed(lines)))
    raise ValueError(form)


EXPECTED = {
    ("train", name, label) for label, synset in enumerate(SYNSETS) for name in IMAGES[synset]
} | {
    ("validation", name, SYNSETS.index(synset))
    for name, synset in zip(VALIDATION, TRUTH, strict=True)
}


def listed_images(inputs):
    return [file for file in inputs.files() if isinstance(file, ImageFile)]


def left_out(inputs):
    return {file for file in inputs.files() if isinstance(file, RejectedFile)}


def listing(inputs):
    return {(file.split, file.name, file.label) for file in listed_images(inputs)}


def content(image):
    with Path(image.container).open("rb") as file:
        file.seek(image.offset)
        return file.read(image.size)
