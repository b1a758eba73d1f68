"""What all plots have in common: their look, and how they get into a page.

Colours are names of CSS variables, which the page's script looks up, so that the plots follow the
reader's light or dark mode.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

AXIS: dict[str, Any] = {
    "gridcolor": "var(--line)",
    "linecolor": "var(--line)",
    "zeroline": False,
    "automargin": True,
}
"""What every axis begins with."""


@dataclass(frozen=True)
class Plot:
    """A plot that is drawn."""

    id: str
    title: str
    reading: str
    """How to read it, in one line."""
    summary: str
    """The same in words, for those who do not see it."""
    json: str
    height: float | None = None
    """In rem; none is that of the style sheet."""


def styled(traces: Sequence[Any]) -> go.Figure:
    """A figure in the colours and fonts of the page, with a legend if there is a choice."""
    figure = go.Figure(list(traces))
    several = len(traces) > 1
    figure.update_layout(
        template="none",
        font={"family": "system-ui, sans-serif", "size": 12, "color": "var(--muted)"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 8, "r": 12, "t": 34 if several else 20, "b": 8},
        hoverlabel={
            "bgcolor": "var(--surface)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--ink)"},
        },
        showlegend=several,
        legend={"orientation": "h", "x": 0, "y": 1.09, "yanchor": "bottom", "xanchor": "left"},
    )
    return figure


def to_json(figure: go.Figure) -> str:
    """A figure as JSON that does not end the element of the page that it stands in."""
    return str(figure.to_json()).replace("<", "\\u003c")


def plain(name: str) -> str:
    """A name that plotly, which reads markup in texts, takes for nothing else."""
    return html.escape(name, quote=False)
