"""`python -m jobs tensorboard NAME`: curves of a run, read from blob storage while it trains.

TensorBoard runs in this process and reads through fsspec: the command line has no place to hand
it who asks and at which address.
"""

import sys
from dataclasses import dataclass
from threading import Event
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from common.errors import UserError
from common.fields import Bounds
from infra.outputs import Datastore, PlatformOutputs
from jobs.azure.results import artifact_folder, artifact_store
from jobs.azure.sign_in import async_credential
from jobs.azure.workspace import connect
from jobs.console import Console
from jobs.spec.job_spec import TENSORBOARD_DIR

PROTOCOL: Final = "abfs"


@dataclass(frozen=True)
class TensorboardOptions:
    """Serve TensorBoard for a run, live and without downloads; Ctrl-C ends it. NAME is the key of a
    run, and then shows all of its attempts, or the name of a job.
    """

    name: str = ""
    """Of the run or the job; the first argument."""

    port: Annotated[int, Bounds(at_least=0, at_most=65535)] = 6006
    """Of this machine; 0 is any free one."""

    host: str = "127.0.0.1"
    """Address to listen on; whoever reaches it sees the curves."""

    reload_seconds: Annotated[float, Bounds(above=0)] = 15.0
    """Pause between two looks for new points."""


def run(options: TensorboardOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Serve until interrupted."""
    if not options.name:
        raise UserError("tensorboard: name a run or a job; `python -m jobs list` shows them")
    workspace = connect(outputs)
    job = workspace.jobs.find(options.name)
    jobs = [job]
    if job.attempt is not None and options.name == job.run:
        jobs = list(workspace.jobs.attempts(job.run))
    store = artifact_store(workspace.manager, workspace.storage)
    _configure(store)
    folders = {shown.name: f"{artifact_folder(shown.name)}/{TENSORBOARD_DIR}" for shown in jobs}
    console = Console(as_json=as_json)
    return _serve(options, folders, store, console)


def file_system(store: Datastore) -> dict[str, Any]:
    """Arguments of the file system that reads a container. Pure.

    The host is what follows https://, a path included: that is how an address is given which does
    not begin with the account's name.
    """
    address = urlsplit(store.blob_endpoint)
    return {
        "account_name": store.account,
        "account_host": f"{address.netloc}{address.path}".rstrip("/"),
        "anon": False,
    }


def arguments(
    options: TensorboardOptions, folders: dict[str, str], store: Datastore
) -> dict[str, Any]:
    """TensorBoard's own. Pure."""
    urls = {name: f"{PROTOCOL}://{store.container}/{path}" for name, path in folders.items()}
    first = next(iter(urls.values()))
    named = ",".join(f"{name}:{url}" for name, url in urls.items())
    return {
        **({"logdir": first} if len(urls) == 1 else {"logdir_spec": named}),
        "host": options.host,
        "port": options.port,
        "load_fast": "false",
        "reload_interval": options.reload_seconds,
    }


def _configure(store: Datastore) -> None:
    import fsspec.config  # noqa: PLC0415

    fsspec.config.conf[PROTOCOL] = {**file_system(store), "credential": async_credential()}


def _serve(
    options: TensorboardOptions, folders: dict[str, str], store: Datastore, console: Console
) -> int:
    # Imported here, as they take seconds.
    from tensorboard import program  # noqa: PLC0415

    board = program.TensorBoard()
    board.configure(**arguments(options, folders, store))
    try:
        address = board.launch()
    except program.TensorBoardPortInUseError as error:
        raise UserError(
            f"tensorboard: port {options.port} of {options.host} is in use; give another one by"
            " --port, or 0 for any that is free"
        ) from error
    except program.TensorBoardServerException as error:
        raise UserError(
            f"tensorboard: cannot listen on {options.host}, port {options.port} ({error.msg});"
            " give others by --host and --port"
        ) from error
    console.answer(
        {"address": address, "jobs": list(folders)},
        f"{', '.join(folders)}: {address} (Ctrl-C ends it)",
    )
    try:
        # What serves is a thread that would not keep this process alive.
        Event().wait()
    except KeyboardInterrupt:
        print("ended", file=sys.stderr)
    return 0
