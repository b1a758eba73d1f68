"""The scoring script's answers with a model that segments images."""

import base64
from typing import Any

import openapi
import tensorflow as tf

RESULT = openapi.record(
    {
        "classes": openapi.classes("share"),
        "mask": {"type": "string", "contentEncoding": "base64"},
    }
)
"""Schema of the answer for an image."""


def answers(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the classes in each image with their parts of its pixels, largest first, and its mask
    as a grey PNG in base64.
    """
    results = []
    for shares, mask in zip(values["shares"], values["masks"], strict=True):
        order = (-shares).argsort(kind="stable")
        classes = [
            {"class_id": int(number), "class_name": name, "share": float(shares[number])}
            for number, name in zip(order, values["class_names"][order].tolist(), strict=True)
            if shares[number] > 0
        ]
        png = tf.io.encode_png(mask[..., None]).numpy()
        results.append({"classes": classes, "mask": base64.b64encode(png).decode()})
    return results
