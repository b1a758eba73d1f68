"""CONTRIBUTING.md leads a newcomer: its picture and its tables are the tree as it is."""

import re
import subprocess

import pytest

from tests import ROOT
from tests.repository.test_import_rules import WORLDS, files, modules_imported, name_of

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PICTURE = TEXT.partition("```mermaid\n")[2].partition("```")[0]


def rows(world):
    """Entries of a world and what is said of each, in the order of its table."""
    table = TEXT.partition(f"\n### {world}/\n")[2].partition("\n##")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE))


def tracked(folder):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for path in listed.stdout.splitlines() if (ROOT / path).exists()]


def entries(world):
    """Names in a world's folder, those of folders with a slash."""
    names = set()
    for path in tracked(world):
        first, *rest = path.split("/")[1:]
        names.add(f"{first}/" if rest else first)
    return names - {"__init__.py", "__init__.pyi", "__main__.py"}


def entry_of(module):
    """The world of a module, and its entry in the world's table."""
    world, name = module.split(".")[:2]
    return world, f"{name}/" if (ROOT / world / name).is_dir() else f"{name}.py"


@pytest.mark.parametrize("world", WORLDS)
def test_the_table_of_a_world_lists_its_entries(world):
    assert set(rows(world)) == entries(world)


@pytest.mark.parametrize("world", WORLDS)
def test_an_entry_imports_only_what_stands_below_it(world):
    order = list(rows(world))
    upwards = {
        f"{name_of(path)} imports {module}"
        for path in files(world)
        if path.parent != ROOT / world or path.name not in ("__init__.py", "__main__.py")
        for module in modules_imported(path)
        if module.startswith(f"{world}.")
        and order.index(entry_of(module)[1]) < order.index(entry_of(name_of(path))[1])
    }
    assert upwards == set()


@pytest.mark.parametrize("world", WORLDS)
def test_what_the_tables_name_is_there(world):
    for entry, text in rows(world).items():
        for name in re.findall(r"`([\w/]+\.\w+|\w+/)`", text):
            folder = ROOT / world / entry if entry.endswith("/") else ROOT / world
            known = [folder / name, ROOT / name, ROOT / world / name]
            assert any(path.exists() for path in known), f"{world}/{entry}: {name}"


def test_the_picture_shows_all_rooms():
    shown = {
        (world, room)
        for world, label in re.findall(r'^  (\w+)\["([^"]+)"\]$', PICTURE, re.MULTILINE)
        for room in re.findall(r"\w+/", label)
    }
    there = {
        (world, entry)
        for world in WORLDS
        if world != "common"
        for entry in entries(world)
        if entry.endswith("/") and (world, entry) != ("benchmarks", "results/")
    }
    assert shown == there


def test_solid_arrows_of_the_picture_are_the_imports_between_worlds():
    drawn = set(re.findall(r"^  (\w+) -->(?:\|[^|]*\|)? (\w+)$", PICTURE, re.MULTILINE))
    between = {
        (world, module.split(".")[0])
        for world in WORLDS
        for path in files(world)
        for module in modules_imported(path)
    }
    assert drawn == {(a, b) for a, b in between if b not in (a, "common")}


def test_no_node_of_the_picture_and_no_row_of_a_table_is_there_twice():
    lines = TEXT.splitlines()
    nodes = [line.split("[")[0] for line in lines if re.match(r'  \w+\["', line)]
    assert sorted(nodes) == sorted(set(nodes))
    for table in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE):
        rows = [tuple(row.split("|")[1:3]) for row in table.splitlines()]
        assert len(rows) == len(set(rows)), table
