"""The phases of a step's gradient exchange, from a file that `--exchange.timeline` wrote.

    .venv-trainer/bin/python -m tools.benchmarks timeline timeline.json

Horovod records the phases of every tensor. The tensors of a group go through all but the first
phase together, so the group's first tensor represents them.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from common.annotations import Positional
from common.errors import UserError
from tools.benchmarks.measure import columns, spread

TENSOR = "gradients0_1of"
"""Part of the name of the first tensor of the first group."""


@dataclass(frozen=True)
class Options:
    """The phases of the exchange of a step, from a file that `--exchange.timeline` wrote."""

    file: Annotated[str, Positional("FILE")] = ""
    """File of the timeline."""


def run(options: Options) -> None:
    """Print the phases of a timeline."""
    if not options.file:
        raise UserError("name the file to read, as in: timeline timeline.json")
    durations = phases(read_events(Path(options.file).read_text()))
    rows = [["phase", "times", "ms"]]
    rows += [[name, str(len(times)), spread(times).text()] for name, times in durations.items()]
    print(columns(rows))


def read_events(text: str) -> list[dict[str, Any]]:
    """Parse the events of a trace; Horovod does not close the list, which the format allows."""
    whole = text.strip().rstrip(",")
    return [event for event in json.loads(whole if whole.endswith("]") else whole + "]") if event]


def phases(events: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return the milliseconds of each phase of `TENSOR`, per step, in the order of their start."""
    durations: dict[str, list[float]] = defaultdict(list)
    mine: set[int] = set()
    open_phases: list[tuple[str, float]] = []
    for event in events:
        if event["ph"] == "M" and TENSOR in str(event.get("args", {}).get("name")):
            mine.add(event["pid"])
        elif event.get("pid") in mine and event["ph"] == "B":
            durations.setdefault(event["name"], [])
            open_phases.append((event["name"], event["ts"]))
        elif event.get("pid") in mine and event["ph"] == "E" and open_phases:
            name, begin = open_phases.pop()
            durations[name].append((event["ts"] - begin) / 1000)
    return dict(durations)
