"""Uses of random numbers are apart from each other, and from those of other seeds."""

import tensorflow as tf

from trainer.data.augmentations.keys import key
from trainer.data.augmentations.table import AUGMENTATIONS, PATCHES

PARTS = ("operations", "signs", "factors", "rectangle", "noise", "beta", "powers", "centre")
USES = (
    *("crop", "shift", "flip", "patch"),
    *(f"{name} {part}" for name in (*AUGMENTATIONS, *PATCHES) for part in PARTS),
)


def of(seed, use, position=0):
    return tuple(key(seed, use, tf.constant(position, tf.int64)).numpy().tolist())


def test_the_first_three_uses_have_the_keys_of_the_first_version():
    for seed in (0, 7, 2**31 - 1):
        keys = [of(seed, use, 2**40) for use in ("crop", "shift", "flip")]
        assert keys == [(seed * 4 + use, 2**40) for use in range(3)]


def test_no_use_has_the_key_of_another_one_or_of_another_seed():
    seeds = (*range(40), 2**31 - 2, 2**31 - 1)
    assert len({of(seed, use) for seed in seeds for use in USES}) == len(seeds) * len(USES)
