"""No fault of a request makes a command lie, lose a run, or submit a second job."""

import pytest

from tests.jobs.faults import matrix, table

COMMANDS = (
    "follow",
    "follow --supervise",
    "submit",
    "upload",
    "download",
    "cancel",
    "deploy",
    "teardown",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with matrix.world(tmp_path_factory.mktemp("faults")) as world:
        yield world


def test_every_command_of_the_matrix_is_tested(world):
    assert world.commands == COMMANDS


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_tables_on_the_page_are_the_runs(world, command):
    cells = list(world.cells(command))
    wrong = [cell for cell in cells if cell.outcome == matrix.WRONG]
    assert [f"{cell.kind}, {cell.fault}: {cell.why}" for cell in wrong] == []
    assert table.on_page(command) == table.table(command, cells), "run python -m tests.jobs.faults"
