"""Import of a package from the files that a run keeps, in place of those that Python finds."""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_LOADED: dict[str, str] = {}
"""Digest of the files from which a package was last imported."""


class _Kept(MetaPathFinder):
    """Finds the modules of a package in a folder."""

    def __init__(self, package: str, folder: Path) -> None:
        self.package, self._folder = package, folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path
        if not _inside(fullname, self.package):
            return None
        folder = self._folder.joinpath(*fullname.split(".")[:-1])
        return PathFinder.find_spec(fullname, [str(folder)], target)


def package_of(builder: str) -> str:
    """Return the outermost package, or module, of package.module:function."""
    return builder.partition(":")[0].partition(".")[0]


def find_present(package: str) -> ModuleSpec | None:
    """Find a package where Python does, whatever `import_from` has been told."""
    for finder in sys.meta_path:
        spec = None if isinstance(finder, _Kept) else finder.find_spec(package, None)
        if spec is not None:
            return spec
    return None


def import_from(package: str, folder: Path | None, digest: str, *, anew: bool) -> None:
    """Have Python import a package from a folder, for the rest of the process.

    Args:
        package: Name of the package.
        folder: Folder that contains it; None leaves it to Python.
        digest: Digest of its files. Modules of it that were imported from files with another one
            are forgotten.
        anew: Whether to forget them if it is not known which files they came from, as is done for a
            folder.
    """
    for finder in [entry for entry in sys.meta_path if isinstance(entry, _Kept)]:
        if finder.package == package:
            sys.meta_path.remove(finder)
    if folder is not None:
        sys.meta_path.insert(0, _Kept(package, folder))
    known = package in _LOADED
    if _LOADED.get(package) != digest and (known or anew or folder is not None):
        importlib.invalidate_caches()
        for name in [name for name in sys.modules if _inside(name, package)]:
            del sys.modules[name]
    _LOADED[package] = digest


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")
