"""The scoring script of Azure Machine Learning's inference server, the same here and on Azure.

It needs an export (its SavedModel and export.json), and of the rest of this repository only the
module that decides how a file becomes pixels. A request is `POST /score` with

    one image:    the bytes of a JPEG, PNG, WebP, BMP, GIF or TIFF
    some images:  multipart/form-data, a file for each
    JSON:         {"instances": [{"b64": "..."}]} or {"inputs": {"images": [{"b64": "..."}]}}, as
                  TensorFlow Serving takes it

Whatever is wrong with a request is answered with a 4xx and a sentence, and one that waits too long
with 503. `GET /score` is a page to try the model with, and `GET /openapi.json` describes all of
this for programs. The server itself answers `GET /` once `init` has returned.

Environment variables: AZUREML_MODEL_DIR is the folder of the export, or one that contains it.
SCORE_MODEL_NAME and SCORE_MODEL_VERSION replace the run and the step in the headers of an answer.
SCORE_THREADS, SCORE_TIMEOUT, SCORE_MAX_IMAGES, SCORE_MAX_MB, SCORE_MAX_PIXELS,
SCORE_MAX_REQUEST_PIXELS, SCORE_WAIT_MS, SCORE_CALL_IMAGES, SCORE_MAX_WAITING and SCORE_DEADLINE
replace the numbers below.
"""

import base64
import html
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import batching
import detection
import flask
import multilabel
import numpy as np
import openapi
import segmentation
import tensorflow as tf
from azureml_inference_server_http.api.aml_request import AMLRequest, rawhttp
from azureml_inference_server_http.api.aml_response import AMLResponse
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from trainer.data.pixels import treatment

THREADS: Final = int(os.environ.get("SCORE_THREADS", "1"))
"""Threads of one TensorFlow operation; the server has a process for each core."""
TIMEOUT: Final = float(os.environ.get("SCORE_TIMEOUT", "30"))
"""Longest pause of a client in the middle of its request, in seconds."""
MAX_IMAGES: Final = int(os.environ.get("SCORE_MAX_IMAGES", "64"))
"""Most images in a request."""
MAX_MB: Final = int(os.environ.get("SCORE_MAX_MB", "32"))
"""Largest request, in MB (1,000,000 bytes)."""
MAX_PIXELS: Final = min(
    int(os.environ.get("SCORE_MAX_PIXELS", treatment.MAX_PIXELS)), treatment.MAX_PIXELS
)
"""Largest image, in pixels; the model itself accepts no larger ones than by default."""
MAX_REQUEST_PIXELS: Final = int(os.environ.get("SCORE_MAX_REQUEST_PIXELS", "200000000"))
"""Most pixels of all images of a request together: small files can decode to hundreds of MB each,
and a deadline counts only from when all of them are treated."""

WAIT_MS: Final = float(os.environ.get("SCORE_WAIT_MS", "10"))
"""Longest time that a call of the model waits for other requests that are being read, in
milliseconds; 0 calls the model for each request alone."""
LIMITS: Final = batching.Limits(
    wait=WAIT_MS / 1000,
    images=int(os.environ.get("SCORE_CALL_IMAGES", "32")),
    waiting=int(os.environ.get("SCORE_MAX_WAITING", "256")),
    deadline=float(os.environ.get("SCORE_DEADLINE", "30")),
)
"""When requests share a call of the model."""

TOO_LARGE: Final = f"the request has more than {MAX_MB} MB; send fewer images at once"

