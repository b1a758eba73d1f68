"""`plan`: its table, sentences, JSON and refusals."""

import json
from dataclasses import asdict, replace

import pytest

from common.errors import ConfigError
from jobs import throughput
from jobs.azure import node_prices
from jobs.cli import main
from jobs.extras.estimate.command import PlanOptions, choices_of, explained, measured, wanted
from jobs.extras.estimate.report import Report, Wish
from tests.jobs.extras.estimate.support import NDV2, forecaster, point
from tests.jobs.support.platform import platform


@pytest.fixture(autouse=True)
def no_stored_prices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(node_prices.known, "__defaults__", (None, tmp_path / "prices"))


def report_of(points=(), **given):
    options, made = PlanOptions(**given), forecaster(points=points)
    return Report(made, choices_of(made, wanted(options, None)), options.wish)


def text_of(report):
    return " ".join(" ".join(report.lines()).split())


def run(capsys, *args):
    status = main(["plan", *args])
    return status, capsys.readouterr()


def test_the_plan_of_imagenet_fits_a_terminal_and_says_what_it_rests_on(capsys):
    status, shown = run(capsys, "--deadline", "2h")
    assert status == 0
    text = " ".join(shown.out.split())
    for words in (
        "cheapest within 2 h, even at the slow end: ",
        "4 h between losses of a Spot node",
        "measure two nodes",
        "published, by rows of the same nodes: within a factor of ",
        "prices: eastus, in USD: SkyPilot's catalogue",
        "2026-11-23",
    ):
        assert words in text
    lines = shown.out.splitlines()
    assert max(len(line) for line in lines if "https://" not in line) <= 80


def test_json_has_every_choice_with_its_rows_price_and_date(capsys):
    _, shown = run(capsys, "--json", "--budget", "60", "--nodes", "1", "2")
    document = json.loads(shown.out)
    assert document["prices"] == "eastus, in USD"
    for choice in document["choices"]:
        known = choice["images_per_s"] is not None
        assert known == bool(choice["rows"]) == (choice["basis"] != "?") == bool(choice["factor"])
        assert choice["steps"] > 0
        if choice["cost"] is not None:
            assert choice["price_date"].startswith("2026-")
            price = choice["node_price"] * choice["nodes"]
            # The high end of Spot is by the pay-as-you-go price.
            count = 3 if choice["priority"] == "Dedicated" else 2
            costs = [round(hours * price, 2) for hours in choice["hours"]]
            assert costs[:count] == pytest.approx(choice["cost"][:count], abs=0.01)
    holds = [each["holds"] for each in document["recommended"]]
    assert holds == ["even at the slow end", "by the middle"]


def test_a_choice_is_explained_with_its_rows_factor_and_price(capsys):
    _, shown = run(capsys, "--explain", "ND40rs_v2:4")
    for words in (
        "ND40rs_v2:4, LowPriority: published", "NVIDIA/DeepLearningExamples", "(2023-04-17)",
        "14,076 steps", "held-out rows", "tools.benchmarks decoding", "22.032 USD an hour and node",
    ):  # fmt: skip
        assert words in shown.out


@pytest.mark.parametrize("key", ["ND40rs_v2", "ND40rs_v2:0", "ND40rs_v2:x", "D4ads_v5:1", "X:1"])
def test_a_choice_that_cannot_be_is_refused(key):
    with pytest.raises(ConfigError, match="must be SIZE:NODES, with one of ND40rs_v2"):
        explained(key, forecaster())


def test_more_nodes_than_azure_allows_are_not_explained():
    with pytest.raises(ConfigError, match=r"--explain: 101 nodes, but .* at most 100"):
        explained("ND40rs_v2:101", forecaster())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "vgg16"}, "'vgg16' must be one of resnet50"),
        ({"deadline": "2h", "budget": 5.0}, "pass one of them"),
        ({"deadline": "soon"}, "must be a time"),
        ({"nodes": (0, 1)}, "must be 1 or more"),
        ({"nodes": (1, 200)}, "--nodes: 200 nodes, but a run can have at most 100: Azure"),
        ({"images": 100}, "pass all of them, or --data"),
        ({"data": "x", "images": 1, "gigabytes": 1.0, "pixels": 1.0}, "its manifest has"),
        ({"run": "a"}, "name the stack of the run"),
    ],
)
def test_wishes_that_cannot_be_are_refused(options, words):
    from jobs.extras.estimate.command import run as plan

    with pytest.raises(ConfigError, match=words):
        plan(PlanOptions(**options), None, as_json=False)


@pytest.mark.parametrize("option", PlanOptions.GONE)
def test_an_option_of_earlier_versions_is_refused_with_what_to_use(capsys, option):
    flag = f"--{option.replace('_', '-')}"
    status, shown = run(capsys, flag, "3")
    assert status != 0
    assert f"{flag}: version 0.1.0 was the last with it; " in " ".join(shown.err.split())


