"""An extra can be removed: without its folder and its row, all other modules are imported and pass
their tests.

Each extra in the table stands for another interface of the trunk. The tests of an extra are those
in its folder, and those that import it; they are removed as well.
"""

import ast
import functools
import re
import shutil
import subprocess
from dataclasses import dataclass

import pytest

from tests import ROOT


@dataclass(frozen=True)
class Removal:
    """The parts that have to be deleted so that an extra is gone."""

    name: str
    """Name of its folder, which its row in the leaves of its world has as well."""
    world: str = "trainer"

    @property
    def package(self):
        return f"{self.world}.extras.{self.name}"

    @property
    def needs(self):
        """Names of the other extras that its first line says it needs."""
        package = ROOT / self.package.replace(".", "/") / "__init__.py"
        line = ast.get_docstring(ast.parse(package.read_text())).splitlines()[0]
        return set(re.findall(r"`(\w+)`", line.partition("Needs ")[2]))

    def with_dependents(self):
        """The removal, and those of the extras that need this one."""
        others = [other for other in extras_of(self.world) if self.name in other.needs]
        return {self, *(more for other in others for more in other.with_dependents())}

    def remove_from(self, root):
        """Delete the extra from a copy of the repository."""
        home = self.package.replace(".", "/")
        for place in (home, f"tests/{home}"):
            shutil.rmtree(root / place, ignore_errors=True)
        rows = root / self.world / "leaves.py"
        text, found = re.subn(rf'\n? *"(extras\.)?{self.name}",?', "", rows.read_text(), count=1)
        assert found, f"{rows} has no row of {self.package}"
        rows.write_text(text)


REMOVALS = {
    "periodic averaging": Removal("averaging"),
    "head groups": Removal("head"),
    "ONNX": Removal("onnx"),
    "segmentation": Removal("segmentation"),
    "detection": Removal("detection"),
    "inspection": Removal("inspection", world="jobs"),
    "estimates, and what is planned by them": Removal("estimate", world="jobs"),
}

WORLDS = {
    "trainer": (ROOT / ".venv-trainer" / "bin" / "python", ["tests/trainer"]),
    "jobs": (ROOT / ".venv" / "bin" / "python", ["tests/jobs/spec", "tests/jobs/test_options.py"]),
}
"""The Python of each world, and the tests of it that need no other program."""

IMPORTED = """
import importlib, pathlib, sys
world = sys.argv[1]
for path in sorted(pathlib.Path(world).rglob("*.py")):
    if path.name != "__main__.py":
        try:
            importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
        except ModuleNotFoundError as error:
            # A package of another environment, such as pyspark.
            if pathlib.Path(error.name.partition(".")[0]).is_dir():
                raise
"""
"""Imports every module of a world."""


@functools.cache
def imported_by(path):
    """Names of the modules that a file imports, and of those that may be in them."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def imports(path, modules):
    """Whether a file imports one of some modules, or from within it."""
    names = imported_by(path)
    return any(name == one or name.startswith(f"{one}.") for name in names for one in modules)


def remove_tests_of(root, removals):
    """Delete the tests that import extras, directly or through others, from a copy."""
    gone = {removal.package for removal in removals}
    while tests := [path for path in (root / "tests").rglob("*.py") if imports(path, gone)]:
        for path in tests:
            gone.add(".".join(path.relative_to(root).with_suffix("").parts))
            path.unlink()


def of_world(world):
    """The removals of a world, each with those of its dependents."""
    chosen = (removal for removal in REMOVALS.values() if removal.world == world)
    return set().union(*(removal.with_dependents() for removal in chosen))


def extras_of(world):
    """The removals of all extras of a world."""
    return [Removal(leaf.parent.name, world) for leaf in (ROOT / world).glob("extras/*/leaf.py")]


@pytest.mark.parametrize("world", WORLDS)
def test_the_first_line_of_an_extra_names_those_that_it_imports(world):
    extras = extras_of(world)
    for extra in extras:
        modules = list((ROOT / extra.package.replace(".", "/")).rglob("*.py"))
        imported = {
            other.name
            for other in extras
            if other != extra and any(imports(path, [other.package]) for path in modules)
        }
        assert extra.needs == imported, extra.name


@pytest.fixture
def copy(tmp_path):
    """A copy of the files that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def run(copy, world, *arguments):
    python, _ = WORLDS[world]
    if not python.exists():
        pytest.skip(f"the environment of {world}/ is not installed")
    done = subprocess.run(
        [python, *arguments], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_without_any_extra_every_module_is_imported(copy, world):
    for removal in extras_of(world):
        removal.remove_from(copy)
    assert not list((copy / world).glob("extras/*/*.py"))
    run(copy, world, "-c", IMPORTED, world)


@pytest.mark.long
@pytest.mark.parametrize("name", REMOVALS)
def test_without_an_extra_every_module_is_imported(copy, name):
    world = REMOVALS[name].world
    for removal in REMOVALS[name].with_dependents():
        removal.remove_from(copy)
    run(copy, world, "-c", IMPORTED, world)


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS)
def test_without_all_these_extras_the_fast_tests_of_a_world_pass(copy, world):
    removals = of_world(world)
    for removal in removals:
        removal.remove_from(copy)
    remove_tests_of(copy, removals)
    fast = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not long")
    passed = re.search(r"(\d+) passed", run(copy, world, *fast, *WORLDS[world][1]))
    assert passed
    assert int(passed[1]) > 100
