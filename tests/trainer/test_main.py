"""How `python -m trainer` ends: with its own status, whatever libraries do afterwards."""

import signal

import pytest

from tests import ROOT
from tests.trainer.support.command import run_trainer

# Python itself imports a module of this name, if there is one, before anything else.
WITH_A_LIBRARY = """
import atexit, os, sys

class Library:
    mkdir = os.mkdir

    def find_spec(self, name, path=None, target=None):
        if name == "trainer.cli":
            atexit.register(os.mkdir, "told")

    def __del__(self):
        Library.mkdir("taken-apart")

sys.meta_path.insert(0, Library())
"""


@pytest.mark.parametrize(("args", "status"), [(["--help"], 0), (["verify", "nothing"], 3)])
def test_nothing_of_a_library_is_taken_apart_once_the_command_has_ended(tmp_path, args, status):
    (tmp_path / "sitecustomize.py").write_text(WITH_A_LIBRARY)
    done = run_trainer(*args, cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert done.returncode == status, done.stderr
    assert done.stdout if status == 0 else done.stderr.startswith("error: ")
    assert (tmp_path / "told").exists()
    assert not (tmp_path / "taken-apart").exists()


INTERRUPTED_IN_AN_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "trainer.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


def test_ctrl_c_in_the_imports_ends_without_a_traceback(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED_IN_AN_IMPORT)
    done = run_trainer("--help", cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    # A shell shows 130.
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
