"""CONTRIBUTING.md is short and names things that exist, and `make map` shows all code."""

import re
import subprocess
import sys

import pytest

from tests import ROOT, makefile
from tests.repository.test_import_rules import WORLDS
from tools.references.rooms import PACKAGES, rooms

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


def test_the_map_shows_every_package():
    assert set(PACKAGES) == set(WORLDS)
    done = subprocess.run(
        [sys.executable, "-m", "tools.references.rooms"],
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
