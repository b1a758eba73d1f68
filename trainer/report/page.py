"""What the pages about runs and data sets have in common, and their formats."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from common import text
from common.page.parts import Page
from common.page.render import render
from trainer.report.plots import Plot


@dataclass(frozen=True, kw_only=True)
class ReportPage(Page):
    """A page with plots."""

    plots: Sequence[Plot]
    hint: str = ""
    """How to use and read the plots."""

    def html(self, template: str) -> str:
        """Return the page as HTML, laid out by a template of this package."""
        # Nothing in plotly's code may end the script element around it.
        plotly = get_plotlyjs().replace("</script", "<\\/script") if self.plots else ""
        return render("trainer.report", template, page=self, plotly=plotly)


@dataclass(frozen=True)
class PredictionSections:
    """What the page of a run shows of its predictions on held-out images, as HTML."""

    counts: Markup
    """Numbers by class."""
    examples: Markup
    """A few examples."""

    @classmethod
    def render(cls, package: str, **values: object) -> Self:
        """Render counts.html and examples.html of a package."""
        names = ("counts.html", "examples.html")
        # Both are HTML already, with every value escaped.
        return cls(*(Markup(render(package, name, **values)) for name in names))  # noqa: S704


def count(value: float | None) -> str | None:
    """Format a whole number, if there is one."""
    return None if value is None else f"{value:,.0f}"


def percent(value: float | None) -> str | None:
    """Format a fraction as a percentage, if there is one."""
    return None if value is None else f"{value:.2%}"


def duration(seconds: float | None) -> str | None:
    """Format a duration, if there is one."""
    return None if seconds is None else text.duration(seconds)
