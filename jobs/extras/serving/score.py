"""`python -m jobs score`: requests to an endpoint, images in, classes out."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

from common.annotations import Positional, Required
from common.errors import UserError
from common.image_files import find_images
from infra.outputs import PlatformOutputs
from jobs.azure.requests import Requests, well_formed
from jobs.azure.workspace import connect
from jobs.console import Console
from jobs.errors import AccessError, OddAnswerError, RequestError
from jobs.extras.serving.endpoints import Endpoints, EndpointState

SCOPE: Final = "https://ml.azure.com/.default"
"""Scope of tokens for endpoints ("Authenticate clients for online endpoints")."""
DEPLOYMENT: Final = "azureml-model-deployment"
"""Header that names the deployment which answers, whatever the traffic is."""
THREADS: Final = 4
"""Requests at the same time."""
BATCH: Final = 64
"""Images that are in memory at the same time, a multiple of `THREADS`."""


@dataclass(frozen=True)
class ScoreOptions:
    """Ask an endpoint for the classes of images. IMAGE is a file, or a folder that is searched for
    images.
    """

    images: Annotated[
        tuple[str, ...], Positional("IMAGE..."), Required("name at least one image, or a folder")
    ] = ()
    """Image files and folders."""

    endpoint: Annotated[str, Required()] = ""
    """Name of the endpoint."""

    deployment: str | None = None
    """Deployment that answers; None leaves it to the endpoint's traffic."""


@dataclass(frozen=True)
class Scored:
    """Classes of an image."""

    image: str
    classes: Sequence[Mapping[str, Any]]
    """`class_id`, `class_name` and `probability` (or `share`), the most probable first."""

    @property
    def text(self) -> str:
        """The image with its most probable class."""
        best = self.classes[0] if self.classes else {"class_name": "none"}
        part = best.get("probability", best.get("share"))
        return f"{self.image}: {best['class_name']}" + (
            f" ({part:.1%})" if part is not None else ""
        )


def run(options: ScoreOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Print the classes of each image.

    Raises:
        UserError: There is no such endpoint or image, or a request failed.
    """
    images = find_images(options.images)
    workspace, console = connect(outputs), Console(as_json=as_json)
    if images.note:
        console.note(images.note)
    endpoint = Endpoints(workspace.manager, console).get(options.endpoint)
    answers = score(workspace.requests, endpoint, _read(images.paths), options.deployment)
    if as_json:
        document = [{"image": scored.image, "classes": list(scored.classes)} for scored in answers]
        console.answer(document, "")
        return 0
    for scored in answers:
        console.say(scored.text)
    return 0


def read_expected(path: Path) -> dict[Path, int]:
    """Read which class each image must have: the output of `trainer predict --json True`.

    Returns:
        Class ids by image.

    Raises:
        UserError: The file is missing or of another form.
    """
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
        expected = {Path(line["image"]): int(line["classes"][0]["class_id"]) for line in lines}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"{path}: is not the output of `ml-trainer predict --json True` ({error})"
        ) from error
    if not expected:
        raise UserError(f"{path}: names no images")
    return expected


def score(
    requests: Requests,
    endpoint: EndpointState,
    images: Iterable[tuple[str, bytes]],
    deployment: str | None,
) -> Iterator[Scored]:
    """Ask an endpoint for the classes of images, and yield the answers in their order. At most
    `BATCH` images are in memory at the same time.

    Args:
        requests: Sends the requests.
        endpoint: The endpoint.
        images: Names and encoded images, read as they are needed.
        deployment: Deployment that answers; None leaves it to the endpoint's traffic.

    Raises:
        RequestError: A request failed, with the reason that the server gave.
    """

    def ask(item: tuple[str, bytes]) -> Scored:
        return _score_one(requests, endpoint, *item, deployment)

    left = iter(images)
    with ThreadPoolExecutor(THREADS) as pool:
        while batch := list(islice(left, BATCH)):
            yield from pool.map(ask, batch)


def _score_one(
    requests: Requests, endpoint: EndpointState, name: str, image: bytes, deployment: str | None
) -> Scored:
    if not endpoint.address:
        raise RequestError(
            f"endpoint {endpoint.name}: has no address; its state is {endpoint.state}"
        )
    headers = {"Content-Type": "application/octet-stream"}
    if deployment is not None:
        headers[DEPLOYMENT] = deployment
    try:
        response = requests.post_content(endpoint.address, image, headers, SCOPE)
    except AccessError as error:
        raise AccessError(
            f"{error}\nto call endpoint {endpoint.name}, a role with the action"
            " Microsoft.MachineLearningServices/workspaces/onlineEndpoints/score/action is needed,"
            " such as AzureML Data Scientist",
            error.status,
        ) from error
    except RequestError as error:
        raise type(error)(f"{name}: {error}", error.status) from error
    with well_formed(f"endpoint {endpoint.name}"):
        answer = json.loads(response.content)
        scored = Scored(name, answer["classes"])
        if not scored.classes or any("class_name" not in entry for entry in scored.classes):
            raise OddAnswerError(f"endpoint {endpoint.name}: answered {name} without classes")
    return scored


def _read(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        try:
            yield str(path), path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from error
