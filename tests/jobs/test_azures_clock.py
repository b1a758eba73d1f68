"""Times of Azure are compared with Azure's clock, as that of this machine may be hours off."""

import ast
import re
import sys
from datetime import datetime, timedelta

import pytest

from jobs.azure import requests
from jobs.cli import main
from jobs.extras.elastic.choices import NUMBER, TAG, Choices, Offer
from jobs.extras.elastic.placement_policy import MoveRules, NodeChoice
from jobs.following import supervision_pass
from jobs.following.supervision_policy import mark
from jobs.leaf import MOVED
from jobs.options import ResubmitOptions
from tests import ROOT
from tests.jobs.support.tiny import begin, status, wait_for

OWN_CLOCK = {
    "jobs/azure/requests.py": 2,  # Measures how far it is off.
    # Dates of prices and measurements, and names of runs.
    "jobs/azure/costs.py": 1,
    "jobs/azure/node_prices.py": 1,
    "jobs/commands/launch.py": 1,
    "jobs/extras/scaling/command.py": 1,
    "jobs/spec/from_options.py": 1,
}
"""Modules that use this machine's clock, and how often."""
_CLOCKS = {
    ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today"),
    ("time", "time"), ("time", "gmtime"), ("time", "localtime"),
}  # fmt: skip


def reads_of_the_clock(source):
    return sum(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in _CLOCKS
        for node in ast.walk(ast.parse(source))
    )


def test_no_other_module_reads_this_machines_clock():
    assert reads_of_the_clock("import time\na = time.time() + datetime.now(UTC)") == 2
    counts = {
        path.relative_to(ROOT).as_posix(): reads_of_the_clock(path.read_text())
        for path in (ROOT / "jobs").rglob("*.py")
    }
    assert {name: count for name, count in counts.items() if count} == OWN_CLOCK


@pytest.fixture(params=[-3, 3])
def wrong_clock(request, monkeypatch):
    """Let the clock of this machine be hours off for this project, though not for Azure."""
    off = timedelta(hours=request.param)

    class Shifted(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + off

    for name, module in list(sys.modules.items()):
        if name.startswith("jobs.") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", Shifted)
    return f"{request.param % 24}h"


def test_a_clock_that_is_hours_off_changes_no_decision(live, outputs, wrong_clock, capsys):
    cluster = outputs.clusters["gpu"]
    offers = [Offer("gpu", NodeChoice(cluster.name, nodes), 1, 8) for nodes in (2, 1)]
    choices = {TAG: Choices(MoveRules(1.0, 1.0), tuple(offers)).tag, NUMBER: "0"}
    asks = mark(ResubmitOptions())
    stopped = begin(live, f"late-{wrong_clock}", "exit 143", cluster=cluster, tags=asks)
    wait_for(lambda: status(live, stopped) == "Failed", 30)
    live.azure.admin.capacity(cluster=f"{live.workspace}/computes/{cluster.name}", nodes=1)
    early = f"early-{wrong_clock}"
    queued = begin(live, early, ": x", cluster=cluster, nodes=2, tags={**choices, **asks})
    wait_for(lambda: status(live, queued) == "Queued", 30)
    capsys.readouterr()
    assert {requests.datetime, vars(supervision_pass)["datetime"]}.isdisjoint({datetime})
    assert main(["supervise", "--once"]) == 0
    said = capsys.readouterr().out
    # Neither has it waited for an hour, nor is the pause of a minute over.
    assert f"{early}: {early}-r1 Queued\n" in said
    assert MOVED not in live.azure.resources.get(queued)["properties"]["tags"]
    [pause] = re.findall(rf"late-{wrong_clock}: interrupted: .*, in (\d+) s at the earliest", said)
    # Dates of responses have whole seconds.
    assert 0 < int(pause) <= 62
    live.azure.scheduler.cancel(queued)
    live.azure.resources.update(stopped, {"tags": {}})
