"""`python -m jobs score`: the classes of images, from an endpoint."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from common.annotations import Positional
from common.errors import ConfigError, UserError
from infra.outputs import PlatformOutputs
from jobs.azure.workspace import connect
from jobs.console import Console
from jobs.serving import scoring
from jobs.serving.endpoints import Endpoints


@dataclass(frozen=True)
class ScoreOptions:
    """Ask an endpoint for the classes of images. IMAGE is a file, or a folder that is searched for
    images.
    """

    images: Annotated[tuple[str, ...], Positional("IMAGE...")] = ()
    """Image files and folders."""

    endpoint: str = ""
    """Name of the endpoint."""

    deployment: str | None = None
    """Deployment that answers; None leaves it to the endpoint's traffic."""


def run(options: ScoreOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Print the classes of each image.

    Raises:
        UserError: There is no such endpoint or image, or a request failed.
    """
    problems = [] if options.endpoint else ["--endpoint: is missing"]
    problems += [] if options.images else ["IMAGE: name at least one image, or a folder"]
    if problems:
        raise ConfigError(problems)
    paths = scoring.find_images(options.images)
    workspace, console = connect(outputs), Console(as_json=as_json)
    endpoint = Endpoints(workspace.manager, console).get(options.endpoint)
    found = scoring.score(workspace.requests, endpoint, _read(paths), options.deployment)
    if as_json:
        document = [{"image": one.image, "classes": list(one.classes)} for one in found]
        console.answer(document, "")
        return 0
    for scored in found:
        console.say(scored.text)
    return 0


def _read(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        try:
            yield str(path), path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from error
