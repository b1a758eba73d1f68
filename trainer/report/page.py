"""HTML elements of the pages about runs and data sets."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from plotly.offline import get_plotlyjs

from common import text as words
from common.page.markup import ABSENT, document, section, text
from trainer.report.plots import Plot

_HERE = Path(__file__).parent
_STYLE = _HERE / "style.css"

# With this policy the browser itself blocks every request to a network.
_POLICY = "img-src data: blob:; script-src 'unsafe-inline'"


def page(title: str, body: str, plots: Sequence[Plot], more: Sequence[str] = ()) -> str:
    """Return a self-contained HTML page.

    Args:
        title: Title, plain text.
        body: HTML of the page, with a placeholder of `figures` for each plot.
        plots: Plots to draw.
        more: Names of further scripts beside this file to include.
    """
    scripts = ""
    if plots:
        data = "".join(
            f'<script type="application/json" data-plot="plot-{plot.id}">{plot.json}</script>\n'
            for plot in plots
        )
        library = get_plotlyjs().replace("</script", "<\\/script")
        scripts = f"{data}<script>{library}</script>\n"
    for name in (*(["script.js"] if plots else []), *more):
        scripts += f"<script>\n{(_HERE / name).read_text(encoding='utf-8')}</script>\n"
    return document(title, body, _POLICY, [_STYLE], scripts)


def layout(head: str, overview: str, sections: Mapping[str, tuple[str, str]], source: str) -> str:
    """Return the body of a page.

    Args:
        head: HTML of the head, above the links to the sections.
        overview: HTML of the overview, before the sections.
        sections: Title, as plain text, and HTML of each section, by id.
        source: HTML that says from which files and by which command the page was made.
    """
    links = "".join(
        f'<li><a href="#{identity}">{text(title)}</a></li>'
        for identity, (title, _) in sections.items()
    )
    return (
        f'<header>\n{head}<nav aria-label="Parts of the page"><ul>{links}</ul></nav>\n'
        f"</header>\n<main>\n{overview}"
        + "".join(section(identity, *parts) for identity, parts in sections.items())
        + f"</main>\n<footer>{source} This page loads nothing.</footer>\n"
    )


def notes(texts: Iterable[str]) -> str:
    """Return notes that a reader must know before the figures; the texts are plain."""
    return "".join(f'<p class="note"><strong>Note</strong> {text(note)}</p>\n' for note in texts)


def stats(entries: Iterable[tuple[str, str, str]]) -> str:
    """Return the most important figures: HTML of name and value, and a remark as plain text."""
    shown = "".join(
        f'<div class="stat"><dt>{label}</dt><dd class="value">{value}'
        "</dd>" + (f"<dd>{text(extra)}</dd>" if extra else "") + "</div>\n"
        for label, value, extra in entries
    )
    return f'<dl class="stats">\n{shown}</dl>\n'


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Return a table that scrolls if it is too wide.

    Args:
        caption: Caption, plain text.
        head: HTML of the column heads.
        rows: HTML of the cells; the first cell of each row is its head.
        kind: CSS classes.
    """
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(map(cell, row[1:]))}</tr>\n' for row in rows
    )
    return (
        f'<div class="scroll {kind}" tabindex="0" role="region" aria-label="{text(caption)}">'
        f"<table>\n<caption>{text(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{lines}</tbody></table></div>\n"
    )


def cell(content: str) -> str:
    """Return a table cell; content that is a cell already is returned as it is."""
    return content if content.startswith("<td") else f"<td>{content}</td>"


def figures(plots: Sequence[Plot]) -> str:
    """Return a placeholder for each plot, with its title and how to read it."""
    if not plots:
        return "<p>No curves: metrics.jsonl has no metrics yet.</p>\n"
    shown = "".join(
        f'<figure class="plot" id="{plot.id}">\n<figcaption><h3>{text(plot.title)}</h3>'
        f"<p>{text(plot.reading)}</p></figcaption>\n"
        f'<div class="canvas" id="plot-{plot.id}" role="img"'
        + (f' style="height: {plot.height:g}rem"' if plot.height else "")
        + f' aria-label="{text(plot.summary)}"></div>\n</figure>\n'
        for plot in plots
    )
    return (
        '<div class="plots">\n'
        f"{shown}</div>\n<noscript><p>The plots need JavaScript; nothing is loaded for them."
        "</p></noscript>\n"
    )


def embedded(image: bytes, media_type: str) -> str:
    """Return an encoded image as a data URL."""
    return f"data:{media_type};base64,{b64encode(image).decode()}"


def percent(value: float | None) -> str:
    """Format a fraction as a percentage."""
    return ABSENT if value is None else f"{value:.2%}"


def duration(seconds: float | None) -> str:
    """Format a duration, if there is one."""
    return ABSENT if seconds is None else words.duration(seconds)
