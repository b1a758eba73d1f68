"""Jobs on the simulator are followed to each possible end."""

import json

import pytest

from jobs.cli import main
from jobs.following import job_states
from tests.jobs.support.following import AGAIN, QUICK, asked
from tests.jobs.support.tiny import (
    TRAINED,
    begin,
    meanwhile,
    status,
    wait_for,
)

pytestmark = pytest.mark.usefixtures("outputs")


def test_a_run_that_trains_to_its_end_is_0_and_its_lines_are_shown(live, capsys):
    begin(live, "good", f"echo hello; {TRAINED}")
    assert main(["follow", "good", *QUICK]) == 0
    text = capsys.readouterr().out
    assert "hello" in text.splitlines()
    assert text.index("hello\n") < text.index("good-r1: completed")
    assert "good-r1: training completed" in text
    assert "python -m jobs download good" in text


def test_a_job_that_completes_without_its_result_is_no_success(live, capsys):
    begin(live, "empty", "echo nothing done")
    assert main(["follow", "empty", *QUICK]) == 1
    assert "the run has not trained all of its epochs" in capsys.readouterr().out


def test_a_program_that_fails_gives_status_last_lines_and_azures_words(live, capsys):
    begin(live, "broken", "echo the cause >&2; exit 3")
    assert main(["follow", "broken", *QUICK, "--rank", "7", *AGAIN]) == 3
    found = capsys.readouterr()
    assert "failed by its own error, so it is not submitted again" in found.out
    assert "last lines of user_logs/std_log_process_00.txt" in found.err
    assert "  the cause" in found.err
    assert "exited with status code 3" in found.err


def test_a_time_out_is_told_with_the_option(live, capsys):
    begin(live, "late", "sleep 600", timeout="PT1S")
    assert main(["follow", "late", *QUICK, *AGAIN]) == 20
    assert "--timeout-hours" in capsys.readouterr().out


def test_a_job_that_never_leaves_the_queue_is_explained(live, capsys, monkeypatch):
    gpu = live.outputs.clusters["gpu"]
    monkeypatch.setattr(job_states, "HINT_SECONDS", (0.3, 3600.0))
    live.azure.admin.capacity(f"{live.workspace}/computes/{gpu.name}", 0)
    try:
        job = begin(live, "waits", "true", cluster=gpu, nodes=2)
        meanwhile(
            lambda: wait_for(lambda: asked(live, "/usages")),
            lambda: live.azure.scheduler.cancel(job),
        )
        assert main(["follow", "waits", *QUICK]) == 20
    finally:
        live.azure.admin.capacity(f"{live.workspace}/computes/{gpu.name}", None)
    text = capsys.readouterr().out
    assert f"queued, waiting for 2 nodes of {gpu.name}" in text
    assert "still queued after" in text
    assert f"{gpu.name} has " in text
    assert "a region may have none for hours" in text


def test_logs_of_a_job_that_has_ended_and_of_one_that_runs(live, capsys):
    begin(live, "said", "echo rank $OMPI_COMM_WORLD_RANK; echo oops >&2", nodes=2, kind="check")
    assert main(["logs", "said", "--rank", "all", "--follow", "--json", *QUICK]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"rank": 1, "line": "rank 1"} in found
    assert main(["logs", "said", "--rank", "1"]) == 0
    assert set(capsys.readouterr().out.splitlines()) == {"rank 1", "oops"}
    assert main(["logs", "said", "--rank", "all", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"rank": 0, "line": "rank 0"} in found
    assert main(["logs", "said", "--rank", "5"]) == 1
    assert "ranks with a log: 0, 1" in capsys.readouterr().err


def test_nodes_that_are_allocated_are_what_costs(live, capsys):
    cluster = live.outputs.clusters["preparation"]
    job = begin(live, "costly", "sleep 600")
    wait_for(lambda: status(live, job) == "Running")
    assert main(["status"]) == 0
    text = capsys.readouterr().out
    assert "nodes that cost money now:" in text
    assert f" x {cluster.size} (Dedicated): 1 busy" in text
    assert main(["cancel", "costly"]) == 0
    assert "costly-r1: Canceled" in capsys.readouterr().out
    assert main(["cancel", "costly"]) == 0
    assert "had already ended" in capsys.readouterr().out
