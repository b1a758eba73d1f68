"""Print the packages, folders and modules of the code, each with the first sentence of its
docstring: `make map`.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (
    *("trainer", "jobs", "infra", "common", "serving", "rehearsal"),
    *("environments", "tools"),
)
_GROUPS: Final = ("extras", "commands", "benchmarks", "conformance", "references")
"""Folders whose entries are listed as well."""


def rooms(package: Path) -> Iterator[tuple[int, str, str]]:
    """Iterate over the entries of a package: depth, name, and the first sentence of its docstring.

    Args:
        package: Folder of the package.
    """
    yield 0, f"{package.name}/", _about(package / "__init__.py")
    yield from _entries(package, 1)


def _entries(folder: Path, depth: int) -> Iterator[tuple[int, str, str]]:
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_file(), path.name)):
        if path.suffix == ".py" and not path.name.startswith("__"):
            yield depth, path.name, _about(path)
        elif (path / "__init__.py").is_file():
            yield depth, f"{path.name}/", _about(path / "__init__.py")
            if path.name in _GROUPS and depth == 1:
                yield from _entries(path, depth + 1)


def _about(module: Path) -> str:
    """Return the first sentence of a module's docstring; "" without one."""
    text = module.read_text(encoding="utf-8") if module.is_file() else ""
    docstring = ast.get_docstring(ast.parse(text)) or ""
    paragraph = docstring.split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<!et al\.)(?<=\.) (?=[A-Z])", paragraph)[0]


def main(args: Sequence[str]) -> None:
    """Print the packages that are named, or all."""
    for package in args or PACKAGES:
        if not (ROOT / package).is_dir():
            raise SystemExit(f"error: {package} is not a folder; name one such as trainer/data")
        for depth, name, about in rooms(ROOT / package):
            print(f"{'  ' * depth}{name:{30 - 2 * depth}} {about}")


if __name__ == "__main__":
    main(sys.argv[1:])
