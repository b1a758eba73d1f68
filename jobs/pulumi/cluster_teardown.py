"""`python -m jobs teardown --cluster NAME`: one cluster away, so that `up` can make it anew.

Another size needs it: Azure never changes a cluster's, and the provider's own deletion does not say
what becomes of the nodes, which Azure's interface requires.
"""

from collections.abc import Sequence
from typing import Any

from common.errors import UserError
from jobs.azure.job_records import Jobs
from jobs.azure.resource_manager import ResourceManager
from jobs.console import Console, confirm, next_command
from jobs.pulumi.state import StackResource, clusters
from jobs.pulumi.teardown_steps import Teardown


def remove(
    name: str,
    stack: str,
    manager: ResourceManager,
    jobs: Jobs,
    stack_resources: Sequence[StackResource],
    teardown: Teardown,
    console: Console,
    *,
    ask: bool,
) -> int:
    """Delete a cluster and its nodes, and nothing else; one that is gone already is no error.

    Args:
        name: of the cluster, or what it is for, such as gpu.
        stack: that it belongs to.
        manager: of the stack.
        jobs: of the stack's workspace.
        stack_resources: what Pulumi's state holds.
        teardown: deletes it.
        console: is told what is done.
        ask: whether a person is asked before.

    Returns:
        Exit status.

    Raises:
        UserError: there is no such cluster, Pulumi does not know it, or jobs are on it.
    """
    existing = [str(compute["name"]) for compute in manager.items("computes")]
    cluster = find(name, stack_resources, existing)
    check_removable(f"{manager.workspace_id}/computes/{cluster}", stack_resources, stack)
    if cluster in existing:
        check_idle(cluster, jobs.running(cluster))
        if ask:
            warning = (
                f"cluster {cluster} of stack {stack} is deleted with its nodes; everything else"
                " stays"
            )
            confirm(cluster, warning, console)
        teardown.delete_clusters([cluster])
    document: dict[str, Any] = {"stack": stack, "cluster": cluster, "done": teardown.done}
    state = "is deleted" if teardown.done else "is gone already"
    again = (
        f"`{next_command('up', '--refresh', 'True')}` makes it again, as the settings have it then"
    )
    console.answer(document, f"cluster {cluster}: {state}; {again}")
    return 0


def find(name: str, stack_resources: Sequence[StackResource], existing: Sequence[str]) -> str:
    """The cluster that a person means. Pure.

    Not by the stack's outputs: after an `up` that failed they name the cluster that was to be.

    Args:
        name: its name, or what it is for.
        stack_resources: what Pulumi's state holds.
        existing: names of the clusters that the workspace has.

    Raises:
        UserError: no cluster has the name, or is for that.
    """
    names = clusters(stack_resources)
    if name in names:
        return names[name]
    for known in (*existing, *names.values()):
        if known.lower() == name.lower():
            return known
    listed = [f"{known} ({role})" for role, known in names.items()]
    listed += [known for known in existing if known not in names.values()]
    raise UserError(
        f"--cluster: {name!r} is no cluster of the stack; there are {', '.join(listed) or 'none'}"
    )


def check_removable(identifier: str, stack_resources: Sequence[StackResource], stack: str) -> None:
    """Stop if `up` would not make it again. Pure.

    Raises:
        UserError: the state does not know the cluster, or protects it.
    """
    name = identifier.rpartition("/")[2]
    known = [resource for resource in stack_resources if resource.id.lower() == identifier.lower()]
    if not known:
        raise UserError(
            f"cluster {name}: Pulumi knows nothing of it in stack {stack}, so nothing was deleted:"
            " nobody would make it again. If it was made by hand, delete it in the portal"
        )
    if any(resource.protected for resource in known):
        raise UserError(
            f"cluster {name}: is protected, so nothing was deleted; `pulumi state unprotect"
            f" '{known[0].urn}' --stack {stack}` takes that off"
        )


def check_idle(cluster: str, jobs: Sequence[str]) -> None:
    """Stop if something would be lost. Pure.

    Args:
        cluster: its name.
        jobs: names of those that have not ended.

    Raises:
        UserError: there are some.
    """
    if jobs:
        raise UserError(
            f"cluster {cluster}: {len(jobs)} jobs on it have not ended ({', '.join(jobs)}), so"
            " nothing was deleted; wait for them, or give"
            f" `{next_command('cancel', jobs[0])}`"
        )
