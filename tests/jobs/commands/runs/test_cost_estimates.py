"""`cost --estimates`: what leaves know of completed runs stands below the costs."""

from types import SimpleNamespace

import pytest

from common.errors import ConfigError
from jobs.azure.job_records import Job
from jobs.commands.runs import compare, cost
from jobs.errors import MissingError


def test_estimates_are_those_of_runs():
    with pytest.raises(ConfigError, match="pass it with --by run"):
        cost.CostOptions(by="week", estimates=True)


def test_each_run_with_files_is_told_with_its_attempts_in_order(monkeypatch):
    def files(_, keys):
        if keys == ["empty"]:
            raise MissingError("no files")
        return {key: {"result.json": b"{}"} for key in keys}

    leaf = SimpleNamespace(about_run="some:where")
    monkeypatch.setattr(cost, "read_files", files)
    monkeypatch.setattr(compare, "LEAVES", (leaf,))
    monkeypatch.setattr(
        compare, "load", lambda _: lambda run, _: f"{run.key}: {[job.name for job in run.jobs]}"
    )
    groups = {
        key: [Job(f"{key}-r{number}", "Completed", "gpu", 1, None, None, {"run": key})
              for number in (2, 1)]
        for key in ("a", "empty")
    }  # fmt: skip
    found = {job.name: None for jobs in groups.values() for job in jobs}
    told = cost._about(SimpleNamespace(storage=None), None, groups, found)
    assert told == ["a: ['a-r1', 'a-r2']"]
