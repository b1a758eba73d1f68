"""Report on the licences in a bill of materials."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

FOLDER: Final = "folder"
TEXT: Final = "licence-text"
MENTIONED: Final = "licences-mentioned"
"""Names of properties in the bill of materials: path of a part in the image, path of its licence's
text, and Debian's common licences that the text refers to."""

_JOINED: Final = re.compile(r",?\s+(?:and/or|and|or|AND|OR)\s+|,\s*")


@dataclass(frozen=True)
class Part:
    """A package or component in the image."""

    name: str
    version: str
    licence: str | None
    """Declared licence; None if it is not machine-readable."""

    texts: tuple[str, ...]
    """Paths of the licence's text in the image."""

    mentioned: tuple[str, ...]
    """Debian's common licences that the text refers to."""

    origin: str
    """Debian, PyPI, or the distribution that contains it."""


@dataclass(frozen=True)
class Library:
    """A shared library that was copied into a wheel."""

    name: str
    origin: str


def named_in(component: Mapping[str, Any]) -> list[str]:
    """Return the licences that a component declares: identifiers, expressions, or names."""
    names = []
    for entry in component.get("licenses", ()):
        stated = entry.get("license", {})
        names.append(entry.get("expression") or stated.get("id") or stated.get("name"))
    return [str(name) for name in names if name]


def parts(bill: Mapping[str, Any]) -> Iterator[Part | Library]:
    """Iterate over all parts in a bill of materials, except Debian's source packages, which are not
    in the image.

    Args:
        bill: CycloneDX document from `environments.inventory.sbom`.
    """
    for component in bill["components"]:
        address = component.get("purl", "")
        if address.startswith("pkg:deb/") and not address.endswith("arch=source"):
            yield _part(component, "Debian")
        elif address.startswith("pkg:pypi/"):
            yield from _nested(component, "PyPI")


def single(licence: str) -> set[str]:
    """Split an expression or a list into its licences."""
    names = {name.strip() for name in _JOINED.split(licence)}
    # Remove brackets that group licences, but keep those in a name.
    return {
        name.strip("()") if name[0] == "(" or name.count("(") != name.count(")") else name
        for name in names - {""}
    }


def report(bill: Mapping[str, Any]) -> str:
    """Format a report: licences by number of parts, unknown ones, and a table of all parts."""
    listed = list(parts(bill))
    copyrighted = sorted(
        (part for part in listed if isinstance(part, Part)),
        key=lambda part: (part.origin, part.name.lower(), part.version),
    )
    libraries = [part for part in listed if isinstance(part, Library)]
    unknown = [part for part in copyrighted if part.licence is None]
    named = Counter(name for part in copyrighted for name in single(part.licence or ""))
    origins = Counter(
        part.origin if part.origin in {"Debian", "PyPI"} else "" for part in copyrighted
    )
    textless = [
        part for part in copyrighted if not part.texts and part.origin in {"Debian", "PyPI"}
    ]
    lines = [
        f"Licences in the image {bill['metadata']['component']['name']}",
        "",
        f"{origins['Debian']} Debian packages, {origins['PyPI']} Python distributions, and "
        f"{origins['']} parts that these declare to contain.",
        "Licences are as declared by their authors and have not been verified.",
        *_section("Licences by number of parts; a part with several counts for each"),
        *(f"{count:6}  {name}" for name, count in _ordered(named)),
        f"{len(unknown):6}  unknown, see below",
        *_section(f"Unknown: {len(unknown)} parts without a machine-readable licence"),
        *_table([(p.name, p.version, p.origin, _where(p)) for p in unknown]),
        *_section(f"Without licence text in the image: {len(textless)} parts"),
        *_table([(p.name, p.version, p.origin, p.licence or "unknown") for p in textless]),
        *_section(
            f"Shared libraries in wheels: {len(libraries)} files, without version or licence"
        ),
        *_table([(part.name, part.origin) for part in libraries]),
        *_section("All parts"),
        *_table([(p.name, p.version, p.origin, p.licence or "unknown") for p in copyrighted]),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _nested(component: Mapping[str, Any], origin: str) -> Iterator[Part | Library]:
    yield _part(component, origin)
    within = f"in {component['name']}"
    for inner in component.get("components", ()):
        if inner["type"] == "file":
            yield Library(inner["name"], within)
        else:
            yield from _nested(inner, within)


def _part(component: Mapping[str, Any], origin: str) -> Part:
    def values(name: str) -> tuple[str, ...]:
        properties = component.get("properties", ())
        return tuple(entry["value"] for entry in properties if entry["name"] == name)

    return Part(
        name=component["name"],
        version=component.get("version", ""),
        licence=", ".join(named_in(component)) or None,
        texts=values(TEXT),
        mentioned=values(MENTIONED),
        origin=origin,
    )


def _where(part: Part) -> str:
    if not part.texts:
        return "no text either"
    mentioned = f" (refers to {', '.join(part.mentioned)})" if part.mentioned else ""
    return f"see {part.texts[0]}{mentioned}"


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _section(title: str) -> list[str]:
    return ["", title, "-" * len(title)]


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)) for row in rows]
