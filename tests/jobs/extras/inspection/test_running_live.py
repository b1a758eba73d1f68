"""Looking into runs on the simulator, with two real ranks."""

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli import main
from jobs.spec import from_options
from tests.jobs.support.runs import container
from tests.jobs.support.tiny import begin, running, status, wait_for
from trainer.distributed.run_requests import DEBUG, DEBUG_PORT, HOLD_MINUTES

TINY = [
    *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8"),
    *("--evaluation.every-epochs", "0", "--data.streams", "4", "--data.shuffle-window", "50"),
    *("--log.every-steps", "20", "--log.report", "False", "--export", "False", "--restarts", "0"),
    # It trains, and does nothing else, until the end of its test.
    *("--checkpoint.every-epochs", "0", "--epochs", "99999"),
]


def submit(run, *options):
    given = ["--preset", "digits", "--nodes", "2", "--name", run, "--no-follow"]
    return main(["submit", *given, *options, "--", *TINY])


def log(run, capsys):
    """Return the output of the ranks."""
    capsys.readouterr()
    try:
        main(["logs", run, "--rank", "all"])
    finally:
        text = capsys.readouterr().out
    return text


def trains(run, capsys):
    """Wait until a run takes steps."""
    wait_for(lambda: "step " in log(run, capsys), 600)


def hidden(live, run):
    names = container(live).list_blob_names(name_starts_with=f"runs/{run}/{run}/.")
    return [name for name in names if "/.request-" in name or "/.answer-" in name]


def process_of(job, rank):
    """Return the id of a rank's process, as soon as there is one."""
    found = []
    wait_for(lambda: found.extend(find_processes(job, rank)) or found)
    return found[0]


def find_processes(job, rank):
    """Find a rank's process, which is not the one that waits after its failure."""
    wanted = {f"AZUREML_RUN_ID={job}", f"OMPI_COMM_WORLD_RANK={rank}"}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            own = set((folder / "environ").read_text().split("\0"))
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        waits = any(variable.startswith(HOLD_MINUTES) for variable in own)
        if wanted <= own and "trainer" in words and not waits:
            yield int(folder.name)


@pytest.fixture
def endless(live, outputs, capsys, monkeypatch):
    """A run of two ranks that trains until the end of the test and keeps its nodes if it fails,
    and whose mount shows what others write only after some seconds.
    """
    service = live.azure.scheduler.new_execution.__self__
    monkeypatch.setattr(service, "options", replace(service.options, mount_seconds=5.0))
    assert submit("endless", "--hold-on-failure", "30", "--debug") == 0
    trains("endless", capsys)
    return "endless"


@pytest.mark.rehearse_all
def test_ranks_show_their_stacks_and_a_profile_and_keep_their_nodes_when_one_fails(
    live, endless, capsys, monkeypatch, tmp_path
):
    assert main(["stacks", endless]) == 0
    said = capsys.readouterr().out
    told = re.findall(r"^rank (\d) on \S+: phase '\w+', [\d,]+ steps done", said, re.MULTILINE)
    assert sorted(told) == ["0", "1"]
    assert "trainer/training/" in said
    assert "thread loop_0" in said
    assert "the run makes progress" in said
    assert hidden(live, endless) == []
    before = len(log(endless, capsys).splitlines())
    wait_for(lambda: len(log(endless, capsys).splitlines()) > before)

    monkeypatch.chdir(tmp_path)
    assert main(["profile", endless, "--steps", "4"]) == 0
    assert f"make -C tools profile RUN=runs/{endless}" in capsys.readouterr().out
    (trace,) = (tmp_path / "runs" / endless / "profile").rglob("*.xplane.pb")
    assert b"gradients0" in trace.read_bytes()
    assert hidden(live, endless) == []
    assert "recording 4 steps, as requested" in log(endless, capsys)

    # A rank that is frozen in a step: the other one answers, and knows.
    frozen = process_of("endless-r1", 1)
    os.kill(frozen, signal.SIGSTOP)
    try:
        assert main(["stacks", endless, "--wait-seconds", "60", "--json"]) == 1
    finally:
        os.kill(frozen, signal.SIGKILL)
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["missing"] == [1]
    assert [state["rank"] for state in document["ranks"]] == [0]
    assert document["ranks"][0]["heartbeat"]["arrived"]
    assert "rank 1: has not answered" in document["summary"]
    assert "cannot answer" in captured.err

    # Now that it is killed, its node is kept, and that of the other one, until they are released.
    wait_for(lambda: log(endless, capsys).count("its node is kept until") == 2)
    job = f"{live.workspace}/jobs/endless-r1"
    assert status(live, job) == "Running"
    assert main(["debug", endless]) == 0
    said = capsys.readouterr().out
    assert "rank 1 failed with status 137; its node is kept until" in said
    assert "rank 0 failed with status 6" in said
    assert main(["debug", endless, "--release"]) == 0
    assert "endless-r1: Failed" in capsys.readouterr().out
    # The cause decides, although both ranks have been released at the same time.
    assert "status code 137" in live.azure.runs.get(job)["error"]["error"]["message"]
    assert hidden(live, endless) == []
    assert main(["debug", endless]) == 1


