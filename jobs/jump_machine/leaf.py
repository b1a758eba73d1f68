"""The jump machine as a leaf."""

from typing import Any, Final

from infra.outputs import PlatformOutputs
from jobs.leaf import Found, Leaf

LEAF: Final = Leaf(costs_now="jobs.jump_machine.leaf:costs_now")


def costs_now(workspace: Any, outputs: PlatformOutputs) -> Found:  # noqa: ARG001
    """Name the jump machine, which costs money whether jobs run or not."""
    machine = outputs.jump_machine
    if machine is None:
        return Found("jump_machine", None, ())
    text = (
        f"jump machine {machine.name}: costs money while it runs, off at {machine.off_at}; its"
        " Bastion costs money all the time"
    )
    return Found("jump_machine", machine.name, (text,))
