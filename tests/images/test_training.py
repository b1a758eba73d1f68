"""Two ranks under the image's mpirun train, are disturbed, and resume to the same bits."""

import json
import re

import pytest

from tests import ROOT
from tests.images.training import BRIEF, PACED, SHORT, metrics, saved, train

pytestmark = pytest.mark.images

STEP = r"^step +\d+ "
"""The line of a reported step; one comes at the end of the first, compiled one too."""

STRUCK = {
    "SIGTERM to a rank": ("SIGTERM", "1", 143),
    "SIGUSR1 to a rank": ("SIGUSR1", "0", 138),
    "SIGUSR1 to mpirun": ("SIGUSR1", "launcher", 138),
    # The statuses of its ranks do not count then.
    "SIGTERM to mpirun": ("SIGTERM", "launcher", 1),
    "SIGKILL to a rank": ("SIGKILL", "1", 137),
    "SIGSTOP to a rank": ("SIGSTOP", "1", 7),
}
STOPPED = [name for name in STRUCK if "SIGKILL" not in name and "SIGSTOP" not in name]


@pytest.fixture(scope="module")
def whole(image):
    """A run without disturbances."""
    (told,) = image.drive({"command": train(*PACED, "--name", "whole")})
    assert told["status"] == 0, told["said"]
    return image.folder / "runs" / "whole", told["said"]


@pytest.fixture(scope="module")
def disturbed(image, whole):
    """A run that was disturbed in every way and continued each time, and the output of its
    attempts, by the disturbance; the last one's under "end".
    """
    command = train(*PACED, *BRIEF, "--watchdog.step-seconds", "5", "--name", "disturbed")
    scenes = [
        {"command": command, "until": STEP, "times": 3, "signal": signal, "target": target}
        for signal, target, _ in STRUCK.values()
    ]
    told = image.drive(*scenes, {"command": command})
    return image.folder / "runs" / "disturbed", dict(zip([*STRUCK, "end"], told, strict=True))


def test_two_ranks_train_as_one_world_and_leave_what_a_run_leaves(whole):
    run, said = whole
    result = json.loads((run / "result.json").read_text())
    assert result["ranks"] == 2
    assert result["top1"] > 0.7
    report = (run / "report.html").read_text()
    assert all(f'id="{part}"' in report for part in ("curves", "confusion", "mistakes"))
    assert "<svg" in report
    assert "data:image/" in report
    assert (run / "export" / "saved_model" / "saved_model.pb").is_file()
    steps = [line["step"] for line in metrics(run, "train")]
    assert steps == [*range(5, 271, 5)]
    # mpirun gives ranks a terminal, but their output ends in a log.
    assert "\x1b" not in said


def test_ranks_agree_by_mpi(whole):
    run, _ = whole
    (start,) = metrics(run, "start")
    assert start["environment"]["controller"] == "MPI"


@pytest.mark.parametrize("name", STRUCK)
def test_the_status_says_what_has_ended_a_training(name, disturbed, measured):
    _, told = disturbed
    one = told[name]
    assert one["seconds"] is not None, one["said"]
    measured[f"from {name} to the end"] = f"{one['seconds']:.1f} s"
    assert one["status"] == STRUCK[name][2], one["said"]
    assert one["left"] == []


@pytest.mark.parametrize("name", STOPPED)
def test_all_ranks_stop_after_the_same_step_and_save_it(name, disturbed):
    _, told = disturbed
    asked = re.findall(r"asked to stop: saving step ([\d,]+);", told[name]["said"])
    assert len(asked) == 1, told[name]["said"]
    step = int(asked[0].replace(",", ""))
    following = list(told)[list(told).index(name) + 1]
    assert f"continues at step {step:,}" in told[following]["said"]


def test_ranks_stop_at_mpiruns_notice_of_an_end_before_the_end_itself(disturbed, measured):
    run, told = disturbed
    text = (ROOT / "environments" / "shared" / "openmpi-mca-params.conf").read_text()
    (grace,) = re.findall(r"^odls_base_sigkill_timeout = (\d+)$", text, re.MULTILINE)
    stop = metrics(run, "stop")[STOPPED.index("SIGTERM to mpirun")]
    seconds = stop["time"] - told["SIGTERM to mpirun"]["sent"]
    measured["from SIGTERM to mpirun to a saved state"] = f"{seconds:.1f} s"
    assert 0 < seconds < int(grace)


def test_a_frozen_rank_is_named_by_the_watchdog_of_the_other(disturbed):
    _, told = disturbed
    said = told["SIGSTOP to a rank"]["said"]
    assert re.search(r"rank 0: no progress for \d s after step \d+, in the phase 'train'", said)
    assert "rank 0: the late rank is rank 1: no sign of life" in said
    assert re.search(r'File ".*/trainer/training/loop.py", line \d+', said)


def test_a_disturbed_run_ends_with_the_bits_of_an_undisturbed_one(whole, disturbed):
    run, told = disturbed
    assert told["end"]["status"] == 0, told["end"]["said"]
    there, expected = saved(run), saved(whole[0])
    assert there[270] == expected[270]
    assert [line["attempt"] for line in metrics(run, "start")] == list(range(1, len(told) + 1))
    steps = [line["step"] for line in metrics(run, "train")]
    assert steps == sorted(set(steps))
    assert {line["step"] for line in metrics(whole[0], "train")} <= set(steps)


def test_a_user_who_is_not_root_trains_as_well(image):
    home = image.folder / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    image.folder.chmod(0o777)
    user = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", "env", "HOME=/work/home"]
    command = train(*SHORT, "--runs-dir", "home/runs", "--name", "own")
    (told,) = image.drive({"command": [*user, *command]})
    assert told["status"] == 0, told["said"]
    result = home / "runs" / "own" / "result.json"
    assert json.loads(result.read_text())["ranks"] == 2
    assert result.stat().st_uid == 1234


def test_what_was_trained_is_evaluated_and_used(image, whole):
    run, _ = whole
    result = json.loads((run / "result.json").read_text())
    done = image.run("python", "-m", "trainer", "evaluate", "--run", "runs/whole")
    assert done.returncode == 0, done.stderr
    assert f"top-1 {result['top1']:.2%}" in done.stdout
    mistake = next((run / "mistakes").glob("*.png"))
    picture = f"runs/whole/mistakes/{mistake.name}"
    done = image.run("python", "-m", "trainer", "predict", picture, "--run", "runs/whole")
    assert done.returncode == 0, done.stderr
    assert mistake.name in done.stdout
