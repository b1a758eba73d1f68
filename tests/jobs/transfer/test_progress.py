from jobs.transfer.progress import Progress, line


def test_a_line_tells_rate_and_time_left():
    text = line("uploading", 3, 10, 40_000_000, 100_000_000, 2_000_000)
    assert text == "uploading 3 of 10 files, 40 MB of 100 MB, 2 MB/s, 30.0 s left"


def test_without_a_rate_no_time_is_guessed():
    assert line("uploading", 0, 1, 0, 5, 0) == "uploading 0 of 1 file, 0 B of 5 B"


def test_without_a_terminal_lines_come_now_and_then(capsys):
    with Progress("uploading", 2, 30, every=0) as progress:
        progress.moved(10)
        progress.skipped(20)
        progress.file()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[-1].startswith("uploading 1 of 2 files, 30 B of 30 B")
    with Progress("uploading", 2, 30, every=60) as progress:
        progress.moved(10)
    assert capsys.readouterr().err == ""


def test_bytes_that_need_no_transfer_count_as_done_but_not_for_the_rate(capsys):
    with Progress("uploading", 2, 10**12 + 20, every=0) as progress:
        progress.moved(10)
        progress.skipped(10**12)
        progress.moved(10)
    text = capsys.readouterr().err.splitlines()[-1]
    assert "1 TB of 1 TB" in text
    assert "B/s" in text
    assert "TB/s" not in text


def test_bytes_that_are_transferred_twice_are_counted_but_are_no_progress(capsys):
    with Progress("uploading", 2, 30, every=0) as progress:
        progress.moved(25)
        progress.moved(25)
        progress.skipped(25)
    assert "30 B of 30 B" in capsys.readouterr().err.splitlines()[-1]
    assert progress.total_moved == 50
