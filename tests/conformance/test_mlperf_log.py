"""Each damaged log of the judge differs from the log as it is."""

import pytest

from conformance.mlperf_log import DAMAGED

LINES = [
    {"key": key, "value": 1, "metadata": {"status": "success"}}
    for key in (
        *(
            "submission_benchmark",
            "submission_platform",
            "submission_status",
            "cache_clear",
            "init_start",
            "init_stop",
        ),
        *("run_start", "train_samples", "eval_samples", "eval_accuracy", "run_stop"),
    )
]


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_log_differs(what):
    before = [dict(line) for line in LINES]
    assert DAMAGED[what](LINES) != before
    assert before == LINES
