"""The page about a data set in a real browser: drawn, without an error, and as wide as a phone."""

import pytest

from tests.trainer.support.browser import SCHEMES, look, needs_chromium
from tests.trainer.support.data_sets.written_set import write_set
from tests.trainer.support.written_run import HOSTILE
from trainer.report.data_set_page import write_inspection
from trainer.report.options import InspectOptions

pytestmark = [pytest.mark.slow, needs_chromium]

FILTER = """((box) => {
  const shown = () => [...document.querySelectorAll(".class")]
    .filter((card) => card.getClientRects().length).length;
  if (!box) return [shown()];
  const type = (text) => {
    box.value = text;
    box.dispatchEvent(new Event("input"));
    return [shown(), document.getElementById("filtered").textContent];
  };
  return [box.getClientRects().length, shown(), type(" LASS 29"), type("none"), type("")];
})(document.getElementById("filter"))"""
"""Types into the filter, and tells how many classes are then shown."""


@SCHEMES
def test_a_browser_draws_the_counts_and_every_sample(tmp_path, flags, background, colour):
    def write(name, counts, names=None):
        write_set(tmp_path / name, counts, [1] * len(counts), names=names)
        return write_inspection(tmp_path / name, InspectOptions())

    few = write("few", [30, 9, 0], [HOSTILE, "x" * 80, "a name of several words that is long"])
    many = write("many" * 20, [max(1, 200 // (n + 1)) for n in range(300)])
    pages = {"phone": (few, 360), "wide": (few, 1280), "many": (many, 360)}
    seen, console = look(tmp_path, pages, *flags, more=FILTER)
    assert console == []
    for name, page in seen.items():
        assert page["width"] == pages[name][1]
        assert page["needs"] <= page["width"], name
        assert page["background"] == background
        assert page["loaded"] == []
        assert all(page["images"])
        for plot in page["plots"].values():
            assert plot["colour"] == colour
            assert plot["width"] <= plot["place"] + 1
        drawn = {key: (plot["curves"], plot["bars"]) for key, plot in page["plots"].items()}
        # A bar of each split for each class, or of each side for each bin.
        balance = (2, 0) if name == "many" else (0, 6)
        assert drawn == {"plot-balance": balance, "plot-sizes": (0, 20)}
    assert len(seen["wide"]["images"]) == 16
    assert seen["wide"]["more"] == [3]
    everything = [1, 300, [11, "11 of 300 classes"], [0, "0 of 300 classes"], [300, ""]]
    assert seen["many"]["more"] == everything
