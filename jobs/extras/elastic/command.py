"""`python -m jobs place NAME`: pin the nodes of a run, or free it again."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Positional
from common.errors import UserError
from infra.outputs import PlatformOutputs
from jobs.azure.job_body import tagged_body
from jobs.azure.workspace import connect
from jobs.console import SHOWN, Console
from jobs.extras.elastic.choices import Choices
from jobs.extras.elastic.placement import PINNED
from jobs.leaf import PLACED
from jobs.options import SelfChecked


@dataclass(frozen=True)
class PlaceOptions(SelfChecked):
    """Show the choices of nodes of a run that was submitted with --min-nodes or --clusters, and pin
    one of them. A supervisor then ends an attempt on other nodes, whose state is saved, and submits
    the next one there. NAME is the key of a run.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run."""

    on: str | None = None
    """Choice to pin, as CLUSTER:NODES, such as gpu:2."""

    free: bool = False
    """Let supervisors move the run again."""

    def problems(self) -> list[str]:
        """Return whether two changes are asked for."""
        both = self.on is not None and self.free
        return ["--on, --free: exclude each other; pass one of them"] if both else []


def run(options: PlaceOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Show the choices of a run, and change the tag of its newest attempt."""
    console, jobs = Console(as_json=as_json), connect(outputs).jobs
    job = jobs.find(options.name)
    choices = Choices.of(job.tags)
    if choices is None:
        raise UserError(
            f"{job.run}: has no choice of nodes; `submit --min-nodes` or `--clusters` gives it some"
        )
    number = None if options.on is None else choices.number(options.on)
    if number is not None or options.free:
        text = "" if number is None else str(number)
        job = jobs.put(job.name, tagged_body(job, {PINNED: text}))
    pinned = job.tags.get(PINNED, "")
    names = [offer.name for offer in choices.offers]
    state = f"pinned to {names[int(pinned)]}" if pinned.isdigit() else "moves by itself"
    console.answer(
        {
            "run": job.run,
            "choices": names,
            "pinned": names[int(pinned)] if pinned.isdigit() else None,
            "placed": job.tags.get(PLACED),
        },
        f"{job.run}: {state}; choices: {', '.join(names)}; newest attempt:"
        f" {job.tags.get(PLACED, '?')}",
    )
    return 0
