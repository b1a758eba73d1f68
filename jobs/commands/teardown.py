"""`python -m jobs teardown`: delete everything of a stack, so that it can be deployed again.

It can be run again after any interruption. `jobs.pulumi.teardown_steps` has the steps.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

from common.annotations import Bounds
from common.errors import INTERRUPTED, ConfigError, UserError
from common.text import plural
from infra import prerequisites
from infra.outputs import PlatformOutputs
from infra.prerequisites import Prerequisites
from jobs.azure.error_messages import Platform
from jobs.azure.job_records import Jobs
from jobs.azure.requests import Requests
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.run_history import RunHistory
from jobs.azure.sign_in import credential
from jobs.console import Console, confirm
from jobs.errors import NotDeployedError, UnreadableStateError
from jobs.pulumi import cluster_teardown
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.leftover_resources import AzureResources, Leftover, Undeclared
from jobs.pulumi.prerequisites import of_stack
from jobs.pulumi.state import StackResource
from jobs.pulumi.teardown_record import TeardownRecord
from jobs.pulumi.teardown_steps import Teardown

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_GROUP: Final = "azure-native:resources:ResourceGroup"
_LOGS: Final = "azure-native:operationalinsights:Workspace"


@dataclass(frozen=True)
class TeardownOptions:
    """Delete the platform of a stack with all data, checkpoints and models in it. It is safe to
    repeat, and finally lists the leftovers, of which there should be none. A resource group that
    existed before the stack stays, with what others have in it. With --cluster, delete only one
    cluster.
    """

    cluster: str | None = None
    """Delete only this cluster, given by its name in the settings, such as gpu, or in Azure.
    `up --refresh True` creates it again, for example with another VM size."""

    yes: bool = False
    """Do not ask for confirmation."""

    also: tuple[str, ...] = ()
    """Names of resources in the stack's own group that the stack has not declared, and that --yes
    deletes with the group. Without --yes, the question lists them."""

    wait_minutes: Annotated[float, Bounds(above=0)] = 60.0
    """Longest time to wait for each of: the end of all jobs, and the deletion of clusters,
    workspace, vault and everything else that costs money. In minutes."""

    poll_seconds: Annotated[float, Bounds(above=0)] = 5.0
    """Pause between two checks of the progress, in seconds."""


class ProtectedError(UserError):
    """The stack contains protected resources."""


class UnknownError(UserError):
    """The platform exists in Azure, but not in Pulumi's state."""


def run(
    options: TeardownOptions,
    outputs: PlatformOutputs | None,
    *,
    as_json: bool,
    stack: str | None = None,
    repository: Path = REPOSITORY,
) -> int:
    """Tear a stack down, and print the steps that are done and the resources that are left.

    Args:
        options: Options of the command.
        outputs: Outputs of the stack; None if Pulumi no longer has them, as after an interruption.
        as_json: Whether to print the result as JSON.
        stack: Name of the stack for Pulumi, if --stack was given.
        repository: Folder of Pulumi.yaml.

    Returns:
        Exit status: 0 if nothing is left (or the one cluster is deleted), 1 if something is left,
        130 after Ctrl-C.

    Raises:
        UserError: Resources are protected, Pulumi does not know the platform, or a step failed.
    """
    console = Console(as_json=as_json)
    name = outputs.stack if outputs else _short(stack or "dev")
    pulumi, record = Pulumi(repository, stack or name), TeardownRecord(repository, name)
    if outputs is None and options.cluster is not None:
        raise NotDeployedError(f"stack {name}: has no outputs, so it has no cluster to delete")
    if outputs is None and not record.is_there and _is_empty(pulumi):
        text = f"stack {name}: nothing is left; its state is empty and no teardown is pending"
        console.answer(_document(name, [], []), text)
        return 0
    # A deployment that never completed has no outputs; names follow from the settings then.
    known: Platform = outputs or record.read() or _from_settings(pulumi, name)
    if stack is not None and _short(stack) != known.stack:
        raise ConfigError([f"--stack: {stack!r}, but the outputs are those of {known.stack!r}"])
    requests = Requests(known, credential(known.tenant_id))
    manager = ResourceManager(requests, known)
    jobs = Jobs(manager, RunHistory(requests, manager))
    in_azure = AzureResources(manager, known)
    wait, poll = options.wait_minutes * 60, options.poll_seconds
    teardown = Teardown(manager, jobs, in_azure, pulumi, console, wait, poll)
    try:
        try:
            resources = pulumi.resources()
        except UnreadableStateError as error:
            if options.cluster is not None:
                raise
            return _delete_compute(options, known, teardown, error)
        check_same(manager.group_id, resources)
        if options.cluster is not None:
            return cluster_teardown.remove(
                options.cluster, known.stack, resources, teardown, ask=not options.yes
            )
        _check(options, known, teardown, resources, begun=record.has_begun(known))
        record.write(known)
        teardown.run(resources)
        leftovers = [*in_azure.leftovers(), *teardown.leftovers_of_state()]
    except KeyboardInterrupt:
        console.note(
            f"interrupted; done: {'; '.join(teardown.done) or 'nothing'}\nrun the same command"
            " again to continue; it skips finished steps"
        )
        return INTERRUPTED
    if not leftovers:
        record.remove()
    for logs in recoverable_logs(resources):
        console.note(logs)
    console.answer(_document(known.stack, teardown.done, leftovers), _words(known.stack, leftovers))
    return 1 if leftovers else 0


