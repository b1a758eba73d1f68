"""The ways to which a run on own images is compared: those that people try in an afternoon."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Array = np.ndarray[Any, Any]
SIDE: Final = 64
"""Height and width to which images are resized, in pixels."""


def read(folder: Path) -> tuple[Array, Array, list[Path]]:
    """Read FOLDER/CLASS/FILE at `SIDE` pixels.

    Returns:
        Images, float32 [n, side, side, channels], 0 to 1 by the largest value of all files; classes
        by number, in the order of their names, int64 [n]; the files.
    """
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    files = [file for path in classes for file in sorted(path.iterdir())]
    labels = np.array([classes.index(file.parent) for file in files])
    return np.stack([_pixels(file) for file in files]), labels, files


def _pixels(file: Path) -> Array:
    pixels = np.asarray(Image.open(file))
    highest = 4095 if pixels.dtype == np.uint16 else 255
    bands = pixels[..., None] if pixels.ndim == 2 else pixels
    resized = [
        np.asarray(Image.fromarray(band).resize((SIDE, SIDE), Image.Resampling.BOX))
        for band in np.moveaxis(bands.astype(np.float32) / highest, 2, 0)
    ]
    return np.stack(resized, 2)


def trees(train: Array, labels: Array, test: Array, seed: int) -> Array:
    """Predict by 200 extremely randomized trees on pixels, with classes weighted equally."""
    forest = ExtraTreesClassifier(200, class_weight="balanced", random_state=seed, n_jobs=1)
    forest.fit(train.reshape(len(train), -1), labels)
    return np.asarray(forest.predict(test.reshape(len(test), -1)))


def components(train: Array, labels: Array, test: Array, seed: int) -> Array:
    """Predict by a logistic regression on 100 principal components of the pixels, with classes
    weighted equally.
    """
    model = make_pipeline(
        PCA(100, random_state=seed, svd_solver="randomized"),
        StandardScaler(),
        LogisticRegression(class_weight="balanced", max_iter=2000),
    )
    model.fit(train.reshape(len(train), -1), labels)
    return np.asarray(model.predict(test.reshape(len(test), -1)))


def keras(train: Array, labels: Array, test: Array, seed: int) -> Array:
    """Predict by three convolutions and `fit`, as in a first lesson: Adam, 15 epochs."""
    import tf_keras  # noqa: PLC0415 - the other ways need no TensorFlow
    from tf_keras import layers  # noqa: PLC0415

    tf_keras.utils.set_random_seed(seed)
    model = tf_keras.Sequential()
    for channels in (32, 64, 128):
        model.add(layers.Conv2D(channels, 3, padding="same", activation="relu"))
        model.add(layers.MaxPooling2D())
    model.add(layers.Flatten())
    model.add(layers.Dense(128, activation="relu"))
    model.add(layers.Dropout(0.5))
    model.add(layers.Dense(int(labels.max()) + 1))
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    model.fit(train, labels, batch_size=32, epochs=15, verbose=0)
    return np.asarray(np.argmax(model.predict(test, verbose=0), 1))


OTHERS: Final[Mapping[str, Callable[[Array, Array, Array, int], Array]]] = {
    "trees": trees,
    "components": components,
    "keras": keras,
}
"""Functions of training images, their classes, test images and a seed, to the classes of these."""
