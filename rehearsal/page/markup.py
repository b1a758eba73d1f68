"""HTML elements that only this page uses."""

import urllib.parse
from collections.abc import Iterable, Sequence
from pathlib import Path

from common.page.markup import document, text

_POLICY = "base-uri 'none'; form-action 'none'"
_STYLE = Path(__file__).with_name("style.css")


def page(title: str, body: str) -> str:
    """Return a self-contained page.

    Args:
        title: Title, as plain text.
        body: Body, as HTML.
    """
    return document(title, body, _POLICY, [_STYLE])


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    """Return a table whose rows become blocks on a narrow screen.

    Browsers drop the table semantics of such blocks, so each part has an explicit role.

    Args:
        caption: Caption, as plain text.
        head: Column headers, as plain text.
        rows: HTML of the cells; the first of each row is its header.
        kind: Classes for the style sheet.
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
    """Return a link to a file by its path from the page; only the title for any other target."""
    # The colon is quoted too, so that no target has a scheme.
    path, mark, part = target.partition("#")
    address = mark.join(
        urllib.parse.quote(each, safe="/", errors="replace") for each in (path, part)
    )
    leaves = not path or target.startswith("/") or "\\" in target
    return text(title) if leaves else f'<a href="{text(address)}">{text(title)}</a>'


def clock(seconds: float) -> str:
    """Return a time since the beginning as minutes and seconds."""
    whole = max(int(seconds), 0)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
