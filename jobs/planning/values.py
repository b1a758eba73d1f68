"""Ranges, and where numbers come from. Pure."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Span:
    """A value with the ends of its range."""

    low: float
    middle: float
    high: float

    def scaled(self, factor: float) -> "Span":
        return Span(self.low * factor, self.middle * factor, self.high * factor)

    def capped(self, cap: float) -> "Span":
        """Return the span with no value above a cap."""
        return Span(min(self.low, cap), min(self.middle, cap), min(self.high, cap))


@dataclass(frozen=True)
class Ground:
    """Where a number comes from."""

    name: str
    value: str
    formula: str = ""
    source: str = ""
    """With its date."""


def words(span: Span | None, unit: str = "") -> str:
    """Format a range as middle (low - high), with three digits; `never` for an infinite end."""
    middle, ends = in_parts(span)
    text = f"{middle} ({ends})" if ends else middle
    return f"{text} {unit}".strip()


def in_parts(span: Span | None) -> tuple[str, str]:
    """Return the middle and the ends in words; `?` and nothing if the range is not known."""
    if span is None:
        return "?", ""
    low, middle, high = (_digits(value) for value in (span.low, span.middle, span.high))
    return middle, f"{low} - {high}" if low != high else ""


def _digits(value: float) -> str:
    if value == inf:
        return "never"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ends(span: Span | None, digits: int = 6) -> list[float | None] | None:
    """Return low, middle and high for JSON output, with null for infinite values."""
    if span is None:
        return None
    return [
        None if value == inf else round(value, digits)
        for value in (span.low, span.middle, span.high)
    ]


def shifted(span: Span, by: float) -> Span:
    """Return a range moved by an amount."""
    return Span(span.low + by, span.middle + by, span.high + by)
