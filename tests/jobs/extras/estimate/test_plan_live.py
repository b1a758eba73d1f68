"""`plan` of a stack, against the simulator of Azure."""

import json
from pathlib import Path

import pytest

from jobs import throughput
from jobs.azure import node_prices
from jobs.cli import main
from jobs.errors import UnreachableError
from tests.jobs.extras.estimate.support import point


@pytest.fixture(autouse=True)
def no_stored_prices(tmp_path, monkeypatch):
    monkeypatch.setattr(node_prices.known, "__defaults__", (None, tmp_path / "prices"))


def plan(live, capsys, *args):
    assert main(["plan", "--outputs", str(live.file), *args]) == 0
    return capsys.readouterr()


def test_a_stack_is_planned_with_its_clusters_and_the_prices_of_its_region(live, tmp_path, capsys):
    document = json.loads(plan(live, capsys, "--json").out)
    kinds = {(choice["size"], choice["priority"]) for choice in document["choices"]}
    clusters = [one for one in live.outputs.clusters.values() if one.gpus_per_node]
    assert kinds == {(cluster.size, cluster.priority) for cluster in clusters}
    assert all(choice["cost"] is not None for choice in document["choices"])
    assert "Azure Machine Learning, VM sizes of the region" in plan(live, capsys).out


def test_without_an_answer_a_stack_has_only_the_recorded_prices_of_its_region(
    live, tmp_path, capsys, monkeypatch
):
    def refuse(_):
        raise UnreachableError("Azure does not answer")

    monkeypatch.setattr("jobs.azure.costs.read_prices", refuse)
    shown = plan(live, capsys)
    assert "prices of the workspace are not known: Azure does not answer" in shown.err
    # The recorded prices are those of another region.
    region = live.outputs.region
    assert ("SkyPilot's catalogue of Azure prices" in shown.out) == (region == "eastus")
    assert ("asks Azure's public list" in shown.out) == (region != "eastus")


def test_a_plan_of_a_stack_rests_on_the_newest_point_of_all_of_its_sweeps(
    live, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sweeps = Path(throughput.FOLDER)
    for stack, name, day, rate in (
        ("dev", "old", 1, 8000.0), ("dev", "new", 3, 8500.0), ("dev", "older", 2, 8100.0),
        ("prod", "newest", 4, 1.0),
    ):  # fmt: skip
        measured = point(1, rate, at=f"2026-11-{day:02}T00:00:00Z")
        throughput.append(sweeps / stack / name / throughput.FILE, measured)
    shown = plan(live, capsys, "--nodes", "1", "--json")
    assert "scaling/dev/new/points.jsonl, scaling/dev/old/points.jsonl" in shown.err
    document = json.loads(shown.out)
    (choice,) = document["choices"]
    assert choice["basis"] == "measured"
    assert choice["images_per_s"][1] == pytest.approx(8500, rel=0.01)
    assert "2026-11-03" in choice["rows"][0]
    other = str(sweeps / "dev" / "old" / throughput.FILE)
    document = json.loads(plan(live, capsys, "--nodes", "1", "--json", "--measured", other).out)
    assert document["choices"][0]["images_per_s"][1] == pytest.approx(8000, rel=0.01)


def test_a_plan_uses_the_points_of_a_stack_only_if_the_stack_is_named(
    live, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for nodes in (1, 2):
        file = Path(throughput.FOLDER) / "dev" / "day" / throughput.FILE
        throughput.append(file, point(nodes, 8000.0 * nodes))
    given = ["--preset", "imagenet-ndv2", "--nodes", "1", "2", "--json"]
    choices = json.loads(plan(live, capsys, *given).out)["choices"]
    bases = {choice["nodes"]: choice["basis"] for choice in choices}
    assert bases == {1: "measured", 2: "measured"}
    monkeypatch.setenv("JOBS_OUTPUTS", str(live.file))
    assert main(["plan", *given]) == 0
    choices = json.loads(capsys.readouterr().out)["choices"]
    assert "measured" not in {choice["basis"] for choice in choices}


def test_another_network_of_a_newer_sweep_does_not_hide_a_point(
    live, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, day, values in (("old", 1, {}), ("new", 2, {"model": "ResNet-101"})):
        file = Path(throughput.FOLDER) / "dev" / name / throughput.FILE
        throughput.append(file, point(1, 8000.0, at=f"2026-11-0{day}T00:00:00Z", **values))
    shown = plan(live, capsys, "--nodes", "1", "--json")
    assert json.loads(shown.out)["choices"][0]["basis"] == "measured"
