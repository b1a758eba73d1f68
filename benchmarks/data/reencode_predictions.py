"""Predictions of an exported model on photographs and on the same photographs re-encoded."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.data.prepare.encode import encode, make_rules
from trainer.data.prepare.options import WriteOptions
from trainer.export.layout import FOLDER, find_saved_model

BATCH = 50


def count(run: str, folder: str, reencode: str) -> dict[str, int]:
    """Classify the photographs of FOLDER/CLASS/NUMBER.jpg, and count what the predictions are.

    Args:
        run: Folder of the run whose exported model predicts.
        folder: Folder of photographs.
        reencode: SHORT_SIDE:QUALITY, as in `prepare --reencode`.
    """
    rules = make_rules(WriteOptions(reencode=reencode))
    paths = sorted(Path(folder).glob("*/*.jpg"))
    originals = [path.read_bytes() for path in paths]
    shaped = [
        encode(data, path.name, rules).data for data, path in zip(originals, paths, strict=True)
    ]
    model = tf.saved_model.load(str(find_saved_model(Path(run) / FOLDER)))
    signature = model.signatures["serving_default"]

    def classes(images: list[bytes]) -> np.ndarray[Any, Any]:
        batches = [images[first : first + BATCH] for first in range(0, len(images), BATCH)]
        found = [signature(images=tf.constant(batch))["class_names"][:, 0] for batch in batches]
        return np.array([name.decode() for names in found for name in names.numpy()])

    whole, small = classes(originals), classes(shaped)
    truth = np.array([path.parent.name for path in paths])
    return {
        "images": len(paths),
        "same prediction": int(np.sum(whole == small)),
        "right on the original": int(np.sum(whole == truth)),
        "right on the re-encoded image": int(np.sum(small == truth)),
        "right only on the original": int(np.sum((whole == truth) & (small != truth))),
        "right only re-encoded": int(np.sum((small == truth) & (whole != truth))),
    }
