"""A look at a cluster before it trains."""

import json

import pytest

from tests.trainer.support import scenarios
from tests.trainer.support.world import run_world
from trainer.diagnostics.cluster_check import bus_bandwidth, read_rate
from trainer.errors import DataError

SHORT = ["--sizes-mib", "1", "2", "--rounds", "1", "--read-seconds", "0.1"]


@pytest.mark.slow
def test_two_ranks_sum_read_and_tell_once(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "shard").write_bytes(bytes(3_000_000))
    output = tmp_path / "outputs" / "check.json"
    places = ["--data", str(tmp_path / "data"), "--output", str(output)]
    (status, told, _), other = run_world(scenarios.check_cluster, 2, [*SHORT, *places])
    assert (status, other) == (0, (0, "", ""))
    found = json.loads(output.read_text())
    assert json.loads(told) == found
    assert (found["ranks"], found["ranks_per_node"]) == (2, 2)
    (node,) = found["nodes"]
    assert found["infiniband"] == (not node["infiniband_fault"])
    assert [entry["bytes"] for entry in found["sums"]] == [1 << 20, 2 << 20]
    assert all(
        entry["seconds"] > 0 and entry["bus_bytes_per_second"] > 0 for entry in found["sums"]
    )
    assert len(found["read_bytes_per_second"]) == 1


@pytest.mark.slow
def test_data_that_are_not_there_end_every_rank(tmp_path):
    data = ["--data", str(tmp_path / "missing")]
    for status, told, error in run_world(scenarios.check_cluster, 2, [*SHORT, *data]):
        assert (status, told) == (3, "")
        assert f"{tmp_path}/missing: has no files with content" in error


def test_the_bandwidth_of_the_bus_is_that_of_nvidias_tests():
    # 16 GPUs, 128 MiB in 16.06 ms: 15.7 GB/s (Azure/largescale-deep-learning, Environment).
    assert bus_bandwidth(128 << 20, 16.06e-3, 16) == pytest.approx(15.7e9, rel=0.005)


def test_reading_ends_with_the_files_or_with_the_time(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1000))
    (tmp_path / "empty").write_bytes(b"")
    assert read_rate(tmp_path, seconds=60) > 0
    assert read_rate(tmp_path, seconds=1e-9, rank=1, ranks=2) > 0
    (tmp_path / "a").unlink()
    with pytest.raises(DataError, match="no files with content"):
        read_rate(tmp_path, seconds=1)
