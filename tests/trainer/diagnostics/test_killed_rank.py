"""A rank that kills itself at a step, so that it can be seen what a platform does then."""

import subprocess
import sys

import pytest

from common.errors import ConfigError
from tests import ROOT
from trainer.diagnostics.killed_rank import KILL, KilledRank

PROGRAM = """
from trainer.diagnostics.killed_rank import KilledRank
rank = KilledRank({"TRAINER_KILL_RANK": "1:50"}, %d)
for step in range(%d, 60, 10):
    rank.at(step)
    print(step)
"""


@pytest.mark.parametrize(
    ("rank", "begun", "status", "last"),
    [(1, 0, -9, "this rank kills itself after step 50"), (0, 0, 0, "50"), (1, 10, 0, "50")],
    ids=["named", "another", "continued"],
)
def test_the_rank_that_is_named_ends_at_its_step_unless_it_continues_a_run(
    rank, begun, status, last
):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % (rank, begun)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status
    assert done.stdout.splitlines()[-1].endswith(last)


@pytest.mark.parametrize("value", ["1", "x:5", "1:0", "-1:5", "1:5:6"])
def test_another_form_is_refused(value):
    with pytest.raises(ConfigError, match="must be RANK:STEP"):
        KilledRank({KILL: value}, 0)
