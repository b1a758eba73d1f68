"""Format durations, sizes, counts and lists, the same in all messages and pages."""

from collections.abc import Sequence


def duration(seconds: float) -> str:
    """Format a duration in suitable units: 4.2 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def size(count: float) -> str:
    """Format bytes in a suitable decimal unit with three digits: 512 B, 1.44 MB, 205 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.0f} TB" if count >= 999.5 else f"{count:.3g} TB"


def plural(number: int, noun: str, several: str | None = None) -> str:
    """Format a number with a noun: 1 rank, 2 ranks; `several` is an irregular plural."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


def listing(lines: Sequence[str], limit: int = 20, others: int = 0) -> str:
    """Format lines as a list of at most `limit` items, and the number of the others, of which so
    many are not among the lines.
    """
    shown = [f"  - {line}" for line in lines[:limit]]
    others += max(len(lines) - limit, 0)
    if others:
        shown.append(f"  ... and {others:,} more")
    return "\n".join(shown)


def without_details(parts: Sequence[str]) -> str:
    """Return a message without every second one of its parts, which is a detail that may identify
    something; one in brackets leaves no trace.
    """
    return "".join(
        part if number % 2 == 0 else "" if not part or part.startswith(" (") else "…"
        for number, part in enumerate(parts)
    )