def _check(
    options: TeardownOptions,
    known: Platform,
    teardown: Teardown,
    resources: Sequence[StackResource],
    *,
    begun: bool,
) -> None:
    """Check that everything may be deleted, and ask for it.

    Raises:
        UserError: Something is protected, unknown to Pulumi or the user, or was not confirmed.
    """
    in_azure, stack = teardown.resources, teardown.pulumi.stack
    check_protected(stack, resources)
    group = teardown.manager.group_id
    check_known(in_azure, group, known, stack, resources, begun=begun)
    others = in_azure.undeclared(resources)
    # Without resources and group nothing can be lost; only reserved names are to be freed.
    if not options.yes and (resources or in_azure.owns_group()):
        running = teardown.jobs.running() if in_azure.has_workspace() else []
        warning = _warning(known, len(resources), len(running), others)
        warning += _detached(in_azure.attached())
        confirm(known.stack, warning, teardown.console)
    elif options.yes:
        check_named(known, others, options.also)
        if detached := _detached(in_azure.attached()):
            teardown.console.note(detached.strip())


def _is_empty(pulumi: Pulumi) -> bool:
    """Whether the state is known to have no resources."""
    try:
        return not pulumi.check()
    except UnreadableStateError:
        return False


def _from_settings(pulumi: Pulumi, stack: str) -> Prerequisites:
    """Read the names of a stack from its settings, without Pulumi if its state is damaged."""
    try:
        return of_stack(pulumi)
    except UnreadableStateError:
        return prerequisites.read_file(stack)


def _delete_compute(
    options: TeardownOptions, known: Platform, teardown: Teardown, error: UnreadableStateError
) -> int:
    """Delete only what costs money by the hour, as nothing says what is protected; return 1."""
    console = teardown.console
    console.note(str(error))
    warning = (
        f"stack {known.stack}: its state cannot be read, so nothing says what is protected. In"
        f" workspace {known.workspace}, all jobs will be cancelled, and endpoints and clusters"
        " deleted, which cost money by the hour; data, models and everything else stay."
        f"{_detached(teardown.resources.attached())}"
    )
    if options.yes:
        console.note(warning)
    else:
        confirm(known.stack, warning, console)
    teardown.delete_compute()
    leftovers = [*teardown.resources.leftovers(), *teardown.leftovers_of_state()]
    console.answer(_document(known.stack, teardown.done, leftovers), _words(known.stack, leftovers))
    return 1


def recoverable_logs(resources: Sequence[StackResource]) -> list[str]:
    """Return what to know about the deleted log workspaces of a state."""
    return [
        f"log workspace {resource.id.rpartition('/')[2]}: is deleted, but Azure keeps its logs for"
        " 14 days, and a new one of its name brings them back; to purge them before, create it"
        " again and delete it with `az monitor log-analytics workspace delete --force true`"
        for resource in resources
        if resource.kind == _LOGS
    ]


def check_protected(stack: str, resources: Sequence[StackResource]) -> None:
    """Check that no resource is protected, before anything is deleted.

    Raises:
        ProtectedError: Some resources are protected.
    """
    names = [resource.name for resource in resources if resource.protected]
    if names:
        raise ProtectedError(
            f"stack {stack}: {plural(len(names), 'resource is', 'resources are')} protected"
            f" ({', '.join(names)}), so nothing was deleted. They hold what cannot be"
            " recreated: training data, results, keys. To delete them as well, first"
            " remove the protection:\n"
            f"  pulumi state unprotect --all --stack {stack}\n"
            "then run the same command again"
        )