PIXEL: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel."""


Classify = Callable[[Sequence[bytes]], batching.Values]


@dataclass(frozen=True)
class Model:
    """The loaded model."""

    exported: Any
    """What `tf.saved_model.load` returned, which owns the weights."""
    values: Classify
    """Its function from encoded images, b of them, to named outputs [b, ...]."""
    batcher: batching.Batcher | None
    """What lets requests share calls of that function; None if each has its own."""
    headers: dict[str, str]
    """Headers of every answer: the model's name and version."""
    page: str
    """The page of `GET /score`."""
    document: openapi.Schema
    """The document of `GET /openapi.json`."""
    treatment: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `treat` that prepare an image as those that the model was trained on."""


@dataclass(frozen=True)
class Question:
    """A request that has been read."""

    images: Sequence[bytes]
    """Encoded images, from `read` on as the evaluation of the model saw such images."""
    names: Sequence[str]
    """What to call each image in an error."""
    form: str
    """Form of the answer: image, images, predictions or outputs."""


class RefusedError(Exception):
    """A request that is answered with a status of 4xx and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class NotFiniteError(RuntimeError):
    """Outputs that would be no answer: the model is at fault, not the request."""


_model: Model | None = None


def init() -> None:
    """Load the model and classify one image, so that no request waits for that.

    Raises:
        RuntimeError: There is no exported model, or its weights or its answers are not finite.
    """
    global _model  # noqa: PLW0603 - a process serves one
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    root = Path(os.environ["AZUREML_MODEL_DIR"])
    file = next(iter(sorted(root.rglob("saved_model.pb"))), None)
    if file is None:
        raise RuntimeError(f"{root}: has no saved_model.pb; name the folder of an export")
    exported = tf.saved_model.load(str(file.parent))
    signature = exported.signatures.get("serving_default")
    outputs = set(signature.structured_outputs) if signature else set()
    if "class_names" not in outputs or not outputs & ANSWERS.keys():
        raise RuntimeError(f"{file}: is not a model that `ml-trainer export` wrote")
    description = file.parent.parent / "export.json"
    facts = json.loads(description.read_text()) if description.is_file() else {}
    name = os.environ.get("SCORE_MODEL_NAME") or str(facts.get("run", "model"))
    version = os.environ.get("SCORE_MODEL_VERSION") or str(facts.get("step", "unknown"))

    def values(images: Sequence[bytes]) -> batching.Values:
        outputs = signature(images=tf.constant(images, tf.string))
        return {name: output.numpy() for name, output in outputs.items()}

    page = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    _model = Model(
        exported,
        values,
        batching.Batcher(values, LIMITS) if LIMITS.wait else None,
        {"X-Model-Name": name, "X-Model-Version": version},
        page.replace("MODEL", html.escape(f"{name}, version {version}")),
        _document(name, version, signature.structured_outputs),
        treatment.treatment_of(facts),
    )
    _check_finite(file.parent)
    answer(values, Question([PIXEL], ["pixel"], "image"))
    _serve_document()
    print(f"ready: {name}, version {version}, from {file.parent}")


def _check_finite(saved_model: Path) -> None:
    stored = tf.train.load_checkpoint(str(saved_model / "variables" / "variables"))
    for name, kind in sorted(stored.get_variable_to_dtype_map().items()):
        if kind.is_floating and not np.isfinite(stored.get_tensor(name)).all():
            raise RuntimeError(
                f"{saved_model}: values of {name} are not finite; use the export of another"
                " checkpoint"
            )


def _document(name: str, version: str, outputs: Mapping[str, Any]) -> openapi.Schema:
    """Describe the server with a model of these outputs."""
    known = {
        key: (output.dtype.as_numpy_dtype(0).dtype.kind if output.dtype != tf.string else "S",
              output.shape.rank)
        for key, output in outputs.items()
    }  # fmt: skip
    return openapi.document(
        name,
        version,
        next(result for output, (_, result) in ANSWERS.items() if output in outputs),
        known,
        openapi.Limits(MAX_IMAGES, MAX_MB, MAX_PIXELS, MAX_REQUEST_PIXELS),
        base64.b64encode(PIXEL).decode(),
    )


