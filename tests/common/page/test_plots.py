"""Plots are laid out: axes with round values, and lines within them."""

import json

import pytest

from common.page.plots import HEIGHT, Scale, Series, plot


def drawn(values, scale, counts=None):
    ranges = [(n, (y, y, y)) for n, y in zip(counts or range(1, 99), values, strict=False)]
    return plot("t", "h", "step", [Series("a", ranges)], scale=scale, from_zero=True)


@pytest.mark.parametrize(
    ("values", "scale", "ticks"),
    [
        ([0.5, 2.9], Scale(from_zero=True), ["0", "0.5", "1", "1.5", "2", "2.5"]),
        ([0.97, 0.981], Scale(percent=True), ["97%", "97.2%", "97.4%", "97.6%", "97.8%", "98%"]),
        ([3.0, 4.0], Scale(from_zero=True, unit=" %"), ["0 %", "1 %", "2 %", "3 %", "4 %"]),
        ([0.1, 0.1], Scale(), ["0.096", "0.098", "0.1", "0.102", "0.104"]),
        ([6, 101], Scale(log=True), ["5", "10", "20", "50", "100", "200"]),
        ([1e-3, 4e9], Scale(log=True), ["0.001", "0.1", "10", "1k", "100k", "10M", "1G"]),
        ([32768, 32768], Scale(log=True), ["20k", "50k"]),
    ],
)
def test_an_axis_has_a_few_round_values(values, scale, ticks):
    shown = drawn(values, scale)
    assert [label for _, label in shown.ticks_y] == ticks
    heights = [y for y, _ in shown.ticks_y]
    assert heights == sorted(heights, reverse=True)
    assert all(0 <= y <= HEIGHT for y in heights)


def test_counts_begin_at_zero_and_the_last_is_inside():
    shown = drawn([1, 2, 3], Scale(), counts=[500, 1000, 2500])
    assert [label for _, label in shown.ticks_x] == ["0", "500", "1k", "1.5k", "2k", "2.5k"]
    assert 0 < shown.lines[0].marks[-1].x < shown.across.length


def test_a_logarithmic_scale_leaves_out_what_it_cannot_show():
    shown = drawn([0, 1, 100], Scale(log=True))
    assert len(shown.lines[0].marks) == 2
    assert drawn([0, -1], Scale(log=True)) is None


def test_a_line_has_a_band_if_its_values_have_ranges_and_tells_the_script_its_values():
    shown = plot(
        "t", "h", "nodes", [Series("a", [(1, (1, 2, 3)), (2, (2, 3, 4))], notes=["x", ""])]
    )
    assert shown.lines[0].band.count(" ") == 3
    assert json.loads(shown.lines[0].data) == [[1, 2, "x"], [2, 3, ""]]
    assert drawn([1, 2], Scale()).lines[0].band == ""


def test_several_lines_of_one_name_are_listed_once():
    lines = [Series("a", [(1, (1, 1, 1))], colour=n, label=str(n)) for n in (1, 2)]
    assert list(plot("t", "h", "step", lines).legend) == ["a"]
