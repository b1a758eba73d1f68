"""Transfers that are killed half way: the table, and the comparison with what was uploaded."""

from dataclasses import asdict

import pytest

from benchmarks.faults.transfer import Transfer, _compare, _size, show
from common.errors import UserError


def test_the_table_compares_checkouts_by_medians_with_their_range():
    sent = [Transfer(seconds, 5.0, 2.0, 100.0, 8.0) for seconds in (4.0, 9.0, 6.0)]
    got = [Transfer(3.0, 1.0, 2.0, 90.0, None)]
    transfers = {"upload 1 file": sent, "download 1 file": got}
    plain = {name: [asdict(each) for each in rounds] for name, rounds in transfers.items()}
    text = show({"transfers": {"before": plain, "after": plain}})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert [row[:2] for row in rows[2:]] == [
        ["upload 1 file", "before"], ["upload 1 file", "after"],
        ["download 1 file", "before"], ["download 1 file", "after"],
    ]  # fmt: skip
    assert rows[2][2] == "6.0 (4.0-9.0) s"
    assert (rows[2][-1], rows[4][-1]) == ("8.0 (8.0-8.0) MB", "-")


def test_a_download_that_differs_from_its_source_is_an_error(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        folder.mkdir()
        (folder / "same").write_bytes(b"1234")
    assert _size(source) == 4
    assert _size(tmp_path / "nowhere") == 0
    _compare(source, target)
    (source / "other").write_bytes(b"5")
    with pytest.raises(UserError, match="0 files differ, 1 is missing"):
        _compare(source, target)
    (target / "other").write_bytes(b"6")
    with pytest.raises(UserError, match="1 file differs, 0 are missing"):
        _compare(source, target)
