"""`commission` on the simulator: what it refuses, and what it deletes again."""

from jobs.cli import main
from jobs.commission.command import Commissioning
from jobs.commission.steps import Output
from jobs.following.cluster_check_result import ClusterCheckResult
from tests.jobs.support.runs import blobs
from tests.jobs.support.tiny import TRAINED, begin, status, wait_for


def run(tmp_path, *options):
    return main(["commission", "--folder", str(tmp_path), "--name", "gone", *options])


def test_a_teardown_deletes_the_folders_of_its_own_runs(live, outputs, tmp_path, capsys):
    # The last one belongs to a sweep `gone-2`, and `gone-train` was begun with --data.
    point = "gone-gpu-1-0123abcd"
    kept = ("kept-smoke", "gone-2-gpu-1-0123abcd")
    jobs = [
        begin(live, name, TRAINED, kind="benchmark" if "gpu" in name else "smoke")
        for name in ("gone-smoke", "gone-train", "gone-killed-2", point, *kept)
    ]
    wait_for(lambda: all(status(live, job) == "Completed" for job in jobs))
    assert blobs(live, "results/runs/gone-smoke")
    assert run(tmp_path, "--teardown") == 0
    assert "nothing of it is left in storage" in capsys.readouterr().out
    for name in ("gone-smoke", "gone-train", "gone-killed-2", point):
        assert not blobs(live, f"results/runs/{name}")
    for name in kept:
        assert blobs(live, f"results/runs/{name}")
    assert run(tmp_path, "--teardown") == 0


def test_nothing_begins_above_the_cap(live, outputs, tmp_path, capsys):
    assert run(tmp_path, "--cap", "0.01", "--yes") == 1
    assert "more than --cap 0.01" in capsys.readouterr().err
    assert not list(tmp_path.rglob("facts.json"))


def test_the_cap_is_one_over_all_calls_and_counts_what_was_spent(live, outputs, tmp_path, capsys):
    done = begin(live, "gone-smoke", TRAINED, kind="smoke")
    wait_for(lambda: status(live, done) == "Completed")
    assert run(tmp_path, "--cap", "1000000", "--start-minutes", "1e9", "--yes") == 1
    told = capsys.readouterr().err
    assert "that were spent so far" in told
    assert "more than --cap 1e+06" in told


def test_only_what_was_different_is_run_again(live, outputs, tmp_path, capsys, monkeypatch):
    called = []

    def call(_, verb, *arguments):
        called.append(verb if "check" not in arguments else "check")
        good = called == ["preflight", "submit", "check", "scaling", "plan", "check"]
        answers = {
            "preflight": [{"name": "quota", "good": True, "text": ""}],
            "scaling": {"points": [{"nodes": 1, "images_per_s": [1, 2, 3], "place": "inside"}]},
            "plan": {"choices": [{"nodes": 1, "basis": "measured"}]},
        }
        check = ClusterCheckResult(good, ("0.6 GB/s",)) if "check" in arguments else None
        return Output(0, answers.get(verb), check=check)

    monkeypatch.setattr(Commissioning, "_call", call)
    monkeypatch.setattr(Commissioning, "_with_files", lambda _, __, output: output)
    assert run(tmp_path, "--yes", "--despite-check") == 1
    assert called == ["preflight", "submit", "check", "scaling", "plan"]
    assert run(tmp_path, "--yes", "--despite-check") == 0
    assert called[5:] == ["check"]
    assert run(tmp_path, "--yes", "--despite-check") == 0
    assert len(called) == 6
    assert "0.6 GB/s" in (tmp_path / "dev" / "gone" / "facts.html").read_text()
