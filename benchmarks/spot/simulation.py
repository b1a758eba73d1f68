"""Hours and USD of a run on Spot nodes that come and go: with the nodes that there are, compared
with waiting for all of them and with an oracle.

Ten traces of capacity, in which each of four nodes comes and goes by itself, with mean times from
half an hour to a day. They are made by a seed, and are no measurement of Azure, of whose capacity
none is published. Nodes that wait for others cost money, as Azure bills nodes while they are
powered on. A node's price moves between that of Spot and the pay-as-you-go price.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.measure import BenchmarkOptions, columns
from benchmarks.spot.picture import Phase, draw
from jobs.elastic.leaf import ElasticOptions
from jobs.elastic.placement_policy import Choice, Placed, Rules, following, leave
from rehearsal.capacity import Moment, Trace

FOLDER: Final = Path(__file__).parents[1] / "results" / "spot"
"""The traces."""
NODES: Final = 4
DAYS: Final = 20
WORK: Final = NODES * 24.0
"""Node hours of the run: a day on all nodes."""
START: Final = 0.25
"""Hours from nodes to the first step, of each attempt: what `plan` assumes."""
STEP: Final = 1 / 60
"""Hours of a step of the simulation."""
PRICES: Final = (2.42352, 22.032)
"""USD of a Standard_ND40rs_v2 for an hour: Spot as recorded, and pay as you go."""
HELD: Final[Sequence[tuple[float, float]]] = (
    *((24, 0.5), (24, 2), (24, 8), (12, 1), (12, 4)),
    *((6, 0.5), (6, 2), (6, 6), (3, 0.5), (3, 2)),
)
"""Mean hours for which a node is held, and until it is back, of each trace."""


DRAWN: Final = "held-6-gone-2.csv"
"""The trace of the picture."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Simulate a run on ten traces of capacity."""

    make_traces: bool = False
    """Write the traces anew, by their seeds."""

    picture: str | None = None
    """SVG file to draw one of the runs into."""


@dataclass(frozen=True)
class Outcome:
    """What a run took on a trace."""

    hours: float | None
    """None if the trace ended first."""
    usd: float
    attempts: int


def make_trace(held: float, gone: float) -> Trace:
    """Return a trace of nodes that come and go by themselves, by a seed."""
    chance, ends = random.Random(f"{held}/{gone}"), DAYS * 24.0
    changes: list[tuple[float, int]] = []
    count = 0
    for _ in range(NODES):
        here = chance.random() < held / (held + gone)
        count += here
        hours = chance.expovariate(1 / (held if here else gone))
        while hours < ends:
            here = not here
            changes.append((round(hours, 2), 1 if here else -1))
            hours += chance.expovariate(1 / (held if here else gone))
    low, high = PRICES
    price, moments = low, [Moment(0.0, count, round(low, 4))]
    for hours, change in sorted(changes):
        count += change
        # It rises while nodes are scarce, and returns slowly.
        pull = math.log(low) + (NODES - count) / NODES * math.log(high / low) / 2
        moved = math.log(price) + (pull - math.log(price)) / 4 + chance.gauss(0, 0.1)
        price = round(min(max(math.exp(moved), low), high), 4)
        moments.append(Moment(hours, count, price))
    return Trace(moments)


def name_of(held: float, gone: float) -> str:
    """Return the name of a trace's file."""
    return f"held-{held:g}-gone-{gone:g}.csv"


def simulate(trace: Trace, choices: Sequence[Choice], rules: Rules) -> Iterator[Phase]:
    """Simulate a run that saves its state when it is told that nodes are taken.

    Args:
        trace: The nodes that there are.
        choices: What the run may ask for; one choice is waiting for all nodes.
        rules: When it asks for something else.

    Yields:
        Each step.
    """
    hours, done, usd, history = 0.0, 0.0, 0.0, list[Placed]()
    now, warming = Placed(0), START
    while done < WORK and hours < DAYS * 24:
        moment = trace.at(hours)
        asked = choices[now.choice].nodes
        begins = moment.nodes >= asked
        left = leave([*history, now], rules, len(choices) - 1)
        taken = bool(now.ran_hours) and not begins
        if left or taken:
            history.append(replace(now, left=left))
            there = {choices[0].cluster: min(moment.nodes, NODES)}
            now, warming = Placed(following(history, choices, there)), START
            continue
        held = asked if begins else min(moment.nodes, asked)
        if begins:
            done += 0.0 if warming > 0 else asked * STEP
            warming -= STEP
            now = replace(now, ran_hours=now.ran_hours + STEP)
        else:
            now = replace(now, waited_hours=now.waited_hours + STEP)
        usd += held * STEP * moment.price
        hours += STEP
        yield Phase(hours, asked if begins else 0, min(done / WORK, 1.0), usd)


