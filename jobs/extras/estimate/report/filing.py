"""What makes the page of a plan evidence: commit, date, quota and earlier runs."""

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from common.errors import UserError
from common.prices import UNKNOWN
from infra.outputs import PlatformOutputs
from jobs.console import Console
from jobs.errors import MissingError
from jobs.extras.estimate.report.page import Filing
from jobs.spec.from_options import REPOSITORY

if TYPE_CHECKING:
    from jobs.azure.workspace import Workspace

_EARLIER: Final = 5
"""Newest runs whose estimates are compared on the page."""


def connect(outputs: PlatformOutputs) -> "Workspace":
    """Connect to the workspace of a stack."""
    # Azure's libraries take seconds to import, and plans without a stack need none.
    from jobs.azure import workspace  # noqa: PLC0415

    return workspace.connect(outputs)


def file(command: str, outputs: PlatformOutputs | None, console: Console) -> Filing:
    """Return what makes the page evidence: date, commit, command, stack, quota, earlier runs."""
    commit = _commit()
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    filing = Filing(now, commit, command, outputs.stack if outputs else None)
    if outputs is None:
        return filing
    try:
        return replace(filing, quota=_quota(outputs), fared=tuple(_earlier(outputs)))
    except UserError as error:
        console.note(f"quota and earlier runs are not known: {str(error).splitlines()[0]}")
        return filing


def _commit() -> str:
    """Return the commit of the repository, with `-dirty` if files were changed since."""
    git = shutil.which("git")
    if git is None:
        return UNKNOWN
    words = [git, "-C", str(REPOSITORY), "describe", "--always", "--dirty"]
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return told or UNKNOWN


def _quota(outputs: PlatformOutputs) -> dict[str, str]:
    """Return whether the quota is enough for all nodes of the clusters that train, by size."""
    from jobs.azure import clusters  # noqa: PLC0415
    from jobs.azure.requests import segment  # noqa: PLC0415

    manager, found = connect(outputs).manager, {}
    for cluster in outputs.clusters.values():
        if cluster.duty == "train":
            nodes = clusters.read_nodes(manager.get(f"computes/{segment(cluster.name)}"))
            missing = clusters.missing_cores(manager, nodes, cluster.max_nodes)
            enough = f"enough for {cluster.max_nodes} nodes, {cluster.priority}"
            unknown = "Azure does not report it"
            found[cluster.size] = (
                unknown if missing is None else "; ".join(missing) if missing else enough
            )
    return found


def _earlier(outputs: PlatformOutputs) -> Iterable[str]:
    """Yield how the estimates of the newest completed runs fared."""
    from jobs.extras.estimate.outcome import about_run, compared_runs  # noqa: PLC0415

    workspace = connect(outputs)
    jobs = workspace.jobs.newest_first(archived=False)
    keys = dict.fromkeys(job.run for job in jobs if job.kind == "train")
    newest = list(keys)[:_EARLIER]
    for key in newest:
        try:
            (run,) = compared_runs(workspace, outputs, [key])
        except MissingError:
            continue
        line = about_run(run, outputs)
        if line is not None:
            yield line
