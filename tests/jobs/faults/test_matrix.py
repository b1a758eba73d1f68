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
    EVERY = len(matrix.FAULTS)
    """One of how many faults is tried in each row, another one in each. `make -C tools faults`
    tries all."""

    @pytest.mark.slow
    def test_a_part_of_the_cells_is_as_the_page_says(self, world, command):
        cells = list(world.cells(command, every=self.EVERY))
        wrong = [cell for cell in cells if cell.outcome == matrix.WRONG]
        assert [f"{cell.kind}, {cell.fault}: {cell.why}" for cell in wrong] == []
        page = table.on_page(command)
        assert {kind for kind, _ in page} == {cell.kind for cell in cells}, (
            "run `make -C tools faults`"
        )
        found = {(cell.kind, cell.fault): cell.outcome for cell in cells}
        assert found == {cell: page[cell] for cell in found}, "run `make -C tools faults`"


class TestSubmit(Tables):
    COMMANDS = ("submit", "score-batch")


class TestFollow(Tables):
    COMMANDS = ("follow", "follow --supervise", "cancel")

    @pytest.mark.parametrize("word", ["Rebalancing", "CompletedWithWarnings"])
    def test_a_state_that_no_document_names_is_shown_and_waited_for(self, world, word):
        ran, trial = world.run("follow", word)
        assert (ran.status, trial.damage()) == (0, None), ran.err
        shown = [line.partition("-r1: ")[2].split(" ")[0] for line in ran.out.splitlines()]
        assert [line for line in shown if line][:4] == ["queued,", "running", word, "completed"]


class TestTransfersAndEndpoints(Tables):
    COMMANDS = ("upload", "download", "deploy", "teardown")


class TestPipelines(Tables):
    COMMANDS = ("comment",)
    EVERY = 1


class TestOnAPlatform(Tables):
    COMMANDS = ("backend", "scaling")

    def test_every_command_of_the_matrix_is_tested(self, world):
        tested = [command for one in Tables.__subclasses__() for command in one.COMMANDS]
        assert sorted(tested) == sorted(world.commands)
