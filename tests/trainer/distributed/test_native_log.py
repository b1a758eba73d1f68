"""The lines of TensorFlow's C++ code: in a file of the run, and on the terminal after a failure."""

import pytest

from trainer.distributed import launcher
from trainer.distributed.native_log import FILE, KEPT_LINES, NativeLog, is_native
from trainer.run_folder import RunFolder

LOGGED = "2026-11-28 19:00:00.123456: W tensorflow/core/kernels/x.cc:12] slow\n"
HEADED = "E0000 00:00:1732820400.1 17 cuda_dnn.cc:8310] Unable to register cuDNN factory\n"
SHORT = "E0128 19:00:00.123456   17 cuda_dnn.cc:8310] Unable to register cuDNN factory\n"
BEFORE = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
SHOWN = [
    "2026-11-28 19:00:00.123456: F tensorflow/core/x.cc:12] Check failed\n",
    "F0128 19:00:00.123456   17 x.cc:12] Check failed\n",
    "error: the data set is damaged\n",
    "Traceback (most recent call last):\n",
    "WARNING: this run should use InfiniBand\n",
]


@pytest.mark.parametrize("line", [LOGGED, HEADED, SHORT, BEFORE])
def test_a_line_of_cpp_code_is_known(line):
    assert is_native(line)


@pytest.mark.parametrize("line", SHOWN)
def test_a_fatal_line_and_every_other_one_stay_on_the_terminal(line):
    assert not is_native(line)


def test_lines_wait_for_the_folder_of_the_run(tmp_path):
    log = NativeLog(tmp_path / "run", 1)
    log.add("first\n")
    assert not (tmp_path / "run").exists()
    # Hidden files, such as those of requests, may be in the folder of a run that has not begun.
    run = RunFolder(tmp_path / "run")
    run.divide_batches(2)
    log.add("second\n")
    assert [path.name for path in run.path.iterdir()] == [".out-of-memory.json"]
    (run.path / "config.json").touch()
    log.write()
    assert (tmp_path / "run" / FILE).read_text() == "[rank 1] first\n[rank 1] second\n"
    for number in range(2 * KEPT_LINES):
        log.add(f"{number}\n")
    assert len(log.last) == KEPT_LINES


@pytest.mark.parametrize(("status", "shown"), [(0, False), (1, True), (-6, True), (143, False)])
@pytest.mark.parametrize("ranks", [1, 2])
def test_they_are_shown_if_the_rank_fails(tmp_path, monkeypatch, capfd, status, shown, ranks):
    end = "os.abort()" if status < 0 else f"sys.exit({status})"
    code = f"import os, sys; os.write(2, {LOGGED!r}.encode()); print('said', file=sys.stderr); "
    (tmp_path / "rank_module.py").write_text(code + "sys.stderr.flush(); " + end)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").touch()
    with launcher.SignalForwarder() as signals:
        done = launcher.run_ranks([], ranks, signals, "rank_module", run)
    assert set(done.statuses) == {status}
    said = capfd.readouterr().err
    assert said.count("said") == ranks
    assert (LOGGED.strip() in said) == shown
    assert (run / FILE).read_text().count(LOGGED) == ranks
