"""No fault of a request makes a command lie, lose a run, or submit a second job."""

import pytest

from tests.jobs.faults import matrix, table


@pytest.fixture(scope="class")
def world(tmp_path_factory):
    with matrix.world(tmp_path_factory.mktemp("faults")) as world:
        yield world


def pytest_generate_tests(metafunc):
    if "command" in metafunc.fixturenames:
        metafunc.parametrize("command", metafunc.cls.COMMANDS)


class Tables:
    """The tables of some commands; processes of pytest take classes, and each has its own world."""

    COMMANDS: tuple[str, ...] = ()

    @pytest.mark.slow
    def test_the_tables_on_the_page_are_the_runs(self, world, command):
        cells = list(world.cells(command))
        wrong = [cell for cell in cells if cell.outcome == matrix.WRONG]
        assert [f"{cell.kind}, {cell.fault}: {cell.why}" for cell in wrong] == []
        assert table.on_page(command) == table.table(command, cells), (
            "run python -m tests.jobs.faults"
        )


class TestSubmit(Tables):
    COMMANDS = ("submit", "score-batch")


class TestFollow(Tables):
    COMMANDS = ("follow", "follow --supervise", "cancel")


class TestTransfersAndEndpoints(Tables):
    COMMANDS = ("upload", "download", "deploy", "teardown")

    def test_every_command_of_the_matrix_is_tested(self, world):
        tested = [command for one in Tables.__subclasses__() for command in one.COMMANDS]
        assert sorted(tested) == sorted(world.commands)
