"""Mounts that cache whole files, or blocks."""

import json

import pytest

from benchmarks.data.mount_cache import KINDS, show
from tests.trainer.support.command import run_trainer


def turn(first, waited):
    return {
        "first_seconds": first,
        "waited_seconds": waited,
        "longest_seconds": waited / 2,
        "waited_share": waited / 100,
    }


def test_each_kind_is_shown_with_its_median_and_its_spread():
    rounds = {"files": [turn(3, 10), turn(5, 30), turn(9, 20)], "blocks": [turn(1, 0)] * 3}
    files, blocks = show({"rounds": rounds}).splitlines()[-2:]
    assert [cell.strip() for cell in files.split("|")[1:-1]] == [
        "files", "5.0 (3.0-9.0)", "20.0 (10.0-30.0)", "10.0 (5.0-15.0)", "20 (10-30) %",
    ]  # fmt: skip
    assert "0.0 (0.0-0.0)" in blocks


@pytest.mark.slow
def test_both_kinds_deliver_all_records(tmp_path):
    small = {
        "nodes": 1, "payload": 20_000, "batch": 64, "batches": 3, "rounds": 1,
        "images-per-second": 2000, "milliseconds": 2,
    }  # fmt: skip
    options = [text for key, value in small.items() for text in (f"--{key}", str(value))]
    done = run_trainer("mount", *options, "--json", "out", cwd=tmp_path, module="benchmarks")
    assert done.returncode == 0, done.stderr
    rounds = json.loads((tmp_path / "out").read_text())["rounds"]
    assert set(rounds) == set(KINDS)
    assert all(turns[0]["first_seconds"] > 0 for turns in rounds.values())
