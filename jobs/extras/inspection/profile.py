"""`python -m jobs profile NAME`: record some steps of a running job, and download the profile."""

from dataclasses import dataclass
from typing import Annotated, Final

from common.annotations import Bounds, Positional
from common.errors import INTERRUPTED, UserError
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.azure.results import run_folder
from jobs.azure.storage import listed
from jobs.azure.workspace import Workspace, connect
from jobs.commands.download import DownloadOptions, Item, fetch_items
from jobs.console import SHOWN, Console, next_command
from jobs.extras.inspection.running_run import RunBlobs, find_running
from jobs.retry import StorageRetry
from jobs.transfer.blob_download import alone, targets
from trainer.distributed.run_requests import RunRequest, ask, read_profile

PROFILE: Final = "profile"
"""Folder of the trainer's profiles in a run's folder."""


@dataclass(frozen=True)
class ProfileOptions:
    """Record the next steps of a running training with TensorFlow's profiler on rank 0, and
    download the profile. The training continues, and its result does not change. NAME is the key of
    a run, which stands for its newest job, or the name of a job.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run or name of the job."""

    steps: Annotated[int, Bounds(at_least=1, at_most=100)] = 5
    """Number of steps to record; three to five are enough."""

    to: str | None = None
    """Folder to download to; None is runs/KEY, as of `download`."""

    wait_minutes: Annotated[float, Bounds(above=0)] = 10.0
    """Longest time until the profile is written, in minutes. Must cover an evaluation, as only
    training steps are recorded."""


def run(options: ProfileOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Ask rank 0 for a profile, wait until it is written, and download it."""
    workspace, console = connect(outputs), Console(as_json=as_json)
    job = find_running(workspace.jobs, options.name)
    console.note(f"{job.name}: asking rank 0 to record {plural(options.steps, 'step')}")
    files = RunBlobs(workspace, job)
    request = RunRequest("profile", options.steps)
    try:
        with workspace.storage.errors(files.store, writing=True):
            answers = list(ask(files, request, options.wait_minutes * 60, enough=1))
            if not answers:
                raise UserError(
                    f"{job.name}: rank 0 has written no profile within {options.wait_minutes:g}"
                    f" minutes; `{next_command('stacks', job.name)}` shows where it is"
                )
            answer = read_profile(answers[0][1])
            done = _download(workspace, DownloadOptions(job.run, options.to), console)
    except KeyboardInterrupt:
        console.note("interrupted; the training continues")
        return INTERRUPTED
    if done is None:
        return INTERRUPTED
    console.answer(
        {**done, "step": answer["step"]},
        f"{job.name}: recorded until step {answer['step']:,}; to view it, run:"
        f" make -C tools profile RUN={done['folder']}",
    )
    return 0


def _download(
    workspace: Workspace, options: DownloadOptions, console: Console
) -> dict[str, object] | None:
    retry = StorageRetry(options.retry_timeout_minutes * 60, console.note)
    storage = workspace.storage
    client = storage.container(storage.datastores.results, connections=options.threads, retry=retry)
    folder = f"{run_folder(options.run)}/{PROFILE}"
    blobs = listed(client, folder)
    items = [
        Item(client, f"{folder}/{name}", blobs[name], target)
        for name, target in targets(options.folder / PROFILE, blobs).items()
    ]
    with alone(options.folder):
        return fetch_items(options, items, console, retry)
