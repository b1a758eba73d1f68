"""The trainer on the simulator, whose nodes are pre-empted, ends with bit-identical weights."""

import re
import subprocess

import pytest

from jobs.azure.workspace import connect
from jobs.cli import main
from jobs.errors import SpecError
from jobs.exit_status import BUDGET_USED
from jobs.spec import budget_policy
from jobs.spec.budget_policy import Budget
from tests import ROOT
from tests.jobs.support.runs import container
from tests.jobs.support.tiny import meanwhile, running, wait_for

TRAINER = ROOT / ".venv-trainer" / "bin" / "python"
EVERY = 20
"""Steps between two checkpoints; few of all steps, so that a training lasts until pre-emption."""
SMALL = [
    *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8", "--epochs", "15"),
    *("--checkpoint.every-steps", f"{EVERY}", "--checkpoint.keep", "99"),
    *("--evaluation.every-epochs", "0", "--data.streams", "4", "--data.shuffle-window", "50"),
    *("--log.every-steps", "20", "--log.report", "False", "--export", "False", "--restarts", "0"),
]
STATE = """
import hashlib, sys
from pathlib import Path
from tests.trainer.support.command import final_state

for run in sys.argv[1:]:
    whole = hashlib.sha256()
    for name, content in sorted(final_state(Path(run)).items()):
        whole.update(name.encode() + content)
    print(whole.hexdigest())
"""


QUICK = ["--poll-seconds", "1"]
MARGIN = ["--budget-margin-minutes", "3"]


def submit(run, *options):
    options = [*QUICK, "--resubmit.backoff-seconds", "0.1", *options]
    return main(
        ["submit", "--preset", "digits", "--nodes", "2", "--name", run, *options, "--", *SMALL]
    )


def saved(live, run):
    """Return the newest step with a complete checkpoint in storage."""
    names = container(live).list_blob_names(name_starts_with=f"runs/{run}/{run}/checkpoints/")
    found = (re.search(r"/step-(\d+)[^/]*/DONE", name) for name in names)
    return max((int(match[1]) for match in found if match), default=0)


@pytest.mark.rehearse_all
def test_a_run_that_uses_up_its_budget_and_loses_its_nodes_ends_with_the_same_weights(
    live, outputs, tmp_path, capsys, monkeypatch
):
    # Spot at its highest price, so that nothing is left of a budget that was used at that price.
    live.azure.admin.spot_price(0.05)
    # At the same time as the other one, as most of their time is that of starting.
    assert submit("calm", "--no-follow") == 0
    stop_at_the_budget(outputs, capsys, monkeypatch)
    second, taken_at = f"{live.workspace}/jobs/thrifty-r2", []

    def lose_nodes():
        wait_for(lambda: saved(live, "thrifty") >= EVERY, 600)
        taken_at.append(saved(live, "thrifty"))
        live.azure.admin.preempt(job=second)

    meanwhile(running(live, second), lose_nodes)
    assert submit("thrifty", "--budget", "40", *MARGIN) == 0
    text = capsys.readouterr().out
    assert "PreemptionError" in text
    assert "thrifty-r3: training completed" in text
    # What had come to storage is all that a lost node leaves, and none of it is trained again.
    steps = [int(step) for step in re.findall(r"continues at step (\d+)", text)]
    assert steps[0] == 1
    assert steps[1] >= taken_at[0]
    attempts = connect(outputs).jobs.attempts("thrifty")
    spent = [Budget.of(job.tags, job.nodes).spent for job in attempts]
    assert 0 == spent[0] < spent[1] < min(0.2015, spent[2])
    assert main(["status"]) == 0
    (line,) = re.findall(r"\nthrifty .*", capsys.readouterr().out)
    assert re.search(r"Completed +Failed, Failed .* \d\.\d{4} USD$", line)

    assert main(["follow", "calm", *QUICK]) == 0
    assert_same_weights(tmp_path, "calm", "thrifty")


def stop_at_the_budget(outputs, capsys, monkeypatch):
    """Submit a run that uses up its budget, and submit it again with the same one."""
    # An attempt always takes a step, so one that has a second to train stops after the first.
    monkeypatch.setattr(budget_policy, "USEFUL", 0.0)
    # Two nodes of 2 USD an hour each for 3 minutes and a second.
    assert submit("thrifty", "--budget", "0.2015", *MARGIN) == BUDGET_USED
    text = capsys.readouterr().out
    assert "0.2015 USD: pays for 2 nodes at 2" in text
    assert "--max-seconds 1 is reached: saving step 1" in text
    assert re.search(r"stopped at its budget, as it has cost about 0\.\d{4} USD of 0\.2015", text)
    assert re.search(r"cost of thrifty: 0\.\d{4} USD in 1 attempt", text)
    # Another supervisor does not spend more.
    assert main(["follow", "thrifty", "--supervise", *QUICK]) == BUDGET_USED
    assert len(connect(outputs).jobs.attempts("thrifty")) == 1
    assert submit("thrifty", "--budget", "0.2015", *MARGIN) == SpecError.exit_code
    assert "that earlier attempts cost pays for 2 nodes" in capsys.readouterr().err


def assert_same_weights(folder, *runs):
    for run in runs:
        assert main(["download", run, "--to", str(folder / run), "--checkpoints", "True"]) == 0
    hashes = subprocess.run(
        [TRAINER, "-c", STATE, *(str(folder / run) for run in runs)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert len(set(hashes)) == 1
