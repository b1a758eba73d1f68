"""Create manifests without a data set."""

from trainer.data.manifest import Manifest, Normalization, Origin, Shard, Split


def manifest(train=1_281_167, validation=50_000, classes=1000):
    def split(examples):
        each = examples // classes
        counts = (examples - each * (classes - 1), *[each] * (classes - 1))
        return Split((Shard("s", examples, 1, "0" * 32, ()),), counts, ("jpeg",))

    names = tuple(f"class {number}" for number in range(classes))
    splits = {"train": split(train), "validation": split(validation)}
    return Manifest(names, Normalization((0.0,) * 3, (1.0,) * 3), splits, Origin("x"))
