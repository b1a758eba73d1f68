"""The commands of leaves in the fault matrix: pipelines, scaling."""

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from common.program import REPORTED, report
from jobs.extras.pipelines import backend, comment
from jobs.extras.pipelines.backend import BackendOptions
from jobs.extras.pipelines.comment import CommentOptions
from jobs.extras.pipelines.declaration import WORKFLOWS, StateNames
from jobs.throughput import FILE, read
from tests.infra.support.stacks import file_of
from tests.jobs.faults.github import VARIABLES
from tests.jobs.faults.trial import Trial

if TYPE_CHECKING:
    from tests.jobs.faults.scenarios import Scenarios

_MADE: Final = {
    "Microsoft.Storage/storageAccounts/blobServices/containers": 1,
    "Microsoft.KeyVault/vaults/keys": 1,
    "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials": 1,
    "Microsoft.Authorization/roleAssignments": 4,
}
"""How many resources `backend` makes for one identity, of the kinds that are made last."""
_STATE: Final = "00000000-0000-4000-8000-0000000000b0"
"""Subscription of Pulumi's state."""
_TINY: Final = ("--model.depth", "18", "--model.width", "4", "--model.image-size", "8")
_POINT: Final = b"".join(
    json.dumps(line).encode() + b"\n"
    for line in (
        {"event": "start", "step": 0, "ranks": 2, "time": 0.0, "environment": {}},
        {"event": "train", "step": 5, "images_per_second": 90.0},
        {"event": "train", "step": 10, "images_per_second": 100.0},
    )
)
"""Events of a job that measures."""


def _run(command: Callable[[], int], variables: Mapping[str, str]) -> Callable[[], int]:
    """Return a function that runs a command as the command line does."""

    def run() -> int:
        try:
            with patch.dict(os.environ, variables):
                return command()
        except REPORTED as error:
            return report(error)

    return run


def set_up_backend(world: "Scenarios") -> Trial:
    """Set up the place of Pulumi's state, and an identity of the workflows."""
    names = StateNames("hvd", _STATE)
    for document in world.azure.resources.below(f"/subscriptions/{_STATE}"):
        world.azure.resources.discard(document["id"])
    # The blob server learns of an account by starting again, by the real clock.
    world.azure.azurite.add_account(names.account)
    world.azure.azurite.ensure(names.account)
    settings = world.folder / "Pulumi.backend.yaml"
    settings.write_text(file_of("dev").read_text())
    options = BackendOptions(
        repository="team/platform",
        subscription=_STATE,
        tenant=world.azure.options.tenant_id,
        yes=True,
    )

    def problem() -> str | None:
        resources = world.azure.resources
        account = resources.get(names.account_id)
        if account is None or account["properties"]["allowSharedKeyAccess"] is not False:
            return "no account without keys"
        place = f"/subscriptions/{_STATE}"
        made = {kind: len(resources.of_kind(kind, place)) for kind in _MADE}
        return None if made == _MADE else f"made {made}"

    def command() -> int:
        # The others send the same requests.
        with patch.object(backend, "WORKFLOWS", {"jobs": WORKFLOWS["jobs"]}):
            return backend.run(options, as_json=False, stack="dev")

    return Trial(_run(command, {"PULUMI_OPTION_CONFIG_FILE": str(settings)}), problem)


def write_comment(world: "Scenarios") -> Trial:
    """Write a preview as a comment on a pull request."""
    page = world.folder / "preview.md"
    page.write_text("<!-- preview of dev -->\nNothing changes.\n")
    options = CommentOptions(page=str(page), pull_request=7)

    def problem() -> str | None:
        written = list(world.azure.github.comments.values())
        return None if written == [page.read_text()] else f"{len(written)} comments"

    command = _run(lambda: comment.run(options, as_json=False, stack=None), VARIABLES)
    return Trial(command, problem)


def measure(world: "Scenarios") -> Trial:
    """Measure images/s on one node of the CPU cluster."""
    key = world.key("scaling")
    world.azure.left["metrics.jsonl"] = _POINT
    folder = world.folder / key
    given = ("--nodes", "1", "--series", "cpu", "--poll-seconds", "10", "--yes", "--even-if-poor")
    run = world.command("scaling", *given, words=_TINY, name=key, folder=str(folder))

    def problem() -> str | None:
        file = folder / "dev" / key / FILE
        points = read(file) if file.exists() else []
        return None if points and points[-1].rates == (100.0,) else f"measured {points}"

    def damage() -> str | None:
        jobs = world.azure.resources.below(world.live.workspace, f"/jobs/{key}-")
        return "a second job" if len(jobs) > 1 else None

    return Trial(run, problem, damage, told=lambda said: "cpu, 1 node, synthetic: " in said)


ALL: Final[Mapping[str, Callable[["Scenarios"], Trial]]] = {
    "backend": set_up_backend,
    "comment": write_comment,
    "scaling": measure,
}
"""Functions that prepare a command, by its name in the table."""
