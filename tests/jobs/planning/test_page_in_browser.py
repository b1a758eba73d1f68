"""The page of a plan in a real browser: drawn, without an error, and as wide as a phone."""

import pytest

from jobs.planning import page as pages
from jobs.planning.report import page_of
from tests.jobs.planning.support import point
from tests.jobs.planning.test_plan_command import plan_of
from tests.trainer.support.browser import look, needs_chromium

pytestmark = [pytest.mark.slow, needs_chromium]

DRAWN = """[document.querySelectorAll("svg .dot").length,
  document.querySelectorAll("svg polygon").length,
  Math.max(...[...document.querySelectorAll(".card")].map(
    (card) => card.scrollWidth - card.clientWidth)),
  getComputedStyle(document.querySelector("svg g")).color]"""


@pytest.mark.parametrize(
    ("flags", "background", "colour"),
    [((), "rgb(246, 247, 249)", "rgb(11, 92, 173)"),
     (("--force-dark-mode",), "rgb(15, 18, 22)", "rgb(108, 179, 247)")],
    ids=["light", "dark"],
)  # fmt: skip
def test_a_browser_draws_plots_and_table_within_the_screen(tmp_path, flags, background, colour):
    plan = plan_of(deadline="2h", points=[point(1, 9000.0), point(2, 17000.0)])
    file = pages.write(tmp_path / "plan.html", page_of(plan))
    # The page itself runs no scripts; the test's must.
    policy, allowed = "default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'"
    file.write_text(file.read_text().replace(policy, allowed))
    widths = {"phone": (file, 390), "wide": (file, 1280)}
    seen, console = look(tmp_path, widths, *flags, more=DRAWN)
    assert console == []
    for name, page in seen.items():
        assert page["needs"] <= page["width"] == widths[name][1]
        assert page["background"] == background
        assert page["loaded"] == []
        dots, bands, overflow, first = page["more"]
        assert dots > 15
        assert bands >= 4
        assert overflow <= 0, name
        assert first == colour
