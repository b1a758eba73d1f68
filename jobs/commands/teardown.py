"""`python -m jobs teardown`: everything of a stack away, so that it can be made again.

It may be given again after any interruption. `jobs.pulumi.teardown_steps` has the steps.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

from common.errors import INTERRUPTED, ConfigError, UserError
from common.fields import Bounds
from infra.outputs import PlatformOutputs
from jobs.azure.workspace import connect
from jobs.console import Console, confirm
from jobs.errors import NotDeployedError
from jobs.pulumi import cluster_teardown
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.leftover_resources import AzureResources, Leftover
from jobs.pulumi.state import StackResource
from jobs.pulumi.teardown_record import TeardownRecord
from jobs.pulumi.teardown_steps import Teardown

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_GROUP: Final = "azure-native:resources:ResourceGroup"


@dataclass(frozen=True)
class TeardownOptions:
    """Delete the platform of a stack with all data, checkpoints and models in it. It is safe to
    repeat, and ends with what is left, which should be nothing. With --cluster, delete one cluster.
    """

    cluster: str | None = None
    """Only this cluster, by its name or by what it is for (gpu, gpu_dedicated, preparation, build),
    and nothing else. `up --refresh True` makes it again, as with another size."""

    yes: bool = False
    """Do not ask."""

    wait_minutes: Annotated[float, Bounds(above=0)] = 60.0
    """Longest time for each of: jobs to end, clusters, workspace and vault to be gone."""

    poll_seconds: Annotated[float, Bounds(above=0)] = 5.0
    """Pause between two looks."""


class ProtectedError(UserError):
    """The stack holds resources that are not to be deleted by the way."""


class UnknownError(UserError):
    """The platform is there, but Pulumi does not know it."""


def run(
    options: TeardownOptions,
    outputs: PlatformOutputs | None,
    *,
    as_json: bool,
    stack: str | None = None,
    repository: Path = REPOSITORY,
) -> int:
    """Tear a stack down, and print what was done and what is left.

    Args:
        options: of the command.
        outputs: of the stack; None if Pulumi has none any more, as after an interruption.
        as_json: whether a program reads the answer.
        stack: its name for Pulumi, if a person has given it.
        repository: folder of Pulumi.yaml.

    Returns:
        Exit status: 0 if nothing is left (or the one cluster is gone), 1 if something is, 130
        after Ctrl-C.

    Raises:
        UserError: protected resources, a platform that Pulumi does not know, or a step that failed.
    """
    console = Console(as_json=as_json)
    name = outputs.stack if outputs else _short(stack or "dev")
    pulumi, record = Pulumi(repository, stack or name), TeardownRecord(repository, name)
    if outputs is None and options.cluster is not None:
        raise NotDeployedError(f"stack {name}: exports nothing, so it has no cluster to delete")
    if outputs is None and not record.is_there:
        pulumi.check()
        if not pulumi.resources():
            text = f"stack {name}: nothing is left; its state is empty, no teardown is unfinished"
            console.answer(_document(name, [], []), text)
            return 0
    known = outputs or record.read()
    if stack is not None and _short(stack) != known.stack:
        raise ConfigError([f"--stack: {stack!r}, but the outputs are those of {known.stack!r}"])
    workspace = connect(known)
    manager, jobs = workspace.manager, workspace.jobs
    in_azure = AzureResources(manager, known)
    teardown = Teardown(
        manager, jobs, in_azure, pulumi, console, options.wait_minutes * 60, options.poll_seconds
    )
    try:
        resources = pulumi.resources()
        check_same(manager.group_id, resources)
        if options.cluster is not None:
            return cluster_teardown.remove(
                options.cluster,
                known.stack,
                manager,
                jobs,
                resources,
                teardown,
                console,
                ask=not options.yes,
            )
        check_protected(pulumi.stack, resources)
        check_known(
            in_azure,
            manager.group_id,
            known,
            pulumi.stack,
            resources,
            begun=record.has_begun(known),
        )
        # With neither resources nor a group nothing can be lost any more; names are to be freed.
        if not options.yes and (resources or in_azure.has_group()):
            running = jobs.running() if in_azure.has_workspace() else []
            confirm(known.stack, _warning(known, len(resources), len(running)), console)
        record.write(known)
        teardown.run(resources)
        leftovers = [*in_azure.leftovers(), *teardown.leftovers_of_state()]
    except KeyboardInterrupt:
        console.note(
            f"interrupted; done: {'; '.join(teardown.done) or 'nothing'}\nto go on, give the same"
            " command again: what is done is not missed"
        )
        return INTERRUPTED
    if not leftovers:
        record.remove()
    console.answer(_document(known.stack, teardown.done, leftovers), _words(known.stack, leftovers))
    return 1 if leftovers else 0


def check_protected(stack: str, resources: Sequence[StackResource]) -> None:
    """Stop before anything is deleted if not all of it may be.

    Raises:
        ProtectedError: some resources are protected.
    """
    names = [resource.name for resource in resources if resource.protected]
    if names:
        raise ProtectedError(
            f"stack {stack}: {len(names)} resources are protected ({', '.join(names)}), so nothing"
            " was deleted. They hold what cannot be made again: training data, results, keys. If"
            " they are to go as well, say so first, as a step of its own:\n"
            f"  pulumi state unprotect --all --stack {stack}\n"
            "and then give the same command again"
        )


def check_same(group: str, resources: Sequence[StackResource]) -> None:
    """Stop if outputs and state are of two platforms.

    Args:
        group: id of the resource group that the outputs name.
        resources: what the state holds.

    Raises:
        UserError: the state has another group.
    """
    for resource in resources:
        if resource.kind == _GROUP and resource.id.lower() != group.lower():
            raise UserError(
                f"the outputs are of {group}, but Pulumi's stack has {resource.id}; nothing was"
                " deleted. Leave --outputs and JOBS_OUTPUTS out, so that the stack's own are read"
            )


def check_known(
    in_azure: AzureResources,
    group: str,
    outputs: PlatformOutputs,
    stack: str,
    resources: Sequence[StackResource],
    *,
    begun: bool,
) -> None:
    """Stop if the platform is there and Pulumi knows nothing of it, nor what is protected.

    Args:
        in_azure: what is there.
        group: id of the resource group.
        outputs: of the stack.
        stack: its name for Pulumi.
        resources: what the state holds.
        begun: whether a teardown of this platform was begun here. It has purged the workspace
            before Pulumi forgets anything, so it explains a group, and never a live workspace.

    Raises:
        UnknownError: that is so.
    """
    prefix = f"{group.lower()}/"
    if any(f"{resource.id.lower()}/".startswith(prefix) for resource in resources):
        return
    if in_azure.has_workspace():
        what = f"workspace {outputs.workspace} is there"
    elif not begun and in_azure.has_group():
        what = f"resource group {outputs.resource_group} is there"
    else:
        return
    raise UnknownError(
        f"stack {stack}: {what}, but Pulumi knows nothing of it, so nobody can say what of it is"
        " protected, and nothing was deleted. `pulumi whoami -v` shows where Pulumi looks: sign in"
        " to the state that it was deployed from (`pulumi login ADDRESS`), and leave --outputs and"
        " JOBS_OUTPUTS out. If that state is lost, delete the group in the portal"
    )


def _warning(outputs: PlatformOutputs, resources: int, jobs: int) -> str:
    return (
        f"stack {outputs.stack} in subscription {outputs.subscription_id}: {resources} resources in"
        f" group {outputs.resource_group}, with all data, checkpoints and models in them; {jobs}"
        " jobs have not ended and are cancelled. This cannot be undone."
    )


def _document(stack: str, done: Sequence[str], leftovers: Sequence[Leftover]) -> dict[str, object]:
    return {
        "stack": stack,
        "done": list(done),
        "left": [asdict(leftover) for leftover in leftovers],
    }


def _short(stack: str) -> str:
    """A stack's name without its organisation and project."""
    return stack.rpartition("/")[2]


def _words(stack: str, leftovers: Sequence[Leftover]) -> str:
    if not leftovers:
        return f"stack {stack}: nothing is left"
    lines = [f"  - {leftover.what}: {leftover.why}" for leftover in leftovers]
    return "\n".join([f"stack {stack}: {len(leftovers)} things are left:", *lines])
