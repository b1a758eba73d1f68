"""CONTRIBUTING.md is short and names things that exist, and `make map` shows all code."""

import ast
import re
import subprocess
import sys

import pytest

from tests import ROOT, makefile
from tests.repository.test_import_rules import WORLDS
from tools.references.code_map import PACKAGES, rooms

TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_it_is_read_in_a_few_minutes():
    assert len(TEXT.encode()) <= 8192


def test_the_files_that_it_names_exist():
    named = {name for name in re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", TEXT) if "..." not in name}
    assert len(named) > 10
    assert {name for name in named if not (ROOT / name).exists()} == {"runs/NAME"} & named


def test_the_targets_that_it_names_exist():
    lines = re.findall(
        r"\b(make(?: -C tools)?) ((?:[a-z][\w-]*)(?: [a-z][\w-]*)*)(?=[`\s]{1,}(?:#|\n|`|A)|`)",
        TEXT,
    )
    named = {(command, word) for command, line in lines for word in line.split()}
    assert {target for _, target in named} >= {
        *("setup", "train", "map", "test-fast", "test", "rehearse", "lint", "lock"),
    }
    for command, target in named:
        assert target in makefile.reads(command), f"{command} {target}"


def interfaces():
    """World, fields, default of the trunk and users of each row of the table of interfaces."""
    world, rows = "", []
    (table,) = re.findall(r"\| interface \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT)
    for row in table.splitlines():
        name, fields, trunk, users = map(str.strip, row.strip("|").split("|"))
        world = name.partition(": ")[0] if ": " in name else world
        rows.append((world, fields.split(), trunk, users))
    return rows


@pytest.mark.parametrize("world", ["trainer", "jobs", "infra"])
def test_the_table_of_interfaces_has_every_field_of_a_leaf_with_its_users(world):
    (leaf,) = (
        node
        for node in ast.walk(ast.parse((ROOT / world / "leaf.py").read_text()))
        if isinstance(node, ast.ClassDef) and node.name == "Leaf"
    )
    users = {node.target.id: set() for node in leaf.body if isinstance(node, ast.AnnAssign)}
    for path in (ROOT / world).rglob("leaf.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Leaf":
                for keyword in node.keywords:
                    users[keyword.arg].add(path.parent.name)
    rows = [row[1:] for row in interfaces() if row[0] == world]
    assert sorted(field for fields, _, _ in rows for field in fields) == sorted(users)
    for fields, trunk, named in rows:
        leaves = sorted(set().union(*(users[field] for field in fields)))
        assert named in (", ".join(leaves), str(len(leaves)))
        assert len(leaves) + (trunk != "-") >= 2, fields


def test_there_are_few_interfaces():
    assert len(interfaces()) <= 21


def test_the_map_shows_every_package():
    assert set(PACKAGES) == set(WORLDS)
    done = subprocess.run(
        [sys.executable, "-m", "tools.references.code_map"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split("/")[0] for line in done.stdout.splitlines() if line[0] != " "] == [
        *PACKAGES
    ]


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "serving"])
def test_each_entry_of_the_map_says_what_it_holds(package):
    entries = list(rooms(ROOT / package))
    assert {
        path.name
        for path in (ROOT / package).glob("*.py")
        if not path.name.startswith("__") and path.name != ""
    } <= {name for _, name, _ in entries}
    assert [name for _, name, about in entries if len(about.split()) < 2 and name != "model/"] == []
