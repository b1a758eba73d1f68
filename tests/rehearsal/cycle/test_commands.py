"""Commands are shown, kept, limited and ended."""

import os
import sys

import pytest

from rehearsal.cycle.commands import CommandError, CommandRunner
from rehearsal.lifetime import pids_marked
from rehearsal.simulator import Simulator
from tests.rehearsal.support.waiting import until


@pytest.fixture
def commands(tmp_path):
    return CommandRunner(tmp_path / "logs", tmp_path, lambda: dict(os.environ), lambda: None)


def test_a_command_is_shown_line_by_line_and_kept(commands, tmp_path):
    lines = []
    output = commands.run(["sh", "-c", "echo one; echo two >&2"], on_line=lines.append)
    assert lines == ["one", "two"]
    assert output == (tmp_path / "logs" / "01-sh.log").read_text() == "one\ntwo\n"


def test_a_long_answer_is_kept_apart_from_what_comes_beside_it(commands, tmp_path):
    program = "import sys; sys.stdout.write('x' * 300_000); print('note', file=sys.stderr)"
    assert commands.run([sys.executable, "-c", program], separate=True) == "x" * 300_000
    (log,) = (tmp_path / "logs").glob("*.log")
    assert log.read_text() == "note\n"


def test_a_command_that_fails_shows_its_last_lines_and_its_log(commands):
    with pytest.raises(CommandError, match="exited with status 3, expected 0") as caught:
        commands.run(["sh", "-c", "echo the reason; exit 3"])
    assert caught.value.lines[-1] == "the reason"
    assert caught.value.log.read_text() == "the reason\n"


def test_a_command_that_does_not_end_is_ended_with_what_it_has_started(tmp_path):
    with Simulator(tmp_path / "azure") as azure:
        commands = CommandRunner(
            tmp_path / "logs",
            tmp_path,
            lambda: azure.marked(dict(os.environ)),
            azure.end_commands,
            seconds=1.0,
        )
        with pytest.raises(CommandError, match="did not finish within 1 s"):
            # A process in the background holds the pipe.
            commands.run(["sh", "-c", "echo begun; setsid sleep 3600 & sleep 3600"])
        assert not pids_marked(f"{azure.mark}/commands")


def test_a_command_that_serves_has_both_of_its_streams_in_files(commands):
    answer, process = commands.serve(["sh", "-c", "echo '{}'; echo note >&2; sleep 600"])
    try:
        until(lambda: answer.read_text() == "{}\n")
        until(lambda: answer.with_suffix(".log").read_text() == "note\n")
    finally:
        process.kill()
        process.wait()
