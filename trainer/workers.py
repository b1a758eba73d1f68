"""The choice of who does the units of a preparation or of scoring. Standard library only."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from common.program import load
from trainer.leaves import LEAVES

_WORKERS: Final[Mapping[str, str]] = {
    "processes": "trainer.data.prepare.pool:of_this_machine",
    **{name: path for leaf in LEAVES for name, path in leaf.workers.items()},
}
"""MODULE:FUNCTION of each choice, which takes the options of a command and returns these, changed
if need be, and a function with the arguments of `trainer.data.prepare.pool.work_through`."""

if TYPE_CHECKING:
    WorkersName: TypeAlias = str
else:
    WorkersName = Literal[tuple(_WORKERS)]


def with_workers(options: Any) -> tuple[Any, Any]:
    """Return the options of a command, and what does its units: see `_WORKERS`."""
    chosen: tuple[Any, Any] = load(_WORKERS[getattr(options, "with_", "processes")])(options)
    return chosen
