"""Pieces of HTML. Content from files must be escaped with `text`."""

import html
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ABSENT = "\N{EN DASH}"
"""Placeholder for a missing value."""

STYLE = Path(__file__).with_name("style.css")
"""Style sheet that all pages share."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def text(value: object) -> str:
    """Escape a value as HTML text, without terminal escape sequences such as colours."""
    plain = str(value).encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n")
    plain = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _ESCAPES.sub("", plain))
    return html.escape(plain, quote=True)


def document(
    title: str, body: str, policy: str, styles: Sequence[Path] = (), scripts: str = ""
) -> str:
    """Build a self-contained HTML page.

    Args:
        title: Title as plain text.
        body: Body as HTML.
        policy: Directives of the Content-Security-Policy in addition to `default-src 'none';
            style-src 'unsafe-inline'`.
        styles: Style sheets in addition to the shared one.
        scripts: Scripts as HTML.
    """
    style = "\n".join(path.read_text(encoding="utf-8") for path in (STYLE, *styles))
    rules = f"default-src 'none'; style-src 'unsafe-inline'; {policy}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"{body}{scripts}</body>\n</html>\n"
    )


def section(identity: str, title: str, content: str) -> str:
    """Build a section of a page with a heading."""
    return (
        f'<section aria-labelledby="{identity}">\n<h2 id="{identity}">{text(title)}</h2>\n'
        f"{content}</section>\n"
    )


def moment(seconds: float | None) -> str:
    """Format seconds since the epoch as date and time in UTC; empty if None or out of range."""
    try:
        return (
            "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
        )
    except (ValueError, OverflowError, OSError):
        return ""