def test_the_cheapest_within_hours_and_the_fastest_for_an_amount_are_recommended():
    choices = report_of().choices
    known = [one for one in choices if one.recommendable]
    for hours in (1.0, 3.0, 20.0):
        best, possible = Wish(hours=hours).best(choices, lambda span: span.middle)
        costs = [one.cost.middle for one in known if one.hours.middle <= hours]
        assert (best.cost.middle, possible) == (min(costs), True) if costs else not possible
    for amount in (20.0, 90.0):
        best, possible = Wish(amount=amount).best(choices, lambda span: span.high)
        hours = [one.hours.high for one in known if one.cost.high <= amount]
        assert (best.hours.high, possible) == (min(hours), True) if hours else not possible


def test_an_impossible_wish_names_the_nearest_choice_and_one_of_nothing_says_so():
    assert "even at the slow end: not possible; nearest is ND40rs_v2:" in text_of(
        report_of(deadline="1min")
    )
    nothing = Report(forecaster(), [], Wish(hours=1.0))
    assert "nothing is known of any choice" in text_of(nothing)


def test_sizes_without_a_row_are_in_the_table_with_question_marks():
    lines = list(report_of().lines())
    for name in ("NC4as_T4_v3:1", "NC40ads_v5:1"):
        (row,) = [line for text in lines for line in text.splitlines() if line.startswith(name)]
        assert row.split()[1:] == ["ded.", "?", "?", "?"]


def test_every_point_that_is_not_used_is_named_with_the_reason():
    points = [point(1, 9000.0, batch_per_rank=64, at="2026-11-01"), point(1, 9000.0)]
    report = report_of(points)
    line = "ND40rs_v2, 1 x 8 ranks, 2026-11-01: batch of a rank 64, not 256"
    assert report.document()["points_not_used"] == [line]
    assert f"measured, but not used: {line}" in text_of(report)


def test_a_stack_is_asked_for_its_own_clusters_sizes_and_numbers_of_nodes():
    options = PlanOptions(nodes=(1, 2, 4, 32))
    stack = platform(max_nodes=4, dedicated=True)
    assert wanted(options, stack) == [
        (NDV2, (1, 2, 4), "LowPriority"),
        (NDV2, (1, 2), "Dedicated"),
    ]
    with pytest.raises(ConfigError, match="no cluster with GPUs"):
        wanted(options, platform(size="Standard_D4ads_v5", gpus=0, infiniband=False))


def test_a_size_without_gpus_has_no_estimate():
    size = replace(NDV2, name="Standard_D4ads_v5", gpus=0)
    assert forecaster().choice(size, 1, "LowPriority").reason == "Standard_D4ads_v5 has no GPU"


def test_measured_points_are_read_and_named(capsys, tmp_path):
    file = tmp_path / "points.jsonl"
    file.write_text(json.dumps(asdict(point(1, 9400.0, 9500.0))) + "\n")
    _, shown = run(capsys, "--measured", str(file), "--explain", "ND40rs_v2:1")
    assert "measured on Standard_ND40rs_v2" in shown.out


def test_the_card_of_this_machine_is_found_without_an_option(capsys, tmp_path):
    file = tmp_path / "scaling" / "gpu" / "points.jsonl"
    file.parent.mkdir(parents=True)
    card = point(1, 1000.0, size="this machine", ranks=1, environment={"gpu": "Tesla T4"})
    file.write_text(json.dumps(asdict(card)) + "\n")
    _, shown = run(capsys, "--explain", "NC4as_T4_v3:1")
    assert "NC4as_T4_v3:1, Dedicated: measured" in shown.out
    assert "measured points: scaling/gpu/points.jsonl" in shown.err


def test_the_points_of_all_measurements_of_a_stack_are_read_the_oldest_first(tmp_path):
    for name, day in (("b", "2026-11-20"), ("a", "2026-11-21")):
        file = tmp_path / throughput.FOLDER / "dev" / name / throughput.FILE
        throughput.append(file, point(1, 9000.0, at=day))
    stack = platform()
    assert [each.at for each in measured(outputs=stack)] == ["2026-11-20", "2026-11-21"]
    assert measured(outputs=replace(stack, stack="prod")) == ()


@pytest.mark.parametrize("line", ["{\n", '{"rates": [1]}\n', '{"size": 1}\n', '"text"\n'])
def test_a_line_that_is_no_point_is_named(capsys, tmp_path, line):
    file = tmp_path / "points.jsonl"
    file.write_text(line)
    status, shown = run(capsys, "--measured", str(file))
    assert status == 1
    assert "points.jsonl, line 1: is not a measured point" in shown.err
