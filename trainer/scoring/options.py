"""Options of `ml-trainer score` and `ml-trainer serve`. Standard library only."""

from dataclasses import dataclass
from typing import Annotated, Literal

from common.annotations import Bounds
from trainer.config import NotNegative, Positive
from trainer.leaves import WorkersName


@dataclass(frozen=True)
class ScoreOptions:
    """Write the most probable classes of all images in a folder to files, with an exported model.
    If it is interrupted, the same command continues.
    """

    run: str = "runs/latest"
    """Folder of the run whose export is used."""

    model: str | None = None
    """Folder of an export to use instead of the run's."""

    input: str = ""
    """Folder that is searched at any depth for images (JPEG, PNG, WebP, BMP, GIF, TIFF), by their
    suffixes."""

    output: str = ""
    """Folder to write; may be a mounted data store."""

    format: Literal["parquet", "csv"] = "parquet"
    """Format of the files."""

    images_per_file: Annotated[int, Positive] = 1000
    """Images in one file, and the most that an interruption can cost each process."""

    part: Annotated[int | None, NotNegative] = None
    """Part of the files to write, from 0, if several machines share them; see --parts. None is the
    rank that mpirun gave this process, or 0."""

    parts: Annotated[int | None, Positive] = None
    """Number of machines that share the files, each with its own --part and the same other options.
    None is the number of processes that mpirun started, of which the first lists the images for all
    and ends last, or 1."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that predict, with one thread each; 0 is one per core. The result does not depend
    on it."""

    names: Literal["kept", "hashed"] = "kept"
    """Names of images in the scores: those of the files, or a keyed hash of them, as of `prepare`
    with the same key and the same paths in --input."""

    name_key: str | None = None
    """File with the key of hashed names; by default the environment variable TRAINER_NAME_KEY. It
    is written nowhere."""

    with_: WorkersName = "processes"
    """Where files are written: by processes of this machine, or by tasks of a cluster, which read
    and write the same folders, such as a mounted data store. The result does not depend on it."""

    paths = ("run", "model", "input", "output", "name_key")


@dataclass(frozen=True)
class ServeOptions:
    """Answer requests for the classes of images, with an exported model, until Ctrl-C. Needs
    `make serve`, which installs the server.
    """

    run: str = "runs/latest"
    """Folder of the run whose export is served."""

    model: str | None = None
    """Folder of an export to serve instead of the run's."""

    host: str = "127.0.0.1"
    """Address to listen on. The server does not ask who sends a request: 0.0.0.0 opens it to all
    who reach this machine."""

    port: Annotated[int, Bounds(at_least=1, at_most=65535)] = 5001
    """Port to listen on."""

    workers: Annotated[int, NotNegative] = 0
    """Processes that answer; 0 is one per core. Each loads the model."""

    timeout: Annotated[float, Positive] = 30.0
    """Longest pause of a client in the middle of its request, in seconds; then it is refused."""

    wait_ms: Annotated[float, Bounds(at_least=0, at_most=10)] = 10.0
    """Longest time that a call of the model waits for other requests that are being read, so that
    they share it, in milliseconds. A request that is alone waits for none. 0 calls the model for
    each request alone."""

    deadline: Annotated[float, Positive] = 30.0
    """Longest time that a request waits for its call of the model to begin, in seconds; then it is
    refused with status 503."""
