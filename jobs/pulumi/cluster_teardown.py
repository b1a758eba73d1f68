"""`python -m jobs teardown --cluster NAME`: delete one cluster, so that `up` can recreate it.

A change of the VM size needs this: Azure cannot change the size of a cluster, and the provider's
deletion omits what to do with the nodes (underlyingResourceAction), which Azure's specification
requires. In recorded calls Azure accepted that for attached machines; of clusters there are none.
"""

from collections.abc import Sequence
from typing import Any

from common.errors import UserError
from common.text import plural
from jobs.console import confirm, next_command
from jobs.pulumi.state import StackResource, clusters
from jobs.pulumi.teardown_steps import Teardown


def remove(
    name: str,
    stack: str,
    stack_resources: Sequence[StackResource],
    teardown: Teardown,
    *,
    ask: bool,
) -> int:
    """Delete a cluster with its nodes, and nothing else, unless it is already deleted.

    Args:
        name: Name of the cluster in the stack's settings, such as gpu, or in Azure.
        stack: Name of the stack.
        stack_resources: Resources in Pulumi's state.
        teardown: Deletes the cluster.
        ask: Whether to ask for confirmation.

    Returns:
        Exit status.

    Raises:
        UserError: There is no such cluster, Pulumi does not know it, or jobs run on it.
    """
    manager, console = teardown.manager, teardown.console
    existing = [str(compute["name"]) for compute in manager.items("computes")]
    cluster = find(name, stack_resources, existing)
    check_removable(f"{manager.workspace_id}/computes/{cluster}", stack_resources, stack)
    if cluster in existing:
        check_idle(cluster, teardown.jobs.running(cluster))
        if ask:
            warning = (
                f"cluster {cluster} of stack {stack} will be deleted with its nodes; everything"
                " else stays"
            )
            confirm(cluster, warning, console)
        teardown.delete_clusters([cluster])
    document: dict[str, Any] = {"stack": stack, "cluster": cluster, "done": teardown.done}
    state = "deleted" if teardown.done else "was already deleted"
    again = f"`{next_command('up', '--refresh', 'True')}` creates it again if the settings have it"
    console.answer(document, f"cluster {cluster}: {state}; {again}")
    return 0


def find(name: str, stack_resources: Sequence[StackResource], existing: Sequence[str]) -> str:
    """Find a cluster by its name in the stack's settings or in Azure. Pure.

    The stack's outputs are not used: after a failed `up` they name the planned cluster.

    Raises:
        UserError: No cluster has this name.
    """
    names = clusters(stack_resources)
    if name in names:
        return names[name]
    for known in (*existing, *names.values()):
        if known.lower() == name.lower():
            return known
    listed = [f"{known} ({key})" for key, known in names.items()]
    listed += [known for known in existing if known not in names.values()]
    raise UserError(
        f"--cluster: {name!r} is not a cluster of the stack; it has {', '.join(listed) or 'none'}"
    )


def check_removable(identifier: str, stack_resources: Sequence[StackResource], stack: str) -> None:
    """Check that `up` would create a cluster again. Pure.

    Raises:
        UserError: The cluster is not in the state, or is protected.
    """
    name = identifier.rpartition("/")[2]
    known = [resource for resource in stack_resources if resource.id.lower() == identifier.lower()]
    if not known:
        raise UserError(
            f"cluster {name}: is not in Pulumi's state of stack {stack}, so `up` would not create"
            " it again; nothing was deleted. If it was created by hand, delete it in the portal"
        )
    if any(resource.protected for resource in known):
        raise UserError(
            f"cluster {name}: is protected, so nothing was deleted; `pulumi state unprotect"
            f" '{known[0].urn}' --stack {stack}` removes the protection"
        )


def check_idle(cluster: str, jobs: Sequence[str]) -> None:
    """Check that no jobs run on a cluster. Pure.

    Raises:
        UserError: Some jobs have not ended.
    """
    if jobs:
        raise UserError(
            f"cluster {cluster}: {plural(len(jobs), 'job on it has', 'jobs on it have')} not"
            f" ended ({', '.join(jobs)}), so nothing was deleted; wait for them, or run"
            f" `{next_command('cancel', jobs[0])}`"
        )
