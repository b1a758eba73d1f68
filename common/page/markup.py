"""Pieces of HTML. Texts go through `text`; nothing else may carry what comes from a file."""

import html
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ABSENT = "\N{EN DASH}"
"""Stands where there is no value."""

STYLE = Path(__file__).with_name("style.css")
"""The look that all pages share."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def text(value: object) -> str:
    """A value as text that cannot be taken for markup; a terminal's colours are left out."""
    plain = str(value).encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n")
    plain = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _ESCAPES.sub("", plain))
    return html.escape(plain, quote=True)


def document(
    title: str, body: str, policy: str, styles: Sequence[Path] = (), scripts: str = ""
) -> str:
    """A page that needs nothing else.

    Args:
        title: plain text.
        body: HTML.
        policy: what the browser lets the page do, beyond `default-src 'none'; style-src
            'unsafe-inline'`; as in Content-Security-Policy.
        styles: style sheets beside the shared one.
        scripts: HTML of the scripts.
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
    """A part of the page with its heading."""
    return (
        f'<section aria-labelledby="{identity}">\n<h2 id="{identity}">{text(title)}</h2>\n'
        f"{content}</section>\n"
    )


def moment(seconds: float | None) -> str:
    """A time since the epoch as a person writes it; empty if there is none, or no calendar has
    it.
    """
    try:
        return (
            "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
        )
    except (ValueError, OverflowError, OSError):
        return ""