def _serve_document() -> None:
    """Let the server answer `GET /openapi.json`, which loads this script before it knows its
    routes. Without the server, as in a test, nothing is answered.
    """
    routes = sys.modules.get("azureml_inference_server_http.server.routes")
    if routes is not None:
        routes.main_blueprint.after_app_request(_name_methods)
        routes.main_blueprint.add_url_rule(
            "/openapi.json",
            view_func=lambda: AMLResponse(_model and _model.document, 200, json_str=True),
            endpoint="openapi",
            methods=["GET"],
        )


def _name_methods(response: Any) -> Any:
    """Name the methods of a path in a refusal of another one, as RFC 9110 (15.5.6) asks; the
    server's own refusal leaves them out.
    """
    refusal = flask.request.routing_exception
    if isinstance(refusal, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(sorted(refusal.valid_methods or ()))
    return response


@rawhttp  # type: ignore[untyped-decorator] # the server is in another environment
def run(request: AMLRequest) -> AMLResponse:
    """Answer a request."""
    assert _model is not None
    headers = _model.headers
    try:
        if request.method in ("GET", "HEAD"):
            return AMLResponse(_model.page, 200, headers | {"Content-Type": "text/html"})
        if request.method == "OPTIONS":
            return AMLResponse("", 200, headers)
        with _model.batcher.arriving() if _model.batcher else nullcontext(_model.values) as values:
            return AMLResponse(answer(values, read(request)), 200, headers, json_str=True)
    except RefusedError as error:
        status, sentence = error.status, str(error)
    except NotFiniteError as error:
        status, sentence = 500, str(error)
    except batching.BusyError as error:
        status, sentence = 503, f"the service is busy, {error}; send the request again later"
        headers = headers | {"Retry-After": "1"}
    except HTTPException as error:
        # Of the framework, while it reads the body.
        status, sentence = error.code or 400, str(error.description)
        if status == 413:
            sentence = TOO_LARGE
    return AMLResponse({"error": sentence}, status, headers, json_str=True)


def read(request: AMLRequest) -> Question:
    """Read the images of a request, and treat them as the evaluation did.

    Raises:
        RefusedError: This service does not answer such a request.
    """
    request.max_content_length = MAX_MB * 1_000_000
    if "gunicorn.socket" in request.environ:
        request.environ["gunicorn.socket"].settimeout(TIMEOUT)
    if request.mimetype == "multipart/form-data":
        files = [file for _, file in request.files.items(multi=True)]
        names = [file.filename or f"file {n}" for n, file in enumerate(files, 1)]
        question = Question([file.read() for file in files], names, "images")
    else:
        body = request.get_data()
        # A body without Content-Length is cut off at the limit.
        if len(body) >= request.max_content_length:
            raise RefusedError(413, TOO_LARGE)
        is_json = request.mimetype == "application/json"
        question = read_json(body) if is_json else Question([body], ["the image"], "image")
    if not 0 < len(question.images) <= MAX_IMAGES:
        raise RefusedError(
            413 if question.images else 400,
            f"the request has {len(question.images)} images; send 1 to {MAX_IMAGES}",
        )
    _check_pixels(question.images)
    named = zip(question.names, question.images, strict=True)
    return replace(question, images=[treated(name, image) for name, image in named])


def _check_pixels(images: Sequence[bytes]) -> None:
    """Check the sizes of all images by their headers, before any is decoded.

    Raises:
        RefusedError: Together they have too many pixels.
    """
    pixels = 0
    for image in images:
        # One that is not an image, or is too large itself, is refused with its name.
        with suppress(treatment.RejectedError):
            width, height = treatment.open_image(image).size
            pixels += width * height if width * height <= MAX_PIXELS else 0
    if pixels > MAX_REQUEST_PIXELS:
        raise RefusedError(
            413,
            f"the request has {pixels:,} pixels, more than {MAX_REQUEST_PIXELS:,}; send fewer"
            " images at once",
        )


def read_json(body: bytes) -> Question:
    """Read TensorFlow Serving's row form ("instances") or column form ("inputs").

    Raises:
        RefusedError: The body is neither.
    """
    try:
        data = json.loads(body)
        if "instances" in data:
            rows, form = data["instances"], "predictions"
        else:
            rows, form = data["inputs"], "outputs"
            rows = rows["images"] if isinstance(rows, dict) else rows
        images = [base64.b64decode(row.get("images", row)["b64"], validate=True) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RefusedError(
            400,
            'the body is not JSON of the form {"instances": [{"b64": "..."}]}, with each image as'
            f" base64 ({type(error).__name__}: {str(error)[:100]})",
        ) from error
    return Question(images, [f"image {number}" for number in range(len(images))], form)


def treated(name: str, image: bytes) -> bytes:
    """Return an encoded image as the evaluation saw it: upright, opaque and in 8 bits.

    Raises:
        RefusedError: It is empty, not an image, damaged, or too large.
    """
    try:
        more = _model.treatment if _model else {}
        return treatment.treat(image, MAX_PIXELS, **more).data
    except treatment.RejectedError as error:
        known = {treatment.UnknownFormatError: 415, treatment.TooManyPixelsError: 413}
        other = 422 if image else 400
        status = next((known[kind] for kind in known if isinstance(error, kind)), other)
        raise RefusedError(status, f"{name}: {error}") from error


def answer(classify: Classify, question: Question) -> dict[str, Any]:
    """Classify the images of a question.

    Raises:
        RefusedError: An image cannot be decoded; names all of these.
        BusyError: The request waited too long, or too many wait.
        NotFiniteError: An output is infinite or not a number, which JSON cannot hold.
    """
    try:
        values = classify(question.images)
    except tf.errors.InvalidArgumentError as error:
        damaged = [
            name
            for name, image in zip(question.names, question.images, strict=True)
            if not decodes(classify, image)
        ]
        raise RefusedError(
            422, f"{', '.join(damaged)}: cannot be decoded; the file is damaged"
        ) from error
    if not all(np.isfinite(each).all() for each in values.values() if each.dtype.kind == "f"):
        raise NotFiniteError(
            "the outputs of the model are not finite for these images; tell who deployed it"
        )
    values["class_names"] = np.char.decode(values["class_names"].astype("S"), "utf-8")
    if question.form == "outputs":
        return {"outputs": {name: value.tolist() for name, value in values.items()}}
    if question.form == "predictions":
        return {"predictions": [row_of(values, row) for row in range(len(question.images))]}
    results = next(read(values) for output, (read, _) in ANSWERS.items() if output in values)
    if question.form == "image":
        return results[0]
    named = zip(question.names, results, strict=True)
    return {"images": [{"image": name, **result} for name, result in named]}


def row_of(values: dict[str, Any], row: int) -> dict[str, Any]:
    """Return the outputs of one image, of which class names that are not an image's own are those
    of all.
    """
    return {
        name: (value if name == "class_names" and value.ndim == 1 else value[row]).tolist()
        for name, value in values.items()
    }


def classified(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the classes of each image, the most probable first."""
    columns = (values[key].tolist() for key in ("class_ids", "class_names", "probabilities"))
    return [
        {
            "classes": [
                {"class_id": number, "class_name": name, "probability": part}
                for number, name, part in zip(*row, strict=True)
            ]
        }
        for row in zip(*columns, strict=True)
    ]


Read = Callable[[dict[str, Any]], list[dict[str, Any]]]
ANSWERS: Final[Mapping[str, tuple[Read, openapi.Schema]]] = {
    "probabilities": (classified, openapi.record({"classes": openapi.classes("probability")})),
    "shares": (segmentation.answers, segmentation.RESULT),
    "boxes": (detection.answers, detection.RESULT),
    "class_probabilities": (multilabel.answers, multilabel.RESULT),
}
"""By the output that only models of a task have: what reads the outputs of such a model, and the
schema of its result for an image."""


def decodes(classify: Classify, image: bytes) -> bool:
    """Return whether the model can decode an image."""
    try:
        classify([image])
    except tf.errors.InvalidArgumentError:
        return False
    return True
