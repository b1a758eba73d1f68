"""The runner of the cycle: what it tells, writes down, refuses and leaves behind."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from rehearsal import __main__ as command
from rehearsal.cycle import environment_file, output_parsing, runner
from rehearsal.cycle.commands import CommandError, CommandRunner
from rehearsal.cycle.context import CycleContext, require_within
from rehearsal.cycle.steps import STEPS, CycleStep
from rehearsal.cycle.training_steps import _Preemption
from rehearsal.errors import RehearsalError
from rehearsal.lifetime import owner
from rehearsal.loopback import Loopback
from rehearsal.page.record import from_json

UPDATED = """
Previewing update (dev):
Resources:
    + 118 to create
    2 unchanged

Updating (dev):
    + 118 created
Resources:
    + 117 created
    ~ 1 updated
    +-1 replaced
    3 unchanged

Duration: 15s
"""
DIFFERENCE = """
  pulumi:pulumi:Stack: (same)
    ~ azure-native:machinelearningservices:Compute: (update)
      ~ properties: {
          ~ properties: {
              ~ scaleSettings: {
                  ~ maxNodeCount: 2 => 1
                }
            }
        }
      ~ publicNetworkAccess: "Disabled" => "Enabled"
Resources:
    ~ 1 to update
    117 unchanged
