"""What a resume costs in a data set of ImageNet's length."""

import json
import subprocess
import sys

import pytest

from tests import ROOT


@pytest.mark.slow
def test_a_resume_late_in_an_epoch_reads_two_windows_of_each_stream(tmp_path):
    path = tmp_path / "out"
    options = ["--worlds", "8", "--rounds", "1", "--json", str(path)]
    command = [sys.executable, "-m", "benchmarks.data.resume", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"| 8, 99.9 %" in done.stdout
    for name, (found,) in json.loads(path.read_text())["rounds"].items():
        # One window is begun, the next is read ahead; a stream begins at an indexed record and
        # reads whole buffers.
        assert 0.9 <= found["bytes"] / found["bytes_of_two_windows"] <= 1.6, name
