"""The runner of the cycle: its output, files, refusals and leftovers."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rehearsal import __main__ as command
from rehearsal.cycle import runner
from rehearsal.cycle.commands import CommandError
from rehearsal.cycle.context import CycleContext
from rehearsal.cycle.steps import STEPS, CycleStep
from rehearsal.errors import RehearsalError
from rehearsal.lifetime import owner
from rehearsal.page.record import from_json
from rehearsal.simulator import Simulator
from tests.rehearsal.support.waiting import SECONDS, until


def context_of(tmp_path, azure=None):
    """Of an Azure without any stack."""
    stack = SimpleNamespace(version="v3.259.0", stack="dev", command_environment=dict(os.environ))
    webhook = SimpleNamespace(address="http://127.0.0.1:9/", ids=[])
    return CycleContext(azure, stack, tmp_path, lambda _: None, webhook)


def fails(_):
    raise RehearsalError("something is missing")


@pytest.mark.parametrize("named", [True, False])
def test_the_first_failure_ends_the_cycle_and_says_where_to_look(azure, tmp_path, capsys, named):
    def ends_badly(at):
        at.commands.run(["sh", "-c", "echo out of luck; exit 1"])

    steps = (
        CycleStep("one", "First", "first", lambda _: ["found 1", "and 2"]),
        CycleStep("two", "Second", "second", ends_badly if named else fails),
        CycleStep("three", "Third", "third", lambda _: pytest.fail("it must not come to that")),
    )
    cycle = runner.run_steps(steps, context_of(tmp_path, azure), runner.Console())
    assert [step.outcome for step in cycle.steps] == ["ok", "failed", "skipped"]
    assert cycle.steps[0].lines == ("found 1", "and 2")
    failed = cycle.steps[1]
    if named:
        assert failed.lines[-1] == "out of luck"
        assert failed.place == str(tmp_path / "logs" / "01-sh.log")
    else:
        assert failed.lines == ("RehearsalError: something is missing",)
        assert failed.place == str(tmp_path / "logs")
    shown = capsys.readouterr().out
    assert "FAILED" in shown
    assert "Third" not in shown
    runner.write_record(cycle, tmp_path)
    assert from_json((tmp_path / runner.RECORD).read_text()) == cycle


@pytest.mark.parametrize("named", [True, False])
def test_a_record_names_files_of_the_repository_from_its_root_on(azure, tmp_path, named):
    log = runner.ROOT / "build" / "logs" / "01.log"
    words = f"{log}: is empty, as '{runner.ROOT}/.venv/bin/python' is"
    others = f"not /mnt{log}, file://{log}, {runner.ROOT}-2/x, {tmp_path}/x or {runner.ROOT}"

    def ends_badly(_):
        raise CommandError([words, others], log) if named else RehearsalError(words)

    steps = (
        CycleStep("one", "First", "first", lambda _: [words]),
        CycleStep("two", "2nd", "2", ends_badly),
    )
    cycle = runner.run_steps(steps, context_of(tmp_path, azure), runner.Console())
    short = "build/logs/01.log: is empty, as '.venv/bin/python' is"
    assert cycle.steps[0].lines == (short,)
    failed = cycle.steps[1]
    if named:
        assert failed.lines == (short, others)
        assert failed.place == "build/logs/01.log"
    else:
        assert failed.lines == (f"RehearsalError: {short}",)
        assert failed.place == str(tmp_path / "logs")


def names(steps):
    return [step.name for step in steps]


def test_what_is_kept_is_not_torn_down():
    every = names(STEPS)
    assert names(runner.select_steps(runner.CycleOptions(), STEPS)) == every
    kept = names(runner.select_steps(runner.CycleOptions(keep=True), STEPS))
    assert kept == every[: every.index("teardown")]
    early = names(runner.select_steps(runner.CycleOptions(keep=True, until="up"), STEPS))
    assert early == ["preview", "up"]


def test_a_step_that_is_not_there_is_refused_with_those_that_are(capsys):
    assert command.main(["cycle", "--until", "upload-all"]) == 1
    assert "unknown step 'upload-all'; choose one of preview, up, " in capsys.readouterr().err


def test_a_folder_that_only_looks_like_one_is_left_as_it_is(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "of-mine").touch()
    with pytest.raises(RehearsalError, match="contains logs, which no rehearsal wrote"):
        runner.empty_folder(tmp_path)
    assert (tmp_path / "logs" / "of-mine").exists()


def test_only_what_a_rehearsal_has_written_is_removed(tmp_path, capsys):
    for name in ("azure", "pulumi"):
        (tmp_path / name).mkdir()
    (tmp_path / "pulumi" / "old").touch()
    runner.empty_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "thesis.tex").touch()
    (tmp_path / "azure").mkdir()
    with pytest.raises(RehearsalError, match=r"contains thesis\.tex, which no rehearsal wrote"):
        runner.empty_folder(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["azure", "thesis.tex"]


def test_two_do_not_rehearse_in_one_folder(tmp_path):
    with Simulator(tmp_path / "azure"):
        assert owner(tmp_path / "azure") == str(os.getpid())
        with pytest.raises(RehearsalError, match=f"in use by .* process {os.getpid()};"):
            runner.empty_folder(tmp_path)
    assert owner(tmp_path / "azure") is None


def test_a_missing_image_leaves_the_last_record_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "azure").mkdir()
    record = tmp_path / runner.RECORD
    record.write_text("kept")
    monkeypatch.setattr(runner, "TRAINER", Path("/bin/sh"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(RehearsalError, match="image: cannot run the image"):
        runner.run(runner.CycleOptions(folder=tmp_path, image="image"))
    assert record.read_text() == "kept"


def test_a_signal_ends_everything(tmp_path):
    """A step hangs, and the rehearsal gets SIGTERM: status 130, and the Azure is gone."""
    program = f"""
import sys, time
from pathlib import Path
from rehearsal.cycle import runner
from rehearsal.cycle.steps import CycleStep
from rehearsal.simulator import Simulator

def hang(context):
    context.commands.run(["sleep", "3600"])

class Stack:
    version, program, stack = "v3", Path("/bin/true"), "dev"
    def __init__(self, azure, folder, name):
        self.azure = azure
    def __enter__(self):
        return self
    def __exit__(self, *_):
        print("closed", flush=True)
    def configure(self, path, value):
        assert path.startswith("people.") and value
    @property
    def command_environment(self):
        return self.azure.marked({{"PATH": "/bin:/usr/bin"}})

runner.Deployment = Stack
options = runner.CycleOptions(folder=Path({str(tmp_path / "r")!r}))
sys.exit(runner.run(options, (CycleStep("hang", "Hang", "sleep", hang),)))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=runner.ROOT
    )
    try:
        for line in process.stdout:
            if "Hang" in line:
                break
        until(lambda: list((tmp_path / "r" / "logs").glob("*sleep*")))
        process.send_signal(signal.SIGTERM)
        # Far less than the step would take.
        output, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == runner.INTERRUPTED
    assert "closed" in output
    assert "interrupted" in output
    assert owner(tmp_path / "r" / "azure") is None
