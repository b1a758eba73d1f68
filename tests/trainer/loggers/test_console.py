"""What is shown of a run: a bar where somebody looks at it, lines everywhere else."""

import os
import subprocess
import sys

import pytest

from tests import ROOT

SHOW = """
from trainer.loggers.console import Console
with Console(10, silent=False) as console:
    console.progress(5)
    console.say("said")
"""
UNDER_MPIRUN = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}


@pytest.mark.parametrize(("env", "bar"), [({}, True), (UNDER_MPIRUN, False)])
def test_there_is_a_bar_on_a_terminal_unless_mpirun_has_made_it(env, bar):
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **env},
        stdout=theirs,
    )
    os.close(theirs)
    assert process.wait() == 0
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "said" in shown
    assert ("\x1b" in shown) == ("5/10" in shown) == bar
