"""How far off held-out rows were, and that ranges hold what had no part in them."""

from dataclasses import replace

import pytest

from jobs.extras.estimate.factors import (
    CLASSES,
    DOCUMENT,
    Case,
    borne_out,
    factor,
    factors,
    filled,
    held_out,
    nearest,
    published,
)
from jobs.extras.estimate.rows import Row, own_rows, shipped, wanted_row
from tests.jobs.extras.estimate.support import NDA100, NDV2, ONE_A100, point, workload

CONFIG = workload().config
ROW = Row("a.md", "2026", "one/a", "ResNet-50", 256, "amp", "TensorFlow", "V100", 8, 1, "", 8000.0)


def row(publisher, rate, gpus=8, nodes=1, **values):
    network = values.pop("network", "InfiniBand") if nodes > 1 else ""
    shape = {"gpus_per_node": gpus, "nodes": nodes, "network": network}
    return replace(ROW, series=f"{publisher}/x", images_per_s=rate, **shape, **values)


def test_a_held_out_row_is_estimated_by_rows_of_others_alone():
    rows = [row("one", 8000.0), row("two", 4000.0), row("two", 5000.0, note="again")]
    ratios = {case.row.images_per_s: case.ratio for case in held_out(rows)}
    assert ratios == {8000: 8000 / 4500, 4000: 0.5, 5000: 5000 / 8000}


def test_what_a_user_measures_is_held_out_within_a_system():
    rows = [
        *(row("one", 1000.0, 1), row("one", 7000.0), row("one", 12_000.0, nodes=2)),
        *(row("one", 9000.0, nodes=2, network="TCP"), row("one", 15_000.0, nodes=4, network="TCP")),
        row("one", 6300.0, data="real"),
    ]
    found = {
        (case.of_class, case.row.images_per_s): round(case.ratio, 3) for case in held_out(rows)
    }
    assert found == {
        (("measured", "the same nodes"), 6300): 0.9,
        (("measured", "another number of GPUs"), 7000): 0.875,
        (("measured", "fewer nodes, InfiniBand"), 12_000): 0.857,
        (("measured", "two nodes and more, TCP"), 15_000): 0.833,
    }


def test_a_factor_holds_19_of_20_rows_of_every_publisher():
    own = [Case(CLASSES[0], row("one", 1.0), 1 + index / 100) for index in range(20)]
    other = [Case(CLASSES[0], row("two", 1.0), 0.5)]
    found = factor([*own, *other])
    assert (found.rows, found.publishers) == (21, 2)
    assert found.off == pytest.approx(found.usual / 0.5)
    assert sum(factor(own).holds(case.ratio) for case in own) >= 19


def test_factors_are_those_of_the_rows_and_every_class_has_one():
    assert list(published()) == list(CLASSES)
    assert published() == factors(shipped())
    assert all(1 < found.off < 2 and 0.7 < found.usual <= 1 for found in published().values())
    # A measurement of one's own is worth more than that of others.
    for way in {way for _, way in CLASSES} - {"two nodes and more, TCP"}:
        assert published()["measured", way].off < published()["published", way].off


def test_rows_of_publishers_lie_within_the_factors_that_they_had_no_part_in():
    tested = borne_out(shipped())
    assert list(tested) == list(CLASSES)
    for each, (inside, of) in tested.items():
        assert of >= 20, each
        assert inside >= 0.85 * of, (each, inside, of)
    assert sum(inside for inside, _ in tested.values()) >= 0.95 * sum(
        of for _, of in tested.values()
    )


def test_the_table_of_the_page_is_that_of_the_rows():
    text = DOCUMENT.read_text()
    assert filled(text) == text
    assert "<!-- factors -->" in text


@pytest.mark.parametrize(
    ("size", "nodes", "points", "rests_on", "rate"),
    [
        (NDV2, 1, [(1, 9000.0)], "the same nodes", 9000),
        (NDV2, 4, [(1, 9000.0), (2, 16_000.0)], "fewer nodes, InfiniBand", 32_000),
        (NDV2, 2, [(4, 32_000.0), (1, 9000.0)], "fewer nodes, InfiniBand", 18_000),
        (ONE_A100, 4, [(1, 2000.0), (2, 3000.0)], "two nodes and more, TCP", 6000),
    ],
)
def test_the_nearest_rows_of_the_user_are_taken(size, nodes, points, rests_on, rate):
    own = own_rows(
        [point(count, one, size=size.name, ranks=count * size.gpus) for count, one in points],
        CONFIG,
    )
    found = nearest(own, wanted_row(CONFIG, size, nodes))
    assert (found.of_class, found.images_per_s) == (("measured", rests_on), rate)


def test_one_card_says_something_of_a_node_with_it_and_nothing_of_several():
    own = own_rows([point(1, 2000.0, size=ONE_A100.name, ranks=1)], CONFIG)
    found = nearest(own, wanted_row(CONFIG, NDA100, 1))
    assert (found.of_class, found.images_per_s) == (("measured", CLASSES[1][1]), 16_000)
    assert nearest(own, wanted_row(CONFIG, NDA100, 2)) is None
    assert nearest(own, wanted_row(CONFIG, NDV2, 1)) is None
    assert nearest(shipped(), wanted_row(CONFIG, ONE_A100, 2)) is None
