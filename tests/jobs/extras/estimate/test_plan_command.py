"""`plan`: its table, sentences, JSON and page."""

import json
from dataclasses import asdict, replace

import pytest

from common.errors import ConfigError
from common.page import plots
from jobs.azure import node_prices
from jobs.cli import main
from jobs.extras.estimate.command import PlanOptions, explained, make_plan, wanted
from jobs.extras.estimate.report.page import Filing, page_of
from jobs.extras.estimate.report.table import explanation
from tests.jobs.extras.estimate.support import NDV2, forecaster, point
from tests.jobs.support.platform import platform


@pytest.fixture(autouse=True)
def no_stored_prices(tmp_path, monkeypatch):
    monkeypatch.setattr(node_prices.known, "__defaults__", (None, tmp_path / "prices"))


def plan_of(points=(), **options):
    options = PlanOptions(**options)
    return make_plan(forecaster(points=points), wanted(options, None), options)


def run(capsys, *args, page):
    status = main(["plan", "--page", str(page), *args])
    return status, capsys.readouterr()


def test_the_plan_of_imagenet_is_printed_and_drawn(capsys, tmp_path):
    status, shown = run(capsys, "--deadline", "2h", page=tmp_path / "plan.html")
    assert status == 0
    assert "cheapest within 2 h, even at the slow end: " in shown.out
    assert "4 h between losses" in shown.out
    assert "measure two nodes" in shown.out
    assert "were inside" in shown.out
    assert (tmp_path / "plan.html").read_text().count('class="plot card"') == 2
    assert max(map(len, shown.out.splitlines()[:-1])) <= 120
    lines = shown.out.splitlines()
    assert max(len(line) for line in lines if "https://" not in line and "page:" not in line) <= 80


def test_the_page_can_be_filed_and_repeated(capsys, tmp_path):
    page = tmp_path / "plan.html"
    campaign = ("--runs", "12", "--trials", "8", "--seeds", "3", "--failed", "10%")
    wish = ("--budget", "60000", "--begin", "2026-12-01", "--platform-month", "135")
    status, shown = run(capsys, *campaign, *wish, "--", "--epochs", "60", page=page)
    assert status == 0
    text = page.read_text()
    for words in (
        "12 runs x 3 seeds + 8 trials + 10% that fail = 49 runs",
        *("2026-12: ", "platform while no job runs", "135.00 USD a month", "starts of nodes"),
        *("to know better: points on", "past cases of this class", "were inside"),
        *("eastus, in USD", "Approved by", "Commit ", "momentum", "60 epochs", "to same accuracy"),
        *("deployable", "not asked: name a stack", "evaluation", "ImageNet: 1,281,167 images"),
    ):
        assert words in text, words
    assert "--runs 12 --seeds 3 --trials 8 --failed 10% --platform-month 135 " in text
    assert "-- --epochs 60" in text
    assert "src=" not in text
    assert "http-equiv" in text
    assert "campaign: 12 runs x 3 seeds" in " ".join(shown.out.split())


def test_what_measuring_would_narrow_is_computed_and_costs_what_its_nodes_do(capsys, tmp_path):
    plan = plan_of(deadline="2h", nodes=(4,))
    found = plan.knowing
    price = found.choice.price.amount
    assert found.money == pytest.approx(3 * (0.25 + 1 / 12) * price)
    widths = [one.money.high - one.money.low for one in (found.choice, found.after)]
    assert widths[1] < widths[0]
    assert found.after.basis == "measured"


def test_json_has_every_choice_and_null_for_what_is_not_known(capsys, tmp_path):
    _, shown = run(capsys, "--budget", "60", "--json", page=tmp_path / "plan.html")
    document = json.loads(shown.out)
    for choice in document["choices"]:
        unknown = choice["basis"] == "?"
        assert unknown == (choice["images_per_s"] is None) == (choice["hours"] is None)
        if choice["cost"] is not None:
            price = choice["node_price"] * choice["nodes"]
            costs = [round(hours * price, 2) for hours in choice["hours"]]
            # The high end of Spot is by the pay-as-you-go price.
            known = len(costs) if choice["priority"] == "Dedicated" else 2
            assert costs[:known] == pytest.approx(choice["cost"][:known], abs=0.01)
    assert [each["holds"] for each in document["recommended"]] == [
        "even at the slow end",
        "by the middle",
    ]
    known = {(c["size"].removeprefix("Standard_") + f":{c['nodes']}", c["priority"])
             for c in document["choices"] if c["cost"]}  # fmt: skip
    assert set(map(tuple, document["pareto_front"])) <= known


