"""The scoring script's answers with a model of several classes per image."""

from typing import Any

import openapi

RESULT = openapi.record(
    {"classes": openapi.classes("probability", {"present": {"type": "boolean"}})}
)
"""Schema of the answer for an image."""


def answers(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all classes of each image, the most probable first: class, probability, and whether
    the image is said to have it.
    """
    names = values["class_names"].tolist()
    rows = zip(values["class_probabilities"], values["present"].tolist(), strict=True)
    return [
        {
            "classes": [
                {
                    "class_id": int(number),
                    "class_name": names[number],
                    "probability": float(probabilities[number]),
                    "present": present[number],
                }
                for number in (-probabilities).argsort(kind="stable")
            ]
        }
        for probabilities, present in rows
    ]
