"""`python -m jobs debug NAME`: how to get into the nodes of a running job."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from common.annotations import Bounds, Positional
from common.errors import INTERRUPTED, UserError
from common.text import duration, plural
from common.waiting import wait_until
from infra.outputs import PlatformOutputs
from jobs.azure.job_records import Job
from jobs.azure.workspace import Workspace, connect
from jobs.console import SHOWN, Console, next_command
from jobs.extras.inspection.running_run import RunBlobs, find_running
from trainer.distributed.run_requests import DEBUG, DEBUG_PORT, HELD, RunRequest

_POLL_SECONDS: Final = 2.0
_WEB: Final = {"JupyterLab": "JupyterLab", "VSCode": "VS Code", "TensorBoard": "TensorBoard"}
"""Kinds of service that have an address to open, with their names."""


@dataclass(frozen=True)
class DebugOptions:
    """Show how to log in to the nodes of a running job that was submitted with --debug: SSH,
    JupyterLab, VS Code, and a rank that waits for a debugger. NAME is the key of a run, which
    stands for its newest job, or the name of a job. Only its owner can get in.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run or name of the job."""

    release: bool = False
    """End a job whose nodes are kept after a failure (--hold-on-failure), with its status."""

    wait_minutes: Annotated[float, Bounds(above=0)] = 5.0
    """Longest time to wait for the end of a job that is released, in minutes."""


def run(options: DebugOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Print the ways into a job, or release it."""
    workspace, console = connect(outputs), Console(as_json=as_json)
    job = find_running(workspace.jobs, options.name, any_kind=True)
    try:
        if options.release:
            return _release(workspace, job, options.wait_minutes * 60, console)
        held = _held(workspace, job)
        # Reading the addresses needs the network of the workspace, as using them does.
        nodes = [workspace.jobs.services(job.name, node) for node in range(job.nodes)]
    except KeyboardInterrupt:
        return INTERRUPTED
    now = workspace.manager.now()
    lines = [f"{job.name}: {plural(job.nodes, 'node')} of {job.cluster}"]
    lines += [_until(rank, now) for rank in held]
    if not any(nodes):
        raise UserError("\n".join([_closed(job), *lines[1:]]))
    lines += [
        f"  node {node}: {_way(service, job, node, outputs)}"
        for node, services in enumerate(nodes)
        for service in services.values()
    ]
    lines += _debugger(job, outputs)
    document = {"job": job.name, "nodes": nodes, "held": held}
    console.answer(document, "\n".join(lines))
    return 0


def _held(workspace: Workspace, job: Job) -> list[dict[str, Any]]:
    """Return which ranks of a job have failed, and until when their nodes are kept."""
    files = RunBlobs(workspace, job)
    with workspace.storage.errors(files.store):
        held = [json.loads(content) for content in files.read(HELD, ()).values()]
    # A job that was cancelled leaves its files.
    return [rank for rank in held if rank["job"] == job.name]


def _until(held: Mapping[str, Any], now: datetime) -> str:
    until = datetime.fromisoformat(held["until"])
    left = duration(max((until - now).total_seconds(), 0.0))
    return (
        f"  rank {held['rank']} failed with status {held['status']}; its node is kept until"
        f" {until:%H:%M:%S} UTC, for {left}"
    )


def _way(service: Mapping[str, Any], job: Job, node: int, outputs: PlatformOutputs) -> str:
    kind, address = str(service.get("type")), service.get("endpoint")
    if service.get("error"):
        return f"{kind} failed: {service['error']}"
    if kind == "SSH":
        return _ssh(job, node, outputs)
    if not address:
        return f"{kind} has no address yet (status {service.get('status')}); try again in a minute"
    return f"{_WEB.get(kind, kind)}: {address}"


def _ssh(job: Job, node: int, outputs: PlatformOutputs, *more: str) -> str:
    return shlex.join(
        [
            *("az", "ml", "job", "connect-ssh", "--name", job.name, "--node-index", str(node)),
            *("--private-key-file-path", "~/.ssh/id_ed25519"),
            *("--workspace-name", outputs.workspace, "--resource-group", outputs.resource_group),
            *("--subscription", outputs.subscription_id, *more),
        ]
    ).replace("'~/.ssh/id_ed25519'", "~/.ssh/id_ed25519")


def _debugger(job: Job, outputs: PlatformOutputs) -> list[str]:
    """Say how to attach to the rank that waits for a debugger, if one does."""
    if DEBUG not in (job.body.get("environmentVariables") or {}):
        return []
    forward = f"-L {DEBUG_PORT}:127.0.0.1:{DEBUG_PORT}"
    return [
        "  rank 0 waits before its first step until a debugger attaches. Forward its port:",
        f"    {_ssh(job, 0, outputs, '--ssh-args', forward)}",
        f"  then attach to 127.0.0.1, port {DEBUG_PORT} (VS Code: Python Debugger, Remote Attach)",
    ]


def _closed(job: Job) -> str:
    again = next_command("submit", "--name", job.run, "--debug")
    return (
        f"{job.name}: offers no way in; it was submitted without --debug, or its services have not"
        " started yet, which takes some minutes\n"
        f"without one, `{next_command('stacks', job.name)}` prints where its ranks are, and"
        f" `{next_command('profile', job.name)}` records some steps; to get in, cancel it and"
        f" submit it again with its options and --debug: `{again} ...` resumes the run"
    )


def _release(workspace: Workspace, job: Job, seconds: float, console: Console) -> int:
    held = _held(workspace, job)
    if not held:
        raise UserError(
            f"{job.name}: is not kept after a failure, so there is nothing to release;"
            f" `{next_command('cancel', job.name)}` cancels it"
        )
    files, request = RunBlobs(workspace, job), RunRequest("release")

    def ended() -> Job | None:
        now = workspace.jobs.get(job.name)
        return now if now is not None and now.ended else None

    with workspace.storage.errors(files.store, writing=True):
        files.create(request.file)
        try:
            now = wait_until(ended, seconds, _POLL_SECONDS)
        finally:
            files.remove(request.file)
    if now is None:
        raise UserError(
            f"{job.name}: has not ended within {duration(seconds)};"
            f" `{next_command('cancel', job.name)}` cancels it"
        )
    console.answer({"job": job.name, "status": now.status}, f"{job.name}: {now.status}")
    return 0
