"""`python -m jobs teardown`: everything of a stack away, so that it can be made again.

It may be given again after any interruption. `jobs.pulumi.teardown_steps` has the steps.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

from common.errors import ConfigError, UserError
from common.fields import Bounds
from infra.outputs import PlatformOutputs
from jobs.azure.workspace import Workspace, connect
from jobs.console import Console, confirm
from jobs.errors import NotDeployedError
from jobs.pulumi import cluster_teardown
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.leftover_resources import Left, group_is_there, left, workspace_is_there
from jobs.pulumi.state import Declared
from jobs.pulumi.teardown_record import Record
from jobs.pulumi.teardown_steps import Dismantling, running

REPOSITORY: Final = Path(__file__).resolve().parents[2]
INTERRUPTED: Final = 130
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
        outputs: of the stack; none if Pulumi has none any more, as after an interruption.
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
    pulumi, record = Pulumi(repository, stack or name), Record(repository, name)
    if outputs is None and options.cluster is not None:
        raise NotDeployedError(f"stack {name}: exports nothing, so it has no cluster to delete")
    if outputs is None and not record.is_there:
        pulumi.check()
        if not pulumi.declared():
            text = f"stack {name}: nothing is left; its state is empty, no teardown is unfinished"
            console.answer(_answer(name, [], []), text)
            return 0
    known = outputs or record.read()
    if stack is not None and _short(stack) != known.stack:
        raise ConfigError([f"--stack: {stack!r}, but the outputs are those of {known.stack!r}"])
    workspace = connect(known)
    work = Dismantling(workspace, pulumi, console, options.wait_minutes * 60, options.poll_seconds)
    try:
        declared = pulumi.declared()
        check_same(workspace.group_id, declared)
        if options.cluster is not None:
            return cluster_teardown.remove(
                options.cluster, workspace, declared, work, console, ask=not options.yes
            )
        check_protected(pulumi.stack, declared)
        check_known(workspace, pulumi.stack, declared, begun=record.begun(known))
        _confirm(options, workspace, declared, console)
        record.write(known)
        work.run(declared)
        remains = [*left(workspace), *work.declared_left()]
    except KeyboardInterrupt:
        console.note(
            f"interrupted; done: {'; '.join(work.done) or 'nothing'}\nto go on, give the same"
            " command again: what is done is not missed"
        )
        return INTERRUPTED
    if not remains:
        record.remove()
    console.answer(_answer(known.stack, work.done, remains), _words(known.stack, remains))
    return 1 if remains else 0


def check_protected(stack: str, declared: Sequence[Declared]) -> None:
    """Stop before anything is deleted if not all of it may be.

    Raises:
        ProtectedError: some resources are protected.
    """
    names = [one.name for one in declared if one.protected]
    if names:
        raise ProtectedError(
            f"stack {stack}: {len(names)} resources are protected ({', '.join(names)}), so nothing"
            " was deleted. They hold what cannot be made again: training data, results, keys. If"
            " they are to go as well, say so first, as a step of its own:\n"
            f"  pulumi state unprotect --all --stack {stack}\n"
            "and then give the same command again"
        )


def check_same(group: str, declared: Sequence[Declared]) -> None:
    """Stop if outputs and state are of two platforms.

    Args:
        group: id of the resource group that the outputs name.
        declared: what the state holds.

    Raises:
        UserError: the state has another group.
    """
    for one in declared:
        if one.kind == _GROUP and one.id.lower() != group.lower():
            raise UserError(
                f"the outputs are of {group}, but Pulumi's stack has {one.id}; nothing was deleted."
                " Leave --outputs and JOBS_OUTPUTS out, so that the stack's own are read"
            )


def check_known(
    workspace: Workspace, stack: str, declared: Sequence[Declared], *, begun: bool
) -> None:
    """Stop if the platform is there and Pulumi knows nothing of it, nor what is protected.

    Args:
        workspace: of the outputs.
        stack: its name for Pulumi.
        declared: what the state holds.
        begun: whether a teardown of this platform was begun here. It has purged the workspace
            before Pulumi forgets anything, so it explains a group, and never a live workspace.

    Raises:
        UnknownError: that is so.
    """
    group = workspace.group_id.lower()
    if any(f"{one.id.lower()}/".startswith(f"{group}/") for one in declared):
        return
    outputs = workspace.outputs
    if workspace_is_there(workspace):
        what = f"workspace {outputs.workspace} is there"
    elif not begun and group_is_there(workspace):
        what = f"resource group {outputs.resource_group} is there"
    else:
        return
    raise UnknownError(
        f"stack {stack}: {what}, but Pulumi knows nothing of it, so nobody can say what of it is"
        " protected, and nothing was deleted. `pulumi whoami -v` shows where Pulumi looks: sign in"
        " to the state that it was deployed from (`pulumi login ADDRESS`), and leave --outputs and"
        " JOBS_OUTPUTS out. If that state is lost, delete the group in the portal"
    )


def _confirm(
    options: TeardownOptions, workspace: Workspace, declared: Sequence[Declared], console: Console
) -> None:
    outputs = workspace.outputs
    if options.yes:
        return
    if not declared and not group_is_there(workspace):
        # Nothing can be lost any more; only names are still to be freed.
        return
    jobs = len(running(workspace)) if workspace_is_there(workspace) else 0
    warning = (
        f"stack {outputs.stack} in subscription {outputs.subscription_id}: {len(declared)}"
        f" resources in group {outputs.resource_group}, with all data, checkpoints and models in"
        f" them; {jobs} jobs have not ended and are cancelled. This cannot be undone."
    )
    confirm(outputs.stack, warning, console)


def _answer(stack: str, done: Sequence[str], remains: Sequence[Left]) -> dict[str, object]:
    return {"stack": stack, "done": list(done), "left": [asdict(one) for one in remains]}


def _short(stack: str) -> str:
    """A stack's name without its organisation and project."""
    return stack.rpartition("/")[2]


def _words(stack: str, remains: Sequence[Left]) -> str:
    if not remains:
        return f"stack {stack}: nothing is left"
    lines = [f"  - {one.what}: {one.why}" for one in remains]
    return "\n".join([f"stack {stack}: {len(remains)} things are left:", *lines])
