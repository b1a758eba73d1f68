"""What a resume costs in a data set of ImageNet's length."""

import json

import pytest

from tests.trainer.support.command import run_trainer


@pytest.mark.slow
def test_a_late_resume_reads_no_more_than_two_windows_of_each_stream(tmp_path):
    options = ["--worlds", "8", "--rounds", "1", "--json", "out"]
    done = run_trainer("resume", *options, cwd=tmp_path, module="benchmarks")
    assert done.returncode == 0, done.stderr
    assert "| 8, 99.9 %" in done.stdout
    for name, (turn,) in json.loads((tmp_path / "out").read_text())["rounds"].items():
        assert turn["seconds"] > 0, name
        # One window is begun, the next is read ahead; a stream begins at an indexed record and
        # reads whole buffers.
        assert 0.9 <= turn["bytes"] / turn["bytes_of_two_windows"] <= 1.6, name
