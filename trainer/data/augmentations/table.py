"""The augmentations.

To add one, write its function and its row here, and the option of its name in `DataConfig`, which
is 0 if it is not used. Random numbers come from the key that it is given, so they depend on the
position of the image alone, and are the same after any resume and for any number of ranks.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import log, pi
from typing import Final

import tensorflow as tf

from trainer.config import DataConfig
from trainer.data.augmentations.colours import recoloured
from trainer.data.augmentations.keys import key
from trainer.data.augmentations.rand_augment import rand_augment
from trainer.data.augmentations.view import Key, View
from trainer.data.source import Source

Augmentation = Callable[[View, float, Key], View]
"""Changes a view, given its option. Targets follow the motions that it adds."""
Patch = Callable[[int, float, Key], tf.Tensor]
"""Returns where and how another image covers one, float32 [5]: top, left, bottom and right in
pixels, and opacity from 0 to 1; given the size of the image, and its option."""

ERASED_AREA: Final = (0.02, 1 / 3)
"""Part of an image that is erased; with `ERASED_ASPECT` as in Zhong et al. 2017, but at most a
third."""
ERASED_ASPECT: Final = (0.3, 1 / 0.3)
"""Height over width of the erased part."""


def colour_jitter(view: View, strength: float, key: Key) -> View:
    """Change brightness, contrast and saturation by factors between 1 - strength and 1 + strength,
    and turn hues by up to a quarter of the strength, in turns.
    """
    change = tf.random.stateless_uniform([4], key("factors"), -strength, strength)
    brightness, contrast, saturation, _ = tf.unstack(1.0 + change)
    image = recoloured(view.image, brightness, contrast, saturation, pi / 2 * change[3])
    return view._replace(image=image)


def erase(view: View, probability: float, key: Key) -> View:
    """Fill a rectangle with random values (Zhong et al. 2017)."""
    image, size = view.image, view.image.shape[0]
    wanted, area, aspect, row, column = tf.unstack(
        tf.random.stateless_uniform([5], key("rectangle"))
    )
    area = (ERASED_AREA[0] + area * (ERASED_AREA[1] - ERASED_AREA[0])) * size**2
    low, high = (log(ratio) for ratio in ERASED_ASPECT)
    aspect = tf.exp(low + aspect * (high - low))
    sides = [tf.minimum(tf.round(tf.sqrt(area * part)), size) for part in (aspect, 1 / aspect)]
    place = tf.range(size, dtype=tf.float32)

    def inside(begin: tf.Tensor, side: tf.Tensor) -> tf.Tensor:
        begin = tf.floor(begin * (size - side + 1.0))
        return (place >= begin) & (place < begin + side)

    def erased() -> tf.Tensor:
        part = inside(row, sides[0])[:, None] & inside(column, sides[1])[None, :]
        count = image.shape.num_elements()
        # Four bytes of each number.
        noise = tf.random.stateless_uniform([-(-count // 4)], key("noise"), None, None, tf.uint32)
        noise = tf.reshape(tf.bitcast(noise, tf.uint8), [-1])[:count]
        return tf.where(part[:, :, None], tf.reshape(noise, image.shape), image)

    return view._replace(image=tf.cond(wanted < probability, erased, lambda: image))


def mixup(size: int, alpha: float, key: Key) -> tf.Tensor:
    """Return a patch as large as the image, with an opacity of Beta(alpha, alpha)
    (Zhang et al. 2017).
    """
    return tf.concat([[0.0, 0.0, size, size], [_beta(alpha, key)]], 0)


def cutmix(size: int, alpha: float, key: Key) -> tf.Tensor:
    """Return an opaque patch whose area is Beta(alpha, alpha) of the image, cut at its edges
    (Yun et al. 2019).
    """
    side = tf.sqrt(_beta(alpha, key)) * size
    centre = tf.random.stateless_uniform([2], key("centre"), 0.0, size)
    corners = tf.concat([centre - side / 2, centre + side / 2], 0)
    return tf.concat([tf.round(tf.clip_by_value(corners, 0.0, size)), [1.0]], 0)


def _beta(alpha: float, key: Key) -> tf.Tensor:
    """Draw from Beta(alpha, alpha), a float32 scalar."""
    # x / (x + y) of two gamma variates of alpha, from their logarithms, because a small alpha makes
    # them too small for a float64. A variate of alpha is one of alpha + 1 times a uniform number to
    # the power of 1 / alpha (Marsaglia and Tsang 2000).
    more = tf.random.stateless_gamma([2], key("beta"), alpha + 1, dtype=tf.float64)
    uniform = tf.random.stateless_uniform([2], key("powers"), dtype=tf.float64)
    logarithms = tf.math.log(more) + tf.math.log(1.0 - uniform) / alpha
    return tf.cast(tf.sigmoid(logarithms[0] - logarithms[1]), tf.float32)


AUGMENTATIONS: Final[Mapping[str, Augmentation]] = {
    "rand_augment": rand_augment,
    "colour_jitter": colour_jitter,
    "erase": erase,
}
"""Those of one image by the name of their option, in the order in which they are applied."""
PATCHES: Final[Mapping[str, Patch]] = {"mixup": mixup, "cutmix": cutmix}
"""Those that mix images by the name of their option. Of several, each image draws one."""


def augmented(image: tf.Tensor, source: Source, position: tf.Tensor) -> View:
    """Apply the augmentations of one image that a configuration asks for.

    Args:
        image: uint8 [size, size, 3].
        source: Split that the image is from.
        position: Position of the image.
    """
    view = View(image)
    for name, strength in _asked(AUGMENTATIONS, source.config):
        view = AUGMENTATIONS[name](view, strength, _key(source, name, position))
    return view


def drawn_patch(source: Source, position: tf.Tensor) -> dict[str, tf.Tensor]:
    """Return the `Patch` of the image at a position as an entry of a batch; none if images are not
    mixed.
    """
    drawn = [
        PATCHES[name](source.image_size, alpha, _key(source, name, position))
        for name, alpha in _asked(PATCHES, source.config)
    ]
    if not drawn:
        return {}
    chosen = tf.random.stateless_uniform(
        [], key(source.seed, "patch", position), 0, len(drawn), tf.int32
    )
    return {"patch": tf.stack(drawn)[chosen]}


def _asked(rows: Mapping[str, object], config: DataConfig) -> Iterator[tuple[str, float]]:
    return ((name, getattr(config, name)) for name in rows if getattr(config, name))


def _key(source: Source, name: str, position: tf.Tensor) -> Key:
    return partial(_named_key, source.seed, name, position)


def _named_key(seed: int, name: str, position: tf.Tensor, part: str) -> tf.Tensor:
    return key(seed, f"{name} {part}", position)
