"""The run report in a real browser: drawn, without an error, and as wide as a phone."""

import pytest

from tests.trainer.support.browser import SCHEMES, look, needs_chromium
from tests.trainer.support.written_run import HOSTILE, write_run
from trainer.report.write import write_report

pytestmark = [pytest.mark.slow, needs_chromium]


@SCHEMES
def test_a_browser_draws_every_plot_without_an_error(tmp_path, flags, background, colour):
    names = [HOSTILE, *(f"a rather long name of class {number}" for number in range(29))]
    runs = [
        write_run(tmp_path / "run", names=names, wrong=[(0, 1), (1, 0), (2, 9)], runs_dir=HOSTILE),
        write_run(tmp_path / ("<b>long" * 20), wrong=[(1, 2)]),
    ]
    one, both = write_report(runs[:1]), write_report(runs)
    pages = {"phone": (one, 360), "wide": (one, 1280), "compared": (both, 360)}
    seen, console = look(tmp_path, pages, *flags)
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
        curves = {key: plot["curves"] for key, plot in page["plots"].items()}
        several = 4 if name == "compared" else 2
        assert curves == {
            "plot-loss": several,
            "plot-accuracy": 4 if name == "compared" else 3,
            **dict.fromkeys(
                ("plot-rate", "plot-throughput", "plot-wait", "plot-gradient"), several // 2
            ),
        }
    assert len(seen["phone"]["images"]) == 3
