"""The style of all plots, and their embedding in a page.

Colours are names of CSS variables, which the page's script resolves, so that the plots follow the
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
"""Properties of every axis."""


@dataclass(frozen=True)
class Plot:
    """A plot with its texts."""

    id: str
    title: str
    reading: str
    """How to read the plot, in one line."""
    summary: str
    """Description of the plot for screen readers."""
    json: str
    height: float | None = None
    """Height in rem; None is that of the style sheet."""


def styled(traces: Sequence[Any]) -> go.Figure:
    """Return a figure in the style of the page, with a legend if it has several traces."""
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
    """Return a figure as JSON, escaped so that it cannot end the script element around it."""
    return str(figure.to_json()).replace("<", "\\u003c")


def plain(name: str) -> str:
    """Escape a name, because plotly interprets markup in texts."""
    return html.escape(name, quote=False)
