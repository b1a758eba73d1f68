"""Files of Python packages: those that a job takes with it, and that a run keeps."""

from pathlib import Path

_LEFT_OUT = {"__pycache__"}


def files_below(folder: Path, root: Path) -> dict[str, Path]:
    """Find all files of a folder except hidden ones and Python's caches, and symbolic links even if
    they lead to folders, by their paths relative to `root`.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if any(part in _LEFT_OUT or part.startswith(".") for part in inside.parts):
            continue
        if path.is_symlink() or path.is_file():
            files[path.relative_to(root).as_posix()] = path
    return files


def package_files(package: str, root: Path) -> dict[str, Path]:
    """Find the Python files of a package and all symbolic links in it, or the file of a single
    module, by their paths relative to the folder `root` that contains it.
    """
    top = root / package
    if not top.is_dir():
        return {f"{package}.py": top.with_suffix(".py")}
    below = files_below(top, root)
    return {name: path for name, path in below.items() if path.suffix == ".py" or path.is_symlink()}
