"""`python -m jobs teardown --cluster NAME`: one cluster away, so that `up` can make it anew.

Another size needs it: Azure never changes a cluster's, and the provider's own deletion does not say
what becomes of the nodes, which Azure's interface requires.
"""

from collections.abc import Sequence
from typing import Any

from common.errors import UserError
from jobs.azure.workspace import Workspace
from jobs.console import Console, command, confirm
from jobs.pulumi.state import Declared, clusters
from jobs.pulumi.teardown_steps import Dismantling, running


def remove(
    name: str,
    workspace: Workspace,
    declared: Sequence[Declared],
    work: Dismantling,
    console: Console,
    *,
    ask: bool,
) -> int:
    """Delete a cluster and its nodes, and nothing else; one that is gone already is no error.

    Args:
        name: of the cluster, or what it is for, such as gpu.
        workspace: that it is in.
        declared: what Pulumi's state holds.
        work: deletes it.
        console: is told what is done.
        ask: whether a person is asked before.

    Returns:
        Exit status.

    Raises:
        UserError: there is no such cluster, Pulumi does not know it, or jobs are on it.
    """
    outputs = workspace.outputs
    there = [str(one["name"]) for one in workspace.arm_list("computes")]
    cluster = find(name, declared, there)
    check_declared(f"{workspace.id}/computes/{cluster}", declared, outputs.stack)
    if cluster in there:
        check_idle(cluster, running(workspace, cluster))
        if ask:
            warning = (
                f"cluster {cluster} of stack {outputs.stack} is deleted with its nodes; everything"
                " else stays"
            )
            confirm(cluster, warning, console)
        work.delete_clusters([cluster])
    document: dict[str, Any] = {"stack": outputs.stack, "cluster": cluster, "done": work.done}
    said = "is deleted" if work.done else "is gone already"
    again = f"`{command('up', '--refresh', 'True')}` makes it again, as the settings have it then"
    console.answer(document, f"cluster {cluster}: {said}; {again}")
    return 0


def find(name: str, declared: Sequence[Declared], there: Sequence[str]) -> str:
    """The cluster that a person means. Pure.

    Not by the stack's outputs: after an `up` that failed they name the cluster that was to be.

    Args:
        name: its name, or what it is for.
        declared: what Pulumi's state holds.
        there: names of the clusters that the workspace has.

    Raises:
        UserError: no cluster has the name, or is for that.
    """
    names = clusters(declared)
    if name in names:
        return names[name]
    for known in (*there, *names.values()):
        if known.lower() == name.lower():
            return known
    listed = [f"{known} ({role})" for role, known in names.items()]
    listed += [known for known in there if known not in names.values()]
    raise UserError(
        f"--cluster: {name!r} is no cluster of the stack; there are {', '.join(listed) or 'none'}"
    )


def check_declared(identifier: str, declared: Sequence[Declared], stack: str) -> None:
    """Stop if `up` would not make it again. Pure.

    Raises:
        UserError: the state does not know the cluster, or protects it.
    """
    name = identifier.rpartition("/")[2]
    known = [one for one in declared if one.id.lower() == identifier.lower()]
    if not known:
        raise UserError(
            f"cluster {name}: Pulumi knows nothing of it in stack {stack}, so nothing was deleted:"
            " nobody would make it again. If it was made by hand, delete it in the portal"
        )
    if any(one.protected for one in known):
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
        shown = ", ".join(jobs)
        raise UserError(
            f"cluster {cluster}: {len(jobs)} jobs on it have not ended ({shown}), so nothing was"
            f" deleted; wait for them, or give `{command('cancel', jobs[0])}`"
        )
