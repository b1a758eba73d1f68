"""Cost of the optimizers in a training step of ResNet50, and of their updates alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_type_hints

from benchmarks.measure import BenchmarkOptions, Samples, Spread, read_samples, spread, table
from benchmarks.processes import in_process
from trainer.config import OptimizerConfig, Positive

KINDS: Final[tuple[str, ...]] = get_args(get_type_hints(OptimizerConfig)["kind"])
REFERENCE: Final = "momentum"
GOAL: Final = 0.03
"""Largest acceptable share of a step that the update of LARS may take more than momentum's."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of a training step of ResNet50 with each optimizer, and of its update alone,
    on one rank without reading data.
    """

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each contender."""

    batch_size: Annotated[int, Positive] = 16
    """Images per step."""

    image_size: Annotated[int, Positive] = 224
    """Height and width of the images, in pixels."""

    updates: Annotated[int, Positive] = 10
    """Updates per turn; a turn of training has one step."""


def step(kind: str) -> str:
    """Return the name of a training step with an optimizer."""
    return f"step, {kind}"


def update(kind: str) -> str:
    """Return the name of an update alone."""
    return f"update, {kind}"


def measure(options: Options) -> dict[str, Any]:
    """Measure steps and updates in turns, in a process of their own."""
    return in_process(
        "benchmarks.training.optimizer_contenders:measure",
        rounds=options.rounds,
        batch_size=options.batch_size,
        image_size=options.image_size,
        updates=options.updates,
    )


def extra(samples: Samples, kind: str) -> Spread:
    """Return what an update takes more than momentum's, as a share of a step with momentum."""
    rounds = zip(
        samples[update(kind)], samples[update(REFERENCE)], samples[step(REFERENCE)], strict=True
    )
    return spread([(own.cpu_ms - other.cpu_ms) / whole.cpu_ms for own, other, whole in rounds])


def show(data: Mapping[str, Any]) -> str:
    """Format a table of steps and updates, and the shares."""
    samples = read_samples(data["samples"])
    groups = [
        table({name(kind): samples[name(kind)] for kind in KINDS}, unit, [name(REFERENCE)])
        for name, unit in ((step, "step"), (update, "update"))
    ]
    shares = [
        f"The update of {kind} takes {extra(samples, kind).text('.1%')} of a step more than that of"
        f" {REFERENCE}."
        for kind in KINDS
        if kind != REFERENCE
    ]
    return "\n\n".join([*groups, " ".join(shares)])


def goals(data: Mapping[str, Any]) -> str:
    """Compare the cost of LARS with the goal."""
    found = extra(read_samples(data["samples"]), "lars")
    return f"update of lars: {found.text('.1%')} of a step more; the goal is at most {GOAL:.0%}"
