"""Pieces of HTML. Texts go through `text`; nothing else may carry what comes from a record."""

import html
import re
import urllib.parse
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

ABSENT = "\N{EN DASH}"
"""Stands where there is no value."""

# The browser itself then refuses whatever would leave the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLES = (
    # The look that this page has in common with the report of a run. It is read as data: nothing
    # of the trainer is imported here, as the trainer has an installation of its own.
    Path(__file__).resolve().parents[2] / "trainer" / "report" / "style.css",
    Path(__file__).with_name("style.css"),
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def text(value: object) -> str:
    """A value as text that cannot be taken for markup; a terminal's colours are left out."""
    plain = str(value).encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n")
    plain = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _ESCAPES.sub("", plain))
    return html.escape(plain, quote=True)


def document(title: str, body: str) -> str:
    """A page that needs nothing else.

    Args:
        title: plain text.
        body: HTML.
    """
    style = "\n".join(path.read_text(encoding="utf-8") for path in _STYLES)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"{body}</body>\n</html>\n"
    )


def section(identity: str, title: str, content: str) -> str:
    """A part of the page with its heading."""
    return (
        f'<section aria-labelledby="{identity}">\n<h2 id="{identity}">{text(title)}</h2>\n'
        f"{content}</section>\n"
    )


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    """A table whose rows become blocks on a narrow screen.

    Browsers forget that such blocks are a table, so that each part says what it is.

    Args:
        caption: what it shows, plain text.
        head: the columns' heads, plain text.
        rows: HTML of the cells; the first of each row is its head.
        kind: classes for the style sheet.
    """
    heads = "".join(f'<th scope="col" role="columnheader">{text(cell)}</th>' for cell in head)
    lines = "".join(f'<tr role="row">{_cells(head, row)}</tr>\n' for row in rows)
    return (
        f'<table class="{kind}" role="table">\n<caption>{text(caption)}</caption>\n'
        f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{lines}</tbody></table>\n'
    )


def _cells(head: Sequence[str], row: Sequence[str]) -> str:
    first = f'<th scope="row" role="rowheader">{row[0]}</th>'
    others = zip(head[1:], row[1:], strict=True)
    return first + "".join(
        f'<td role="cell" data-head="{text(name)}">{content}</td>' for name, content in others
    )


def anchor(title: str, target: str) -> str:
    """A link to a file by its path from the page; only the title if it is no such path."""
    # A colon is quoted as well, so that no target names a scheme.
    path, mark, part = target.partition("#")
    address = mark.join(
        urllib.parse.quote(each, safe="/", errors="replace") for each in (path, part)
    )
    leaves = not path or target.startswith("/") or "\\" in target
    return text(title) if leaves else f'<a href="{text(address)}">{text(title)}</a>'


def duration(seconds: float) -> str:
    """A time span at a glance."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def clock(seconds: float) -> str:
    """A time since the beginning, as minutes and seconds."""
    whole = max(int(seconds), 0)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def moment(seconds: float) -> str:
    """A time as a person writes it; empty if no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""


def plural(number: int, noun: str) -> str:
    """A number of things in words."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
