"""Storage whose every read takes long."""

import json

import pytest

from benchmarks.data.slow_storage import ratios, show
from tests.trainer.support.command import run_trainer

ROUNDS = {
    ms: [
        {"images_per_second": speed, "first_batch_seconds": 1.0, "cpu_ms_per_image": 2.0}
        for speed in speeds
    ]
    for ms, speeds in (("0", (100.0, 200.0, 400.0)), ("20", (90.0, 100.0, 400.0)))
}


def test_speeds_are_compared_inside_each_round():
    assert ratios(ROUNDS, "20") == [0.9, 0.5, 1.0]
    cells = [cell.strip() for cell in show({"rounds": ROUNDS}).splitlines()[-1].split("|")[1:-1]]
    assert cells[:3] == ["20 ms", "100 (90-400)", "0.90 (0.50-1.00)"]


@pytest.mark.slow
@pytest.mark.long
def test_reads_that_take_20_ms_longer_hardly_slow_the_input_down(tmp_path):
    # The better of two ratios, each formed inside a round, as other work on the machine slows down
    # one part of a round or the other.
    small = {"images": 400, "batches": 16, "streams": 8, "window": 32, "rounds": 2}
    options = [text for key, value in small.items() for text in (f"--{key}", str(value))]
    done = run_trainer("slow-storage", *options, "--json", "out", cwd=tmp_path, module="benchmarks")
    assert done.returncode == 0, done.stderr
    assert "20 ms" in done.stdout
    rounds = json.loads((tmp_path / "out").read_text())["rounds"]
    assert max(ratios(rounds, "20")) >= 0.5, rounds
