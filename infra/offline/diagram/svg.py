"""SVG shapes of the picture. Sizes are in pixels, the origin is at the top left."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

FONT = "ui-sans-serif, system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
INK, FAINT = "#1b2733", "#5b6b7b"


@dataclass(frozen=True)
class Area:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a text; wide enough for any of the fonts that a viewer may have."""
    narrow = sum(character in "iljtfrI.,:;'|()[]- " for character in text)
    wide = sum(character in "mwMW@" for character in text)
    units = 0.62 * (len(text) - narrow - wide) + 0.36 * narrow + 0.9 * wide
    return units * size * (1.12 if bold else 1)


def fitted(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Shorten a text in the middle until it fits; names differ at both ends."""
    if width_of(text, size, bold=bold) <= width:
        return text
    kept = len(text) - 1
    while kept > 2 and width_of(_shortened(text, kept), size, bold=bold) > width:
        kept -= 1
    return _shortened(text, kept)


def wrapped(text: str, width: float, size: float) -> list[str]:
    """Wrap a text at spaces into lines that fit."""
    lines: list[str] = []
    for word in text.split():
        if lines and width_of(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [fitted(line, width, size) for line in lines]


def box(
    area: Area,
    fill: str,
    stroke: str,
    *,
    radius: float = 8,
    dashed: bool = False,
    weight: float = 1,
) -> str:
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return (
        f'<rect x="{area.x:g}" y="{area.y:g}" width="{area.width:g}" height="{area.height:g}" '
        f'rx="{radius:g}" fill="{fill}" stroke="{stroke}" stroke-width="{weight:g}"{dash}/>'
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 13,
    bold: bool = False,
    color: str = INK,
    anchor: str = "start",
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{color}" '
        f'text-anchor="{anchor}"{weight}>{escape(words)}</text>'
    )


def rule(left: float, right: float, y: float, color: str) -> str:
    """A horizontal line."""
    return f'<line x1="{left:g}" x2="{right:g}" y1="{y:g}" y2="{y:g}" stroke="{color}"/>'


def arrow(points: Sequence[tuple[float, float]], color: str, *, dashed: bool = False) -> str:
    """A line along the points with an arrowhead at the last."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    (ax, ay), (bx, by) = points[-2], points[-1]
    length = max(abs(bx - ax), abs(by - ay)) or 1
    ux, uy = (bx - ax) / length, (by - ay) / length
    left = f"{bx - 8 * ux - 4 * uy:g},{by - 8 * uy - 4 * ux:g}"
    right = f"{bx - 8 * ux + 4 * uy:g},{by - 8 * uy + 4 * ux:g}"
    return (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"{dash}/>'
        f'<polygon points="{bx:g},{by:g} {left} {right}" fill="{color}"/>'
    )


def page(width: float, height: float, title: str, shapes: Sequence[str]) -> str:
    """The document, on white so that it reads on a dark page as well."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" font-family={quoteattr(FONT)} role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            *shapes,
            "</svg>",
            "",
        ]
    )


def _shortened(words: str, kept: int) -> str:
    head = kept // 2
    return f"{words[: kept - head]}…{words[len(words) - head :]}"