def test_a_job_without_debug_says_what_works_without(live, outputs, capsys):
    job = begin(live, "shut", "sleep 60")
    running(live, job)()
    assert main(["debug", "shut"]) == 1
    told = capsys.readouterr().err
    assert "offers no way in" in told
    assert "python -m jobs stacks shut-r1" in told
    assert "submit --name shut --debug" in told
    assert main(["debug", "shut", "--release"]) == 1
    assert "is not kept after a failure" in capsys.readouterr().err


def test_a_machine_outside_the_network_is_told_why_it_cannot_get_in(live, outputs, capsys):
    job = begin(live, "beyond", "sleep 60")
    running(live, job)()
    live.azure.admin.fault(
        "serviceinstances", status=403, code="Forbidden", times=None,
        message="Public network access is disabled; use a private endpoint.",
    )  # fmt: skip
    assert main(["debug", "beyond"]) == 22
    assert "is private: its services can be reached only from inside" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["stacks", "profile"])
def test_only_a_running_training_is_asked(live, outputs, capsys, command):
    assert main([command, "none"]) == 1
    assert "there is no job or run of this name" in capsys.readouterr().err
    over = begin(live, f"{command}-over", "true")
    wait_for(lambda: status(live, over) == "Completed")
    assert main([command, f"{command}-over"]) == 1
    assert "-over-r1: has ended (Completed)" in capsys.readouterr().err
    running(live, begin(live, f"{command}-check", "sleep 60", kind="check"))()
    assert main([command, f"{command}-check"]) == 1
    assert "is a job of kind check, which does not train" in capsys.readouterr().err


@pytest.mark.long
def test_a_paused_job_says_how_to_attach_to_its_rank(live, outputs, capsys, monkeypatch):
    make, waiting = from_options.make_spec, "echo ${{outputs.run}}; sleep 600"
    monkeypatch.setattr(
        from_options, "make_spec", lambda *given: replace(make(*given), command=waiting)
    )
    key = ["--services.ssh-public-key", "ssh-ed25519 AAAA"]
    assert submit("stopped-there", "--debug", "paused", *key) == 0
    job = f"{live.workspace}/jobs/stopped-there-r1"
    running(live, job)()
    variables = live.azure.resources.get(job)["properties"]["environmentVariables"]
    assert variables[DEBUG] == "0"
    assert main(["debug", "stopped-there"]) == 0
    said = capsys.readouterr().out
    assert "node 1: az ml job connect-ssh --name stopped-there-r1 --node-index 1" in said
    assert f"--ssh-args '-L {DEBUG_PORT}:127.0.0.1:{DEBUG_PORT}'" in said
    assert "node 0: JupyterLab: https://jupyter_lab-0." in said
    assert "VS Code: https" not in said
