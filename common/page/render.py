"""Render HTML pages from Jinja2 templates.

A package keeps its templates in a folder `templates`; they extend `base.html` of this package.
Every value is escaped, an undefined variable is an error, and None is shown as a dash.
"""

import re
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from common import text
from common.page.parts import Page

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def render(package: str, template: str, **values: object) -> str:
    """Return the HTML of a page.

    Args:
        package: Package whose templates are used.
        template: File name of the page's template.
        values: Variables of the template.
    """
    return _environment(package).get_template(template).render(values)


def render_page(page: Page) -> str:
    """Return the HTML of a page that needs no template of its own."""
    return render("common.page", "base.html", page=page)


def plain(value: object) -> str:
    """Return a value as text without control characters and a terminal's escape sequences."""
    characters = str(value).encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n")
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _ESCAPES.sub("", characters))


def moment(seconds: float | None) -> str:
    """Format seconds since the epoch as date and time in UTC; empty if None or out of range."""
    try:
        return (
            "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
        )
    except (ValueError, OverflowError, OSError):
        return ""


def data_url(image: bytes, media_type: str) -> str:
    """Return an encoded image as a URL that contains it."""
    return f"data:{media_type};base64,{b64encode(image).decode()}"


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("common.page")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "data_url": data_url,
        "duration": _unless_none(text.duration),
        "number": _unless_none("{:,}".format),
        "percent": _unless_none("{:.2%}".format),
        "plural": text.plural,
        "size": text.size,
    }
    return environment


def _shown(value: object) -> object:
    """Return a value as a template writes it; HTML of a macro or a block is returned unchanged."""
    if value is None:
        return "\N{EN DASH}"
    return value if hasattr(value, "__html__") else plain(value)


def _unless_none(format_value: Callable[[Any], str]) -> Callable[[Any], str | None]:
    """Make a filter that passes None on."""
    return lambda value: None if value is None else format_value(value)
