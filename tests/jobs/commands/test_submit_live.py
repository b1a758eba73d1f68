"""Jobs are submitted to the simulator."""

import json
import shutil
from dataclasses import replace

import pytest

from common.errors import UserError
from jobs.azure import submission
from jobs.azure.job_records import Jobs
from jobs.cli import main
from jobs.commands import submit
from jobs.spec import from_options
from jobs.spec.kinds import CHECK_RESULT
from tests.jobs.support.tiny import TRAINED, interrupt, read_until, started, status, wait_for

pytestmark = pytest.mark.usefixtures("outputs")

QUICK = ["--poll-seconds", "0.1"]
GOOD = {
    "ranks": 16, "ranks_per_node": 8, "infiniband": True, "read_bytes_per_second": [],
    "environment": {"gpus": ["V100"] * 16},
    "nodes": [{"infiniband_fault": ""}, {"infiniband_fault": "no adapter"}],
    "sums": [{"bytes": 1 << 20, "bus_bytes_per_second": 1e9}],
}  # fmt: skip


@pytest.fixture(autouse=True)
def small(tmp_path_factory, monkeypatch):
    """A repository with minimal code, as all code is uploaded with each job."""
    folder = tmp_path_factory.mktemp("repository")
    for package in ("common", "trainer"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
    for name in ("environments", "locks"):
        shutil.copytree(from_options.REPOSITORY / name, folder / name)
    monkeypatch.setattr(from_options, "REPOSITORY", folder)
    return folder


@pytest.fixture
def instead(monkeypatch):
    """Make jobs run a shell command instead of the trainer."""
    make, check = from_options.make_spec, from_options.check_spec

    def change(training, checking="true"):
        def changed(*args):
            spec = make(*args)
            command = checking if spec.kind == "check" else training % {"run": spec.run}
            return replace(spec, command=command)

        monkeypatch.setattr(from_options, "make_spec", changed)
        monkeypatch.setattr(
            from_options, "check_spec", lambda *args: replace(check(*args), command=checking)
        )

    return change


def job(live, name):
    found = live.azure.resources.get(f"{live.workspace}/jobs/{name}")
    return None if found is None else found["properties"]


def test_a_run_goes_from_its_summary_to_its_end(live, capsys, instead):
    instead(f"ls trainer/__init__.py; {TRAINED}")
    args = ["--kind", "smoke", "--name", "whole", *QUICK]
    assert main(["submit", *args, "--", "--epochs", "4"]) == 0
    text = capsys.readouterr().out
    cluster = live.outputs.clusters["cpu"]
    for words in ("whole, attempt 1 (smoke)", f"{cluster.name}: 1 x {cluster.size}, Dedicated",
                  "64 images per step over 2 ranks", "90 (4 epochs)", "is registered", "whole-r1:"
                  " submitted", "\ntrainer/__init__.py\n", "training completed"):  # fmt: skip
        assert words in text
    order = [
        text.index(words)
        for words in ("attempt 1 (smoke)", "registered", "submitted", "training completed")
    ]
    assert order == sorted(order)


def test_what_is_submitted_is_what_the_spec_says(live, capsys, monkeypatch):
    assert main(["submit", "--kind", "benchmark", "--nodes", "2", "--name", "asked",
                 "--no-follow", "--json", "--", "--max-steps", "5"]) == 0  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    live.azure.scheduler.cancel(f"{live.workspace}/jobs/asked-r1")
    sent, gpu = job(live, "asked-r1"), live.outputs.clusters["gpu"]
    assert found["steps"] == 5
    assert (found["job"], found["ranks"]) == ("asked-r1", 16)
    assert sent["distribution"] == {"processCountPerInstance": 8, "distributionType": "Mpi"}
    assert sent["resources"]["instanceCount"] == 2
    assert sent["resources"]["shmSize"] == "64g"
    assert sent["resources"]["dockerArgs"] == "--ulimit memlock=-1"
    assert sent["limits"]["timeout"] == "P7D"
    assert sent["identity"]["clientId"] == gpu.identity_client_id
    assert sent["computeId"].endswith(f"/computes/{gpu.name}")
    assert sent["environmentVariables"]["NCCL_DEBUG"] == "WARN"
    assert sent["tags"] == found["tags"]
    assert "--max-steps 5" in sent["command"]


def test_a_dry_run_submits_nothing(live, capsys):
    assert main(["submit", "--kind", "smoke", "--name", "dry", "--dry-run"]) == 0
    assert "nothing was submitted" in capsys.readouterr().out
    assert job(live, "dry-r1") is None
    assert not [r for r in live.azure.requests if r.method == "PUT"]


def test_a_need_that_is_not_met_leaves_nothing_that_costs_money(live, capsys, monkeypatch):
    def unmet(draft):
        raise UserError(f"{draft.spec.name}: the moon is too low")

    monkeypatch.setattr(submit, "NEEDS", (*submit.NEEDS, unmet))
    assert main(["submit", "--kind", "smoke", "--name", "unmet"]) == UserError.exit_code
    said = capsys.readouterr()
    assert "unmet-r1: the moon is too low" in said.err
    assert "unmet, attempt 1 (smoke)" in said.out
    assert not [r for r in live.azure.requests if r.method == "PUT"]


def test_a_key_is_refused_while_its_run_goes_on_and_then_its_next_attempt(live, capsys, instead):
    instead('sleep 600; ls "${{outputs.run}}"')
    args = ["submit", "--kind", "smoke", "--name", "again", "--no-follow"]
    assert main(args) == 0
    assert main(args) == 22
    assert "again-r1 has not ended" in capsys.readouterr().err
    assert main(["cancel", "again"]) == 0
    instead(TRAINED)
    assert main([*args[:-1], *QUICK]) == 0
    assert job(live, "again-r2")["tags"]["attempt"] == "2"
    assert "canceled_by" not in job(live, "again-r2")["tags"]


def check_command(measured):
    return f"mkdir -p outputs; echo '{json.dumps(measured)}' > {CHECK_RESULT}"


def test_a_good_check_is_followed_by_the_training(live, capsys, instead):
    instead(TRAINED, check_command(GOOD))
    args = ["submit", "--kind", "benchmark", "--nodes", "2", "--name", "checked"]
    assert main([*args, "--check-cluster", *QUICK]) == 0
    text = capsys.readouterr().out
    assert "InfiniBand works on all nodes" in text
    assert "checked-r1: training completed" in text
    assert job(live, "checked-check-r1")["tags"]["kind"] == "check"


def test_a_poor_check_stops_the_training_unless_asked(live, capsys, instead):
    instead(TRAINED, check_command({**GOOD, "infiniband": False}))
    args = ["submit", "--kind", "benchmark", "--nodes", "2", "--check-cluster", *QUICK]
    assert main([*args, "--name", "poor"]) == 23
    found = capsys.readouterr()
    assert "gradients go over Ethernet" in found.out
    assert "--even-if-poor" in found.err
    assert job(live, "poor-r1") is None
    assert main([*args, "--name", "poor", "--even-if-poor"]) == 0
    assert job(live, "poor-check-r2") is not None


def test_a_check_that_fails_stops_the_training(live, capsys, instead):
    instead(TRAINED, "exit 9")
    args = ["submit", "--kind", "benchmark", "--nodes", "2", "--check-cluster", *QUICK]
    assert main([*args, "--name", "unchecked"]) == 1
    assert "the cluster check failed" in capsys.readouterr().err
    assert job(live, "unchecked-r1") is None


def test_a_check_by_itself_says_whether_it_is_good(live, capsys, instead):
    instead(TRAINED, check_command({**GOOD, "infiniband": False}))
    assert main(["submit", "--kind", "check", "--nodes", "2", "--name", "look", *QUICK]) == 23
    assert "the check found a problem" in capsys.readouterr().out


def test_a_workspace_that_refuses_the_code_is_told(live, capsys, small):
    (small / "trainer" / "other.py").write_text("nobody has sent this yet")
    live.azure.admin.fault("POST .*/startPendingUpload", status=403, code="AuthorizationFailed")
    assert main(["submit", "--kind", "smoke", "--name", "nocode", "--no-follow"]) == 22
    assert "code trainer-" in capsys.readouterr().err
    assert job(live, "nocode-r1") is None


def interrupted(live, *args, match):
    """Press Ctrl-C during a slow request; return the output."""
    live.azure.admin.fault(match, delay=8.0)
    submitting = ("submit", "--kind", "smoke", *args, *QUICK)
    with started(live, *submitting, repository=from_options.REPOSITORY) as child:
        # The fault is taken from the list when its request has come.
        wait_for(lambda: not live.azure.faults._faults or child.poll() is not None)
        assert child.poll() is None, child.communicate()
        return interrupt(child)


def test_ctrl_c_before_a_job_is_submitted_leaves_nothing(live):
    text = interrupted(live, "--name", "early", match="GET .*/computes/")
    assert "interrupted; nothing was submitted" in text
    assert job(live, "early-r1") is None


def test_ctrl_c_while_the_code_is_sent_leaves_no_job(live):
    text = interrupted(live, "--name", "sent", match="GET .*/codes/")
    assert "sent-r1 does not exist yet" in text
    assert job(live, "sent-r1") is None


def test_ctrl_c_while_a_submitted_job_is_followed_leaves_it(live):
    submitting = ("submit", "--kind", "smoke", "--name", "on", *QUICK)
    with started(live, *submitting, repository=from_options.REPOSITORY) as child:
        read_until(child, "on-r1: submitted")
        said = interrupt(child)
    assert "python -m jobs follow on" in said
    assert "python -m jobs cancel on" in said
    assert status(live, f"{live.workspace}/jobs/on-r1") != "Canceled"
    assert main(["cancel", "on"]) == 0


def test_an_interrupted_request_that_arrives_a_moment_later_is_seen(
    live, monkeypatch, capsys, instead
):
    """The job appears between the first lookup and the second."""
    instead('sleep 600; ls "${{outputs.run}}"')
    request, look = submission.submit, Jobs.get
    interrupted, looks, arrived = [], [], []

    def cut(*args):
        interrupted.append(args)
        raise KeyboardInterrupt

    def late(jobs, name):
        if interrupted and name == "later-r1" and not arrived:
            looks.append(name)
            if len(looks) == 2:
                arrived.append(name)
                request(*interrupted[0])
        return look(jobs, name)

    monkeypatch.setattr(submission, "submit", cut)
    monkeypatch.setattr(Jobs, "get", late)
    assert main(["submit", "--kind", "smoke", "--name", "later", *QUICK]) == 130
    assert "later-r1 was already submitted" in capsys.readouterr().err
    assert arrived
    assert main(["cancel", "later"]) == 0


def test_a_run_that_nobody_follows_is_told_to_be_unattended(live, capsys):
    assert main(["submit", "--kind", "benchmark", "--name", "lone", "--no-follow",
                 "--outputs", str(live.file), "--", "--max-steps", "5"]) == 0  # fmt: skip
    live.azure.scheduler.cancel(f"{live.workspace}/jobs/lone-r1")
    text = capsys.readouterr().out
    assert "submitted again only by a supervisor: `follow --supervise`, or `supervise` for" in text
    assert f"`python -m jobs follow lone --supervise --outputs {live.file}` follows it" in text


def test_a_submission_that_never_arrived_is_told_to_be_none(live, capsys, instead, monkeypatch):
    monkeypatch.setattr(submission, "ARRIVAL_SECONDS", 0.5)
    instead(TRAINED)
    live.azure.admin.fault("PUT .*/jobs/never-r1", cut=True, times=None)
    assert main(["submit", "--kind", "smoke", "--name", "never", *QUICK]) == 22
    said = capsys.readouterr().err
    assert "never-r1: was not submitted, as it does not exist; run the same command again" in said
    assert job(live, "never-r1") is None


def test_a_submission_that_nobody_can_look_up_is_of_unknown_fate(live, capsys, instead):
    instead('sleep 600; ls "${{outputs.run}}"')
    live.azure.admin.fault("GET .*/jobs/dark-r1", cut=True, after=2, times=None)
    live.azure.admin.fault("PUT .*/jobs/dark-r1", cut=True, carried_out=True, times=None)
    args = ["submit", "--kind", "smoke", "--name", "dark", *QUICK]
    assert main([*args, "--retry-timeout-minutes", "0.01"]) == 25
    said = capsys.readouterr().err
    assert "dark-r1: it is unknown whether it was submitted; it may run and cost money" in said
    assert "`python -m jobs cancel dark` cancels it" in said
    live.azure.admin.clear_faults()
    assert main(["cancel", "dark"]) == 0


@pytest.mark.parametrize("same", [True, False])
def test_of_two_submitters_of_one_key_the_slower_is_told(live, monkeypatch, capsys, instead, same):
    instead('sleep 600; ls "${{outputs.run}}"')
    run, put, others = f"two-{same}".lower(), Jobs.put, []

    def slower(jobs, name, properties):
        if not others:
            theirs = {**properties, "environmentVariables": {submission.SUBMISSION: "theirs"}}
            others.append(put(jobs, name, theirs if same else {**theirs, "command": "true"}))
        return put(jobs, name, properties)

    monkeypatch.setattr(Jobs, "put", slower)
    assert main(["submit", "--kind", "smoke", "--name", run, *QUICK]) == 22
    said = capsys.readouterr().err
    assert f"job {run}-r1: someone else submitted a job of this name at the same moment" in said
    assert f"`python -m jobs follow {run}` follows it" in said
    live.azure.scheduler.cancel(f"{live.workspace}/jobs/{run}-r1")
