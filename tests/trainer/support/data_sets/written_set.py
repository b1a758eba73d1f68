"""Small data sets of pictures, written by hand."""

from dataclasses import replace

from PIL import Image

from tests.trainer.support.data_sets.image_files import saved
from trainer.data.example import Record
from trainer.data.formats.tfrecord import write_split
from trainer.data.manifest import Manifest, Normalization, Origin

SIZES = ((64, 48), (48, 64), (200, 150), (8, 8))
"""Width and height of the pictures, in turn."""


def picture(label, number):
    """A JPEG of one colour, which depends on its label."""
    image = Image.new("RGB", SIZES[number % len(SIZES)], colour(label))
    return saved(image, "JPEG")


def colour(label):
    return label * 37 % 256, label * 91 % 256, label * 151 % 256


def write_set(folder, train, validation, *, names=None, by_class=False, make=picture, **changes):
    """Write a data set.

    Args:
        folder: to write.
        train: images of each class to train on.
        validation: images of each class to evaluate on.
        names: of the classes.
        by_class: whether a class follows the other in the shards; else neighbours differ.
        make: gives the encoded image of a label and a number.
        changes: to the manifest.

    Returns:
        Its manifest.
    """
    folder.mkdir(parents=True)
    names = tuple(names or (f"class {label}" for label in range(len(train))))
    first = changes.get("first_label", 0)

    def split(name, counts, shards):
        every = [(label, number) for label, count in enumerate(counts) for number in range(count)]
        records = []
        for label, number in sorted(every, key=None if by_class else lambda pair: pair[::-1]):
            width, height = SIZES[number % len(SIZES)]
            file = f"{name}/{label}/{number}.jpg"
            records.append(
                Record(
                    make(label, number), "JPEG", height, width, label + first, names[label], file
                )
            )
        written = write_split(folder, name, records, shards, len(counts) + first)
        return replace(written, class_counts=written.class_counts[first:])

    manifest = Manifest(
        **{
            "classes": names,
            "normalization": Normalization((100.0, 110.0, 120.0), (50.0, 55.0, 60.0)),
            "splits": {
                "train": split("train", train, 3),
                "validation": split("validation", validation, 1),
            },
            "origin": Origin("ml-trainer prepare folder --input photos"),
            **changes,
        }
    )
    manifest.save(folder)
    return manifest
