"""Numbers in words: durations, sizes and counts, the same everywhere a person reads them."""

from collections.abc import Sequence


def duration(seconds: float) -> str:
    """A time span in the units that fit: 4.2 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def size(count: float) -> str:
    """Bytes in a decimal unit that fits, to three digits: 512 B, 1.44 MB, 205 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.0f} TB" if count >= 999.5 else f"{count:.3g} TB"


def plural(number: int, noun: str) -> str:
    """A number of things: 1 rank, 2 ranks."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listing(lines: Sequence[str], limit: int = 20) -> str:
    """Problems as a list, one a line, of which a person reads at most `limit`."""
    shown = [f"  - {line}" for line in lines[:limit]]
    if len(lines) > limit:
        shown.append(f"  ... and {len(lines) - limit:,} more")
    return "\n".join(shown)
