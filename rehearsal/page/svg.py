"""Shapes of a picture that is as wide as its page: across in percent, down in pixels. Pure.

Texts keep their size on every screen for it. Colours are those of the page, by class.
"""

from common.page.markup import text


def bar(left: float, right: float, y: float, height: float, kind: str, hint: str = "") -> str:
    """A bar, at least two pixels wide; the hint appears under a pointer."""
    title = f"<title>{text(hint)}</title>" if hint else ""
    # The stroke of a bar without any width keeps it visible.
    return (
        f'<rect class="{kind}" x="{left:.3f}%" width="{max(right - left, 0):.3f}%" y="{y:g}"'
        f' height="{height:g}" rx="2">{title}</rect>'
    )


def area(left: float, right: float, y: float, height: float, kind: str) -> str:
    """A rectangle with sharp corners."""
    return (
        f'<rect class="{kind}" x="{left:.3f}%" width="{max(right - left, 0):.3f}%" y="{y:g}"'
        f' height="{height:g}"/>'
    )


def line(left: float, right: float, top: float, bottom: float, kind: str) -> str:
    """A straight line."""
    return f'<line class="{kind}" x1="{left:.3f}%" x2="{right:.3f}%" y1="{top:g}" y2="{bottom:g}"/>'


def svg_text(
    x: float, y: float, content: str, kind: str, *, shift: float = 0, anchor: str = "start"
) -> str:
    """A text whose base line is at y.

    Args:
        x: where it begins, in percent.
        y: its base line.
        content: plain text.
        kind: class.
        shift: pixels to the right of it.
        anchor: which part of the text is at x: start, middle or end.
    """
    return (
        f'<text class="{kind}" x="{x:.3f}%" dx="{shift:g}" y="{y:g}" text-anchor="{anchor}">'
        f"{text(content)}</text>"
    )


def badge(x: float, y: float, number: int, kind: str, *, shift: float = 0) -> str:
    """A number in a circle, for what is told below the picture."""
    return (
        f'<g class="badge {kind}"><circle cx="{x:.3f}%" cy="{y:g}" r="8.5"'
        f' transform="translate({shift:g} 0)"/><text x="{x:.3f}%" dx="{shift:g}" y="{y + 4:g}"'
        f' text-anchor="middle">{number}</text></g>'
    )


def picture(identity: str, height: float, label: str, shapes: list[str]) -> str:
    """The picture, read out by its label; the page says the same in words."""
    return (
        f'<svg class="{identity}" role="img" aria-label="{text(label)}" width="100%"'
        f' height="{height:g}" xmlns="http://www.w3.org/2000/svg">\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )
