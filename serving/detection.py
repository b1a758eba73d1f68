"""The scoring script's answers with a model that detects objects."""

from typing import Any

import openapi

_BOX = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
RESULT = openapi.record({"objects": openapi.classes("score", {"box": _BOX})})
"""Schema of the answer for an image."""


def answers(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects in each image, the highest score first: class, score and box, which is
    left, top, right and bottom as fractions of the image.
    """
    columns = (values[key].tolist() for key in ("class_ids", "class_names", "boxes", "scores"))
    return [
        {
            "objects": [
                {"class_id": number, "class_name": name, "score": score, "box": box}
                for number, name, box, score in zip(*row, strict=True)
                if score > 0
            ]
        }
        for row in zip(*columns, strict=True)
    ]
