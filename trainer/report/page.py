"""Pieces of HTML that only the pages about runs and data sets have."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from plotly.offline import get_plotlyjs

from common import text as words
from common.page.markup import ABSENT, document, section, text
from trainer.report.plots import Plot

_HERE = Path(__file__).parent
_STYLE = _HERE / "style.css"

# The browser itself then refuses whatever would leave the page.
_POLICY = "img-src data: blob:; script-src 'unsafe-inline'"


def page(title: str, body: str, plots: Sequence[Plot], more: Sequence[str] = ()) -> str:
    """A page that needs nothing else.

    Args:
        title: plain text.
        body: HTML of the page, in which `figures` has left a place for each plot.
        plots: what is drawn there.
        more: names of scripts beside this file that the page has as well.
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
    """The body of a page.

    Args:
        head: HTML of its head, below which stand links to its parts.
        overview: HTML that comes first.
        sections: title, plain text, and HTML of each part, by identity.
        source: HTML that says what made the page from what.
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
    """What a reader must know before the figures; plain texts."""
    return "".join(f'<p class="note"><strong>Note</strong> {text(note)}</p>\n' for note in texts)


def stats(entries: Iterable[tuple[str, str, str]]) -> str:
    """The most important figures: HTML of name and value, and a remark, plain text."""
    shown = "".join(
        f'<div class="stat"><dt>{label}</dt><dd class="value">{value}'
        "</dd>" + (f"<dd>{text(extra)}</dd>" if extra else "") + "</div>\n"
        for label, value, extra in entries
    )
    return f'<dl class="stats">\n{shown}</dl>\n'


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table that scrolls inside itself where it is too wide.

    Args:
        caption: what it shows, plain text.
        head: HTML of the columns' heads.
        rows: HTML of the cells; the first of each row is its head.
        kind: classes for the style sheet.
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
    """A cell of a table; content that is one already stays."""
    return content if content.startswith("<td") else f"<td>{content}</td>"


def figures(plots: Sequence[Plot]) -> str:
    """A place for each plot, with its title and how to read it."""
    if not plots:
        return "<p>No curves: metrics.jsonl has no figures yet.</p>\n"
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
    """An encoded image as an address that needs no file."""
    return f"data:{media_type};base64,{b64encode(image).decode()}"


def percent(value: float | None) -> str:
    """A part of one as a percentage."""
    return ABSENT if value is None else f"{value:.2%}"


def duration(seconds: float | None) -> str:
    """A time span at a glance, if there is one."""
    return ABSENT if seconds is None else words.duration(seconds)
