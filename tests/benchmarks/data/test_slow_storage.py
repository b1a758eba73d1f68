"""Storage whose every read takes long."""

import json
import subprocess
import sys

import pytest

from benchmarks.data.slow_storage import ratios, table
from tests import ROOT

ROUNDS = {
    ms: [
        {"images_per_second": speed, "first_batch_seconds": 1.0, "cpu_ms_per_image": 2.0}
        for speed in speeds
    ]
    for ms, speeds in ((0, (100.0, 200.0, 400.0)), (20, (90.0, 100.0, 400.0)))
}


def test_speeds_are_compared_inside_each_round():
    assert ratios(ROUNDS, 20) == [0.9, 0.5, 1.0]
    cells = [cell.strip() for cell in table(ROUNDS).splitlines()[-1].split("|")[1:-1]]
    assert cells[:3] == ["20 ms", "100 (90-400)", "0.90 (0.50-1.00)"]


@pytest.mark.slow
@pytest.mark.long
def test_reads_that_take_20_ms_longer_hardly_slow_the_input_down(tmp_path):
    # The better of two ratios, each formed inside a round, as other work on the machine slows down
    # one part of a round or the other.
    command = [
        sys.executable,
        "-m",
        "benchmarks.data.slow_storage",
        "--json",
        str(tmp_path / "out"),
    ]
    small = {"images": 400, "batches": 16, "streams": 8, "window": 32, "rounds": 2}
    options = [text for key, value in small.items() for text in (f"--{key}", str(value))]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"20 ms" in done.stdout
    found = json.loads((tmp_path / "out").read_text())["rounds"]
    assert max(ratios({int(ms): rounds for ms, rounds in found.items()}, 20)) >= 0.5, found