def check_named(outputs: Platform, others: Sequence[Undeclared], named: Sequence[str]) -> None:
    """Check that the user knows of everything that Azure deletes with the stack's group.

    Raises:
        UserError: The group has resources that are not in Pulumi's state, and were not named.
    """
    unknown = [other for other in others if other.name not in named]
    if unknown:
        raise UserError(
            f"stack {outputs.stack}: its group {outputs.resource_group} also has"
            f" {', '.join(map(str, unknown))}, which the stack has not declared and Azure would"
            " delete with the group; nothing was deleted. Move them to another group (az resource"
            f" move), or pass --also {' '.join(other.name for other in unknown)}"
        )


def check_same(group: str, resources: Sequence[StackResource]) -> None:
    """Check that outputs and state belong to the same platform.

    Raises:
        UserError: The state has another resource group.
    """
    for resource in resources:
        if resource.kind == _GROUP and resource.id.lower() != group.lower():
            raise UserError(
                f"the outputs belong to {group}, but Pulumi's stack to {resource.id}; nothing was"
                " deleted. Omit --outputs and JOBS_OUTPUTS to read the outputs of the stack itself"
            )


def check_known(
    in_azure: AzureResources,
    group: str,
    outputs: Platform,
    stack: str,
    resources: Sequence[StackResource],
    *,
    begun: bool,
) -> None:
    """Check that Pulumi knows a platform that exists, as only Pulumi knows what is protected.

    Args:
        in_azure: Resources in Azure.
        group: Id of the resource group.
        outputs: Outputs of the stack.
        stack: Name of the stack for Pulumi.
        resources: Resources in the state.
        begun: Whether a teardown of this platform was started on this machine. It purges the
            workspace before Pulumi forgets anything, so it explains a group without state, but
            never a live workspace.

    Raises:
        UnknownError: The platform exists, but not in Pulumi's state.
    """
    prefix = f"{group.lower()}/"
    if any(f"{resource.id.lower()}/".startswith(prefix) for resource in resources):
        return
    if in_azure.has_workspace():
        what = f"workspace {outputs.workspace} exists"
    elif not begun and in_azure.owns_group():
        what = f"resource group {outputs.resource_group} exists"
    else:
        return
    raise UnknownError(
        f"stack {stack}: {what}, but is not in Pulumi's state, which says what is protected;"
        " nothing was deleted. `pulumi whoami -v` shows which backend Pulumi uses: log in to the"
        " one that the stack was deployed with (`pulumi login ADDRESS`), and omit --outputs and"
        " JOBS_OUTPUTS. If that state is lost, delete the stack's resources in the portal"
    )


def _warning(outputs: Platform, resources: int, jobs: int, others: Sequence[Undeclared]) -> str:
    more = (
        f" So will {plural(len(others), 'resource')} in the group that the stack has not declared:"
        f" {', '.join(map(str, others))}."
        if others
        else ""
    )
    return (
        f"stack {outputs.stack} in subscription {outputs.subscription_id}:"
        f" {plural(resources, 'resource')} in group {outputs.resource_group} will be deleted, with"
        " all data, checkpoints and models in it; "
        f"{plural(jobs, 'unfinished job')} will be cancelled.{more} This cannot be undone."
    )


def _detached(attached: Sequence[Undeclared]) -> str:
    """Return a sentence about compute that others have attached; empty if there is none."""
    if not attached:
        return ""
    return f" {', '.join(map(str, attached))} will be detached from the workspace, not deleted."


def _document(stack: str, done: Sequence[str], leftovers: Sequence[Leftover]) -> dict[str, object]:
    return {
        "stack": stack,
        "done": list(done),
        "left": [asdict(leftover) for leftover in leftovers],
    }


def _short(stack: str) -> str:
    """Return a stack's name without organization and project."""
    return stack.rpartition("/")[2]


def _words(stack: str, leftovers: Sequence[Leftover]) -> str:
    if not leftovers:
        return f"stack {stack}: nothing is left"
    lines = [f"  - {leftover.what}: {leftover.why}" for leftover in leftovers]
    return "\n".join([f"stack {stack}: {plural(len(leftovers), 'leftover')}:", *lines])
