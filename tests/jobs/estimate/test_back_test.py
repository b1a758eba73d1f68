"""How well publishers that were left out are predicted, and that the document says the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.estimate.back_test import (
    CLASSES,
    DOCUMENT,
    back_test,
    cases,
    filled,
    main,
    published,
    quantile,
    ranges,
    unseen,
)
from jobs.estimate.published import (
    RESNETS,
    SHIPPED,
    read,
    relative_time,
    shipped,
    two_point,
    without,
    work,
)

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
    from dataclasses import replace

    return replace(row, efficiency=row.efficiency / 2)


def test_ranges_hold_nine_tenths_of_the_rows_that_they_are_made_of():
    found = cases(shipped())
    for name, bounds in ranges(found).items():
        own = [case for case in found if case.name == name]
        held = sum(bounds.holds(case) for case in own) / len(own)
        assert 0.85 <= held <= 0.95, name
        assert bounds.low < 1 < bounds.high


def test_the_table_of_the_document_is_that_of_the_shipped_measurements():
    text = DOCUMENT.read_text()
    assert "<!-- back-test -->" in text
    assert filled(text) == text


def test_few_rows_make_few_classes_and_no_error():
    few = [row for row in shipped() if row.publisher in ("nvidia", "lambda")]
    assert set(back_test(few)) <= set(CLASSES)
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
    assert fit.between("InfiniBand").amount < fit.between("TCP").amount / 3


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
    (node,) = [row for row in rows if row.startswith("| one GPU | the whole node")]
    assert node.split("|")[3].strip() == "33"
    found = unseen(read(tmp_path / "rows.csv"), shipped())
    assert found["gpu-node"].median < 0.05
    assert 0 < found["gpu-node"].coverage <= 1
