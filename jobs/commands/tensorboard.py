"""`python -m jobs tensorboard NAME`: training curves of a run, live from blob storage.

TensorBoard runs in this process and reads through fsspec, because its command line has no options
for a credential and an endpoint.
"""

import sys
from dataclasses import dataclass
from threading import Event
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from common.annotations import Bounds, Positional
from common.errors import UserError
from infra.outputs import Datastore, PlatformOutputs
from jobs.azure.results import artifact_folder, artifact_store
from jobs.azure.sign_in import async_credential
from jobs.azure.workspace import connect
from jobs.console import SHOWN, Console
from jobs.spec.job_spec import TENSORBOARD_DIR

PROTOCOL: Final = "abfs"


@dataclass(frozen=True)
class TensorboardOptions:
    """Serve TensorBoard for a run, live and without downloads, until Ctrl-C. NAME is the key of a
    run, to show all its attempts, or the name of a job.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run or name of the job."""

    port: Annotated[int, Bounds(at_least=0, at_most=65535)] = 6006
    """Port to listen on; 0 is any free port."""

    host: str = "127.0.0.1"
    """Address to listen on; anyone who can reach it can see the curves."""

    reload_seconds: Annotated[float, Bounds(above=0)] = 15.0
    """Pause between two checks for new data, in seconds."""


def run(options: TensorboardOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Serve until interrupted."""
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
    """Return the arguments of the file system that reads a container. Pure.

    The host is everything after https://, including a path, so that endpoints work that do not
    begin with the account's name.
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
    """Return TensorBoard's arguments. Pure."""
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
    # Imported here because the import takes seconds.
    from tensorboard import program  # noqa: PLC0415

    board = program.TensorBoard()
    board.configure(**arguments(options, folders, store))
    try:
        address = board.launch()
    except program.TensorBoardPortInUseError as error:
        raise UserError(
            f"tensorboard: port {options.port} of {options.host} is in use; pass another --port, or"
            " 0 for any free port"
        ) from error
    except program.TensorBoardServerException as error:
        raise UserError(
            f"tensorboard: cannot listen on {options.host}, port {options.port} ({error.msg});"
            " pass another --host or --port"
        ) from error
    console.answer(
        {"address": address, "jobs": list(folders)},
        f"{', '.join(folders)}: {address} (press Ctrl-C to stop)",
    )
    try:
        # The server is a daemon thread, which does not keep this process alive.
        Event().wait()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 0