"""


def test_what_pulumi_counts_at_its_end():
    assert output_parsing.changes(UPDATED) == {
        "created": 117,
        "updated": 1,
        "replaced": 1,
        "unchanged": 3,
    }
    assert output_parsing.changes(DIFFERENCE) == {"to update": 1, "unchanged": 117}
    assert output_parsing.changes("error: no stack") == {}


def test_what_pulumi_shows_to_differ():
    assert output_parsing.differences(DIFFERENCE) == [
        "maxNodeCount: 2 => 1",
        'publicNetworkAccess: "Disabled" => "Enabled"',
    ]


def test_where_a_training_went_on_and_what_it_came_to():
    text = "rehearsal: starts\n...\nrehearsal: continues at step 1,040 of 2,000\n"
    assert output_parsing.continued_at(text) == 1040
    assert output_parsing.continued_at("starts") is None
    told = "step     50  epoch   2.23  loss 2.0\nstep  1,350  epoch  60.01  held-out top-1 77.50%\n"
    assert output_parsing.last_step(told) == 1350
    assert output_parsing.last_step("starts") is None
    said = "x/step-90: top-1 96.39%, top-5 100.00%, loss 0.6 on 1,360 held-out images"
    assert output_parsing.accuracy(said) == ("96.39", 1360)
    assert output_parsing.accuracy("no checkpoint") is None


@pytest.fixture
def shell(tmp_path):
    return CommandRunner(tmp_path / "logs", tmp_path, lambda: dict(os.environ), lambda: None)


def test_a_command_is_told_line_by_line_and_kept(shell):
    lines = []
    said = shell.run(["sh", "-c", "echo one; echo two >&2"], on_line=lines.append)
    assert lines == ["one", "two"]
    assert said.text == said.log.read_text() == "one\ntwo\n"


def test_an_answer_is_kept_apart_from_what_is_told_beside_it_however_long_it_is(shell):
    program = "import sys; sys.stdout.write('x' * 300_000); print('note', file=sys.stderr)"
    said = shell.run([sys.executable, "-c", program], separate=True)
    assert said.answer == "x" * 300_000
    assert said.log.read_text() == "note\n"


def test_a_command_that_fails_tells_its_last_words_and_where_they_are(shell):
    with pytest.raises(CommandError, match="ended with status 3, not 0") as caught:
        shell.run(["sh", "-c", "echo the reason; exit 3"])
    assert caught.value.lines[-1] == "the reason"
    assert caught.value.log.read_text() == "the reason\n"


def test_a_command_that_does_not_end_is_ended_with_all_that_it_has_started(tmp_path):
    with Loopback(tmp_path / "azure") as azure:
        environment = lambda: azure.marked(dict(os.environ))  # noqa: E731
        shell = CommandRunner(
            tmp_path / "logs", tmp_path, environment, azure.end_commands, seconds=1.0
        )
        with pytest.raises(CommandError, match="did not end within 1 s") as caught:
            # What goes on in the background holds the pipe.
            shell.run(["sh", "-c", "echo begun; setsid sleep 600 & sleep 600"])
    assert caught.value.lines[-1] == "begun"


def test_a_command_that_serves_has_both_of_its_streams_in_files(shell):
    answer, process = shell.serve(["sh", "-c", "echo '{}'; echo note >&2; sleep 600"])
    try:
        require_within(lambda: answer.read_text() == "{}\n", 30, "the answer")
        require_within(lambda: answer.with_suffix(".log").read_text() == "note\n", 30, "the note")
    finally:
        process.kill()
        process.wait()


def test_a_thief_that_cannot_look_says_so(tmp_path):
    preemption = _Preemption(SimpleNamespace(azure=None, workspace="w"))
    preemption.start()
    preemption.join()
    with pytest.raises(RehearsalError, match="the job could not be pre-empted: AttributeError"):
        preemption.stop()


def scene(tmp_path, azure=None):
    """Of an Azure without any stack."""
    stack = SimpleNamespace(version="v3.259.0", stack="dev", command_environment=dict(os.environ))
    return CycleContext(azure, stack, tmp_path, lambda _: None)


def fails(_):
    raise RehearsalError("something is missing")


@pytest.mark.parametrize("named", [True, False])
def test_the_first_failure_ends_the_cycle_and_says_where_to_look(tmp_path, capsys, named):
    def ends_badly(at):
        at.commands.run(["sh", "-c", "echo out of luck; exit 1"])

    steps = (
        CycleStep("one", "First", "first", lambda _: ["found 1", "and 2"]),
        CycleStep("two", "Second", "second", ends_badly if named else fails),
        CycleStep("three", "Third", "third", lambda _: pytest.fail("it must not come to that")),
    )
    with Loopback(tmp_path / "azure") as azure:
        cycle = runner.run_steps(steps, scene(tmp_path, azure), runner.Console())
    assert [step.outcome for step in cycle.steps] == ["ok", "failed", "skipped"]
    assert cycle.steps[0].lines == ("found 1", "and 2")
    failed = cycle.steps[1]
    if named:
        assert failed.lines[-1] == "out of luck"
        assert failed.place == str(tmp_path / "logs" / "01-sh.log")
    else:
        assert failed.lines == ("RehearsalError: something is missing",)
        assert failed.place == str(tmp_path / "logs")
    told = capsys.readouterr().out
    assert "FAILED" in told
    assert "Third" not in told
    runner.write_record(cycle, tmp_path)
    assert from_json((tmp_path / runner.RECORD).read_text()) == cycle


@pytest.mark.parametrize("named", [True, False])
def test_a_record_names_files_of_the_repository_from_its_root_on(tmp_path, named):
    log = runner.ROOT / "build" / "logs" / "01.log"
    words = f"{log}: is empty, as '{runner.ROOT}/.venv/bin/python' is"
    others = f"not /mnt{log}, file://{log}, {runner.ROOT}-2/x, {tmp_path}/x or {runner.ROOT}"

    def ends_badly(_):
        raise CommandError([words, others], log) if named else RehearsalError(words)

    steps = (
        CycleStep("one", "First", "first", lambda _: [words]),
        CycleStep("two", "2nd", "2", ends_badly),
    )
    with Loopback(tmp_path / "azure") as azure:
        cycle = runner.run_steps(steps, scene(tmp_path, azure), runner.Console())
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
    assert "there is no step 'upload-all': preview, up, " in capsys.readouterr().err


def test_a_folder_that_only_looks_like_one_is_left_as_it_is(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "of-mine").touch()
    with pytest.raises(RehearsalError, match="holds logs, which no rehearsal has written"):
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
    with pytest.raises(RehearsalError, match=r"holds thesis\.tex, which no rehearsal has written"):
        runner.empty_folder(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["azure", "thesis.tex"]


def test_two_do_not_rehearse_in_one_folder(tmp_path):
    with Loopback(tmp_path / "azure"):
        assert owner(tmp_path / "azure") == str(os.getpid())
        with pytest.raises(RehearsalError, match=f"process {os.getpid()} rehearses there"):
            runner.empty_folder(tmp_path)
    assert owner(tmp_path / "azure") is None


def test_the_variables_of_a_kept_rehearsal_are_for_a_shell_and_for_its_owner_alone(tmp_path):
    stack = SimpleNamespace(variables={"A": 'it\'s a "test" $HOME', "B": "2"}, path=["/a b/c"])
    environment_file.write(tmp_path, stack)
    assert (tmp_path / environment_file.FILE).stat().st_mode & 0o777 == 0o600
    with pytest.raises(RehearsalError, match="no rehearsal is left running"):
        environment_file.read(tmp_path, {})
    with Loopback(tmp_path / "azure"):
        text = environment_file.read(tmp_path, {})
    script = 'eval "$1"; printf "%s\\n" "$A" "$B" "$PATH"'
    shown = subprocess.run(
        ["/bin/sh", "-c", script, "sh", text],
        env={"PATH": "/bin"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert shown.splitlines() == ['it\'s a "test" $HOME', "2", "/a b/c:/bin"]


def test_what_leads_a_shell_elsewhere_is_taken_away(tmp_path):
    """Pulumi takes a passphrase before a file of one, and jobs a file of outputs before a stack."""
    stack = SimpleNamespace(variables={"PULUMI_STACK": "dev"}, path=["/bin"])
    environment_file.write(tmp_path, stack)
    shell = {
        "PULUMI_CONFIG_PASSPHRASE": "",
        "JOBS_OUTPUTS": "real.json",
        "PULUMI_STACK": "prod",
        "HOME": "/home",
    }
    with Loopback(tmp_path / "azure"):
        text = environment_file.read(tmp_path, shell)
    shown = subprocess.run(
        ["/bin/sh", "-c", 'eval "$1"; env', "sh", text],
        env={"PATH": "/bin:/usr/bin", **shell}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = dict(line.split("=", 1) for line in shown.splitlines())
    assert "PULUMI_CONFIG_PASSPHRASE" not in found
    assert "JOBS_OUTPUTS" not in found
    assert (found["PULUMI_STACK"], found["HOME"]) == ("dev", "/home")


def test_a_signal_ends_everything(tmp_path):
    """A step hangs, and the rehearsal gets SIGTERM: status 130, and the Azure is gone."""
    program = f"""
import sys, time
from pathlib import Path
from rehearsal.cycle import runner
from rehearsal.cycle.steps import CycleStep
from rehearsal.loopback import Loopback

def hang(context):
    context.commands.run(["sleep", "1000"])

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
        require_within(
            lambda: list((tmp_path / "r" / "logs").glob("*sleep*")) != [], 30, "the command"
        )
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == runner.INTERRUPTED
    assert "closed" in said
    assert "interrupted" in said
    assert time.monotonic() - began < 20
    assert owner(tmp_path / "r" / "azure") is None
