"""The OpenAPI document of the scoring server, from the model that it has loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = dict[str, Any]

KINDS: Final = ("image/jpeg", "image/png", "application/octet-stream")
"""Types of a body that is an image. The server looks at the image, and not at this type."""
CAUSES: Final[Mapping[str, str]] = {
    "400": "An image is empty or missing, or the JSON has another form.",
    "413": "There are too many images, or an image or the request is too large.",
    "415": "An image is of no known kind.",
    "422": "An image is damaged.",
    "503": "The service is busy; send the request again later.",
}


@dataclass(frozen=True)
class Limits:
    """The limits of a request."""

    images: int
    megabytes: int
    pixels: int
    """Of one image."""
    request_pixels: int
    """Of all images together."""


def document(
    name: str,
    version: str,
    result: Schema,
    outputs: Mapping[str, tuple[str, int]],
    limits: Limits,
    example: str,
) -> Schema:
    """Return the document.

    Args:
        name: Name of the model.
        version: Its version.
        result: Schema of the answer for an image.
        outputs: Type of numpy and number of dimensions of each output of the model, with that of
            the batch.
        limits: The limits of a request.
        example: A small image in base64.
    """
    image = record({"b64": {"type": "string", "contentEncoding": "base64", "minLength": 1}})
    named = record({"images": image})
    rows = {"type": "array", "minItems": 1, "maxItems": limits.images}
    schemas = {
        "Image": image,
        "Result": result,
        "Error": record({"error": {"type": "string"}}),
        "Images": {**rows, "items": {"anyOf": [_of("Image"), named]}},
        "Row": record(
            # Names of classes that are not an image's own come once for all images.
            {
                key: _array(kind, max(depth - 1, 1) if key == "class_names" else depth - 1)
                for key, (kind, depth) in outputs.items()
            }
        ),
        "Columns": record({key: _array(kind, depth) for key, (kind, depth) in outputs.items()}),
    }
    answers = {
        "single": _of("Result"),
        "several": record(
            {
                "images": {
                    "type": "array",
                    "items": {"allOf": [record({"image": {"type": "string"}}), _of("Result")]},
                }
            }
        ),
        "rows": record({"predictions": {"type": "array", "items": _of("Row")}}),
        "columns": record({"outputs": _of("Columns")}),
    }
    columns = record({"images": _of("Images")})
    binary = {"type": "string", "format": "binary"}
    bodies = {
        **{kind: {"schema": binary} for kind in KINDS},
        "multipart/form-data": {
            "schema": {"type": "object", "minProperties": 1, "additionalProperties": binary}
        },
        "application/json": {
            "schema": {
                "anyOf": [
                    record({"instances": _of("Images")}),
                    record({"inputs": {"anyOf": [_of("Images"), columns]}}),
                ]
            },
            "examples": {
                "rows": {"value": {"instances": [{"b64": example}]}},
                "columns": {"value": {"inputs": {"images": [{"b64": example}]}}},
            },
        },
    }
    headers = {
        header: {"schema": {"type": "string"}, "required": True}
        for header in ("X-Model-Name", "X-Model-Version")
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Model {name}",
            "version": version,
            "description": (
                f"Answers images, at most {limits.images} and {limits.megabytes} MB in a request,"
                f" each of at most {limits.pixels:,} pixels, and of"
                f" at most {limits.request_pixels:,} together."
            ),
        },
        "paths": {
            "/": {"get": {"summary": "Whether a worker is ready", "responses": {"200": _page()}}},
            "/openapi.json": {
                "get": {
                    "summary": "This document",
                    "responses": {"200": _json({"type": "object"}, "The document.")},
                }
            },
            "/score": {
                "get": {"summary": "A page to try the model", "responses": {"200": _page()}},
                "post": {
                    "summary": "Answer one image or several",
                    "requestBody": {"required": True, "content": bodies},
                    "responses": {
                        "200": {
                            **_json({"anyOf": list(answers.values())}, "The answers."),
                            "headers": headers,
                        },
                        **{status: _json(_of("Error"), why) for status, why in CAUSES.items()},
                    },
                },
            },
        },
        "components": {"schemas": schemas},
    }


def classes(number: str, more: Mapping[str, Schema] | None = None) -> Schema:
    """Return the schema of a list of classes with a number from 0 to 1.

    Args:
        number: Name of the number.
        more: Other fields.
    """
    # Rounding makes a probability of 1 a little more.
    part: Schema = {"type": "number", "minimum": 0, "maximum": 1.00001}
    fields: Schema = {
        "class_id": {"type": "integer"},
        "class_name": {"type": "string"},
        number: part,
    }
    return {"type": "array", "items": record({**fields, **(more or {})})}


def record(fields: Mapping[str, Schema]) -> Schema:
    """Return the schema of an object that has all of these fields."""
    return {"type": "object", "required": list(fields), "properties": dict(fields)}


def _of(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _array(kind: str, depth: int) -> Schema:
    types = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}
    schema: Schema = {"type": types.get(kind, "string")}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def _json(schema: Schema, description: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _page() -> Schema:
    return {"description": "Text.", "content": {"text/html": {"schema": {"type": "string"}}}}