def test_a_choice_is_explained_with_formulas_sources_and_dates(capsys, tmp_path):
    _, shown = run(capsys, "--explain", "ND40rs_v2:4", page=tmp_path / "plan.html")
    for words in (
        "loss per doubling of nodes",
        "NVIDIA/DeepLearningExamples",
        "(2023-04-17)",
        "14,076",
        "tools.benchmarks decoding",
        "22.032 USD an hour",
        "the pay-as-you-go price, which Spot may reach",
        "hours x nodes x price",
    ):
        assert words in shown.out
    assert not (tmp_path / "plan.html").exists()


@pytest.mark.parametrize("key", ["ND40rs_v2", "ND40rs_v2:0", "ND40rs_v2:x", "D4ads_v5:1", "X:1"])
def test_a_choice_that_cannot_be_is_refused(key):
    with pytest.raises(ConfigError, match="must be SIZE:NODES, with one of ND40rs_v2"):
        explained(key, forecaster())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "vgg16"}, "'vgg16' was not measured"),
        ({"deadline": "2h", "budget": 5.0}, "pass one of them"),
        ({"deadline": "soon"}, "must be a time"),
        ({"nodes": (0, 1)}, "must be 1 or more"),
    ],
)
def test_wishes_that_cannot_be_are_refused_before_anything(options, words):
    with pytest.raises(ConfigError, match=words):
        PlanOptions(**options)


def test_an_impossible_wish_names_the_nearest_choice():
    text = " ".join(" ".join(plan_of(deadline="1min").lines()).split())
    assert "even at the slow end: not possible; nearest is ND40rs_v2:" in text


def test_a_wish_of_which_nothing_is_known_says_so():
    plan = plan_of(deadline="2h")
    unknown = replace(plan, advice=tuple(replace(one, choice=None) for one in plan.advice))
    assert "nothing is known of any choice" in "\n".join(unknown.lines())


def test_sizes_without_a_measurement_are_in_the_table_and_marked_as_assumed():
    text = "\n".join(plan_of().lines())
    for name in ("NC4as_T4_v3:1!", "NC40ads_v5:1!", "ND96isr_H200_v5:1!"):
        (row,) = [line for line in text.splitlines() if line.startswith(name)]
        assert row.endswith("assumed")


def test_a_stack_is_asked_for_its_own_clusters_sizes_and_numbers_of_nodes():
    options = PlanOptions(nodes=(1, 2, 4, 32))
    stack = platform(max_nodes=4, dedicated=True)
    assert wanted(options, stack) == [
        (NDV2, (1, 2, 4), "LowPriority"),
        (NDV2, (1, 2), "Dedicated"),
    ]
    with pytest.raises(ConfigError, match="no cluster with GPUs"):
        wanted(options, platform(size="Standard_D4ads_v5", gpus=0, infiniband=False))


def test_measured_points_are_read_and_shown_as_measured(capsys, tmp_path):
    file = tmp_path / "points.jsonl"
    file.write_text(json.dumps(asdict(point(1, 9400.0, 9500.0))) + "\n")
    _, shown = run(capsys, "--measured", str(file), page=tmp_path / "plan.html")
    assert "measured" in shown.out
    assert "measured on 1 x Standard_ND40rs_v2" in (tmp_path / "plan.html").read_text()


@pytest.mark.parametrize("line", ["{\n", '{"rates": [1]}\n', '{"size": 1}\n', '"text"\n'])
def test_a_line_that_is_no_point_is_named(capsys, tmp_path, line):
    file = tmp_path / "points.jsonl"
    file.write_text(line)
    status, shown = run(capsys, "--measured", str(file), page=tmp_path / "plan.html")
    assert status == 1
    assert "points.jsonl, line 1: is no measured point" in shown.err


def test_plots_draw_ranges_as_bands_and_measured_points_on_them():
    plan = plan_of(points=[point(1, 9000.0), point(2, 17000.0)])
    page = page_of(plan, Filing("today", "1", "x"))
    throughput, cost = page.sections[1].blocks[0].plots
    (first,) = [line for line in throughput.lines if line.name == "ND40rs_v2"]
    assert len(first.measured) == 2
    assert all(
        mark.top <= mark.y <= mark.bottom for line in throughput.lines for mark in line.marks
    )
    assert [line.name for line in cost.lines] == ["ND40rs_v2", "ND40rs_v2, LowPriority"]
    ticks = [y for y, _ in throughput.ticks_y]
    assert ticks == sorted(ticks, reverse=True)
    assert all(0 <= y <= plots.HEIGHT for y in ticks)


def test_a_plot_of_nothing_is_left_out_and_one_of_a_single_choice_is_drawn():
    assert plots.plot("a", "b", "nodes", []) is None
    one = plots.plot("a", "b", "nodes", [plots.Series("x", [(1, (5, 5, 5))])])
    assert len(one.lines[0].marks) == 1


def test_an_explanation_begins_with_what_it_rests_on():
    (dedicated, _) = explained("nd40rs_v2:1", forecaster())
    assert explanation(dedicated).startswith("ND40rs_v2:1, Dedicated: published")
