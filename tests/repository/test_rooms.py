"""Rooms that one can take in: folders and modules of a size that is read at a sitting."""

from collections import Counter

import pytest

from tests.repository.test_import_rules import WORLDS, files

MOST_MODULES = 20
MOST_LINES = 600


@pytest.mark.parametrize("world", WORLDS)
def test_no_folder_has_more_modules_than_one_takes_in(world):
    modules = Counter(path.parent for path in files(world) if path.name != "__init__.py")
    assert {str(folder): n for folder, n in modules.items() if n > MOST_MODULES} == {}


@pytest.mark.parametrize("world", WORLDS)
def test_no_module_is_longer_than_one_reads_at_a_sitting(world):
    lines = {path: len(path.read_text().splitlines()) for path in files(world)}
    assert {str(path): n for path, n in lines.items() if n > MOST_LINES} == {}
