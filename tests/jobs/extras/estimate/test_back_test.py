"""How well publishers that were left out are predicted."""

from dataclasses import replace
from math import exp, hypot, log
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.extras.estimate.back_test import (
    CLASSES,
    Case,
    Range,
    Ranges,
    _cold,
    back_test,
    cases,
    main,
    published,
    quantile,
    unseen,
)
from jobs.extras.estimate.fit import relative_time, two_point, work
from jobs.extras.estimate.published import RESNETS, SHIPPED, read, shipped, without
from jobs.extras.estimate.rates import rate
from tests.jobs.extras.estimate.support import NDV2, workload

LARGEST = st.integers(2, 512)
LOSS = st.floats(0, 2)


def test_a_publisher_has_no_part_in_the_prediction_of_its_own_rows():
    others = without(shipped(), "dlperf")
    wrong = [
        row if row.publisher != "dlperf" or not row.efficiency else _halved(row)
        for row in shipped()
    ]
    mine = {c.row.source: c.predicted for c in cases(shipped()) if c.row.publisher == "dlperf"
            and c.name == "gpu-node"}  # fmt: skip
    changed = {c.row.source: c.predicted for c in cases(wrong) if c.row.publisher == "dlperf"
               and c.name == "gpu-node"}  # fmt: skip
    assert mine
    assert mine == changed
    assert not {row.publisher for row in others} & {"dlperf"}


def _halved(row):
    return replace(row, efficiency=row.efficiency / 2)


def test_one_known_gpu_predicts_a_node_within_three_percent_in_the_middle():
    errors = [case.error for case in cases(shipped()) if case.name == "gpu-node"]
    assert len(errors) > 400
    assert median(errors) <= 0.03


def test_a_class_without_rows_has_the_range_of_its_kind_and_a_kind_without_rows_has_none():
    ranges = published()[1]
    unknown = ranges.of(("gpu-node", "Hopper", "amp"))
    assert (unknown.rows, unknown.publishers) == (0, 0)
    assert unknown.low < 0.9
    assert unknown.high > 1.1
    assert Ranges([]).of(("gpu", "Volta", "amp")) is None


def test_a_range_widens_with_the_deviation_of_publishers_and_shrinks_with_their_number():
    def made(*ratios):
        rows = [row for row in shipped() if row.model == "ResNet-50" and row.gpu_type == "V100"
                and row.precision == "amp"][: len(ratios)]  # fmt: skip
        named = [
            replace(row, series=f"{'abcdefghij'[number]}/x") for number, row in enumerate(rows)
        ]
        found = [Case("gpu", row, 1.0, ratio) for row, ratio in zip(named, ratios, strict=True)]
        return Ranges(found).of(("gpu", "Volta", "amp"))

    near, far = made(0.95, 1.0, 1.05), made(0.7, 1.0, 1.4)
    assert far.low < near.low < near.high < far.high
    more = made(0.95, 1.0, 1.05, 0.95, 1.0, 1.05, 1.0, 0.97)
    assert more.high - more.low < near.high - near.low
    assert near.publishers == 3


def test_two_independent_deviations_add_as_squares():
    found = Range(0.8, 1.25, 5, 2).also(Range(0.93, 1.0, 3, 1))
    assert found.low == pytest.approx(exp(-hypot(log(0.8), log(0.93))))
    assert found.high == pytest.approx(1.25)


def test_few_rows_make_few_classes_and_no_error():
    few = [row for row in shipped() if row.publisher in ("nvidia", "lambda")]
    assert {kind for kind, *_ in back_test(few)} <= set(CLASSES)
    assert back_test(()) == {}


@given(LOSS, LOSS, st.sampled_from([1, 2, 4, 8, 16]), LARGEST)
def test_images_of_a_node_never_rise_with_nodes(a, b, gpus, nodes):
    assert relative_time(a, b, gpus, nodes) >= relative_time(a, b, gpus, nodes - 1)


@given(st.floats(0.01, 10), st.floats(0.01, 10), LARGEST)
def test_a_ring_adds_at_most_twice_what_the_second_node_did(one, two, nodes):
    time = two_point(one, two, nodes)
    assert one <= two_point(one, two, nodes - 1) <= time * (1 + 1e-12)
    assert time <= one + 2 * max(two - one, 0) + 1e-9
    assert two_point(one, two, 1) == one
    assert two_point(one, two, 2) == pytest.approx(max(one, two))


@given(st.lists(st.floats(0, 10), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_between_the_ends(values, part):
    assert min(values) <= quantile(values, part) <= max(values)
    assert quantile(values, 0) == min(values)
    assert quantile(values, 1) == max(values)


def test_losses_are_those_of_their_link_precision_and_network():
    fit, _ = published()
    nvlink, pcie = fit.inside("NVLink 2", "fp32"), fit.inside("PCIe", "fp32")
    assert nvlink.amount < pcie.amount
    assert {row.link for row in nvlink.rows} == {"NVLink 2"}
    assert fit.between("InfiniBand", "fp32").amount < fit.between("TCP", "fp32").amount / 3
    # Half precision halves the step and not the exchange.
    assert fit.between("InfiniBand", "amp").amount > fit.between("InfiniBand", "fp32").amount


def test_a_class_of_one_publisher_gives_way_to_a_wider_one():
    fit, _ = published()
    assert {row.publisher for row in shipped() if row.link == "NVLink 1"} == {"tfguide"}
    assert fit.inside("NVLink 1", "fp32").of == "NVLink, fp32"


def test_deeper_networks_take_longer_by_less_than_their_multiply_adds():
    assert work("ResNet-50") == 1
    for model, macs in RESNETS.items():
        assert work(model) <= macs / RESNETS["ResNet-50"]
    assert work("ResNet-152") > work("ResNet-101") > 1


def test_rows_of_a_file_are_predicted_from_the_others(tmp_path, capsys):
    """The rows are copies under the name of another publisher."""
    lines = SHIPPED.read_text().splitlines()
    copied = [line.replace(",dlperf/", ",another/") for line in lines[1:] if ",dlperf/" in line]
    (tmp_path / "rows.csv").write_text("\n".join([lines[0], *copied]))
    assert main([str(tmp_path / "rows.csv")]) == 0
    rows = capsys.readouterr().out.splitlines()
    nodes = [row for row in rows if row.startswith("| one GPU | the whole node")]
    assert sum(int(row.split("|")[4]) for row in nodes) == 33
    found = unseen(read(tmp_path / "rows.csv"), shipped())
    plain = found["gpu-node", "Volta", "fp32"]
    assert plain.median < 0.05
    assert 0 < plain.coverage <= 1
    assert 0 < found["gpu-node", "Volta", "amp"].range.low < 1


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_a_plan_has_the_rate_of_one_gpu_that_the_back_test_judges(precision):
    judged = set()
    for batch in ("64", "128", "256"):
        run = workload("--compute.precision", precision, "--batch-size", batch)
        row = next(
            row
            for row in shipped()
            if (row.gpu_type, row.precision) == ("V100", run.precision_on("V100"))
            and (row.model, row.image_size, row.software) == ("ResNet-50", 224, run.software)
        )
        judged.add(_cold(published()[0], row))
        planned = rate(run, NDV2, 1)
        assert not isinstance(planned, str), planned
        assert planned.one_gpu in judged
    assert len(judged) == 1


def test_xla_is_found_in_the_name_of_a_series_however_it_is_written():
    row = next(row for row in shipped() if row.software == "TensorFlow")
    assert replace(row, series="dlperf/ngc-tf1-xla").software == "TensorFlow with XLA"