def outcome(trace: Trace, choices: Sequence[Choice], rules: Rules) -> Outcome:
    """Return what a run takes."""
    phases = list(simulate(trace, choices, rules))
    changes = sum(
        after.nodes != before.nodes and after.nodes > 0
        for before, after in zip([Phase(0, 0, 0, 0), *phases], phases, strict=False)
    )
    ended = phases[-1]
    return Outcome(ended.hours if ended.done >= 1 else None, ended.usd, changes)


def oracle(trace: Trace, choices: Sequence[Choice]) -> Outcome:
    """Return what a run would take that always has the most nodes that there are, at once."""
    hours, done, usd = 0.0, 0.0, 0.0
    while done < WORK and hours < DAYS * 24:
        moment = trace.at(hours)
        nodes = max((one.nodes for one in choices if one.nodes <= moment.nodes), default=0)
        done, usd, hours = done + nodes * STEP, usd + nodes * STEP * moment.price, hours + STEP
    return Outcome(hours if done >= WORK else None, usd, 1)


def offered() -> tuple[list[Choice], Rules]:
    """Return the choices and rules of `submit --nodes 4 --min-nodes 1`."""
    defaults = ElasticOptions()
    rules = Rules(defaults.move_down_minutes / 60, defaults.move_up_hours)
    return [Choice("gpu", NODES >> half) for half in range(3)], rules


def measure(options: Options) -> dict[str, Any]:
    """Simulate all traces."""
    choices, rules = offered()
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = {}
    for held, gone in HELD:
        path = FOLDER / name_of(held, gone)
        if options.make_traces:
            make_trace(held, gone).write(path)
        trace = Trace.read(path)
        found[path.stem] = {
            "wait": vars(outcome(trace, choices[:1], rules)),
            "with what there is": vars(outcome(trace, choices, rules)),
            "oracle": vars(oracle(trace, choices)),
        }
    if options.picture is not None:
        trace = Trace.read(FOLDER / DRAWN)
        runs = {
            "with what there is": list(simulate(trace, choices, rules)),
            "wait for 4 nodes": list(simulate(trace, choices[:1], rules)),
        }
        Path(options.picture).write_text(draw(trace, runs), encoding="utf-8")
    return {"traces": found}


def show(data: Mapping[str, Any]) -> str:
    """Format the results."""
    rows = [
        [
            "node held, gone (mean h)",
            "wait for 4 nodes",
            "4, 2 or 1 nodes",
            "oracle",
            "hours",
            "USD",
        ]
    ]
    ratios: dict[str, list[float]] = {"hours": [], "usd": []}
    for name, ways in data["traces"].items():
        wait, elastic = ways["wait"], ways["with what there is"]
        ratios["hours"].append(_hours(elastic) / _hours(wait))
        ratios["usd"].append(elastic["usd"] / wait["usd"])
        _, held, _, gone = name.split("-")
        rows.append(
            [f"{held}, {gone}", *(_words(one) for one in ways.values()),
             *(f"x {values[-1]:.2f}" for values in ratios.values())]
        )  # fmt: skip
    for label, pick in (("median", median), ("worst", max)):
        rows.append([label, "", "", "", *(f"x {pick(values):.2f}" for values in ratios.values())])
    return columns(rows)


def _hours(one: Mapping[str, Any]) -> float:
    """Return the hours of a run, or those of the trace if it did not end."""
    return float(one["hours"] or DAYS * 24)


def _words(one: Mapping[str, Any]) -> str:
    time = f"{one['hours']:.0f} h" if one["hours"] else f"not in {DAYS} days"
    starts = f", {one['attempts']} starts" if one["attempts"] > 1 else ""
    return f"{time}, {one['usd']:,.0f} USD{starts}"
