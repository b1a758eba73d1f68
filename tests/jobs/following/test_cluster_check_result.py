"""The result of a cluster check is assessed."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from common.errors import UserError
from jobs.following.cluster_check_result import TOPOLOGIES, assess
from tests import ROOT
from tests.jobs.support.platform import platform

NDV2 = platform().clusters["gpu"]
MIB = 1 << 20
SOUND = {"infiniband_fault": ""}


def measured(ranks=16, bandwidth=15.9e9, **changes):
    return {
        "ranks": ranks,
        "ranks_per_node": 8,
        "infiniband": True,
        "nodes": [SOUND, SOUND],
        "sums": [
            {"bytes": 256 * MIB, "seconds": 0.03, "bus_bytes_per_second": bandwidth},
            {"bytes": 32 * MIB, "seconds": 0.01, "bus_bytes_per_second": 1.0},
        ],
        "read_bytes_per_second": [2e9, 1e9],
        "environment": {"gpus": ["V100"] * ranks},
    } | changes


def test_a_cluster_as_it_should_be_is_good():
    found = assess(measured(), NDV2)
    assert found.good
    assert found.lines == (
        "16 ranks, 8 per node",
        "InfiniBand works on all nodes",
        "2 nodes: 15.9 GB/s of bus bandwidth for 256 MiB, 99% of the 16.0 GB/s"
        " that Azure published for 2 nodes of Standard_ND40rs_v2",
        "data: 1000 MB/s on the slowest of 2 nodes, 3000 MB/s in total",
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"bandwidth": 12.7e9}, "79% of the 16.0"),
        ({"bandwidth": 12.7e9}, "check again with --variables NCCL_TOPO_FILE=/opt/trainer/"),
        (
            {"infiniband": False, "nodes": [SOUND, {"infiniband_fault": "no adapter"}]},
            "go over Ethernet: node 1: no adapter",
        ),
        ({"ranks_per_node": 4}, "4 per node instead of 8"),
        ({"environment": {"gpus": ["V100"] * 15}}, "15 see a GPU"),
        ({"environment": {}}, "0 see a GPU"),
    ],
)
def test_what_would_make_a_job_slow_is_told(changes, told):
    found = assess(measured(**changes), NDV2)
    assert not found.good
    assert any(told in line for line in found.lines)


def test_the_topology_that_is_offered_is_in_the_image_and_has_all_its_gpus():
    for size, options in TOPOLOGIES.items():
        file = options.split()[1].removeprefix("NCCL_TOPO_FILE=/opt/trainer/")
        path = ROOT / "environments" / "gpu" / file
        assert file in (path.parent / "Dockerfile").read_text()
        adapters = [one.get("class") for one in ET.parse(path).iter("pci")]
        gpus = platform().clusters["gpu"].gpus_per_node
        assert (size, adapters.count("0x030200")) == (NDV2.size, gpus)
        assert adapters.count("0x020700") == 1


def test_one_node_and_a_size_without_a_figure_are_not_judged():
    alone = assess(measured(ranks=8, bandwidth=1.0, infiniband=False), NDV2)
    assert alone.good
    assert "within the node" in alone.lines[1]
    other = assess(measured(bandwidth=1e9), replace(NDV2, size="Standard_ND96asr_v4"))
    assert other.good
    assert "no published figure to compare with" in " ".join(other.lines)


def test_without_data_nothing_is_said_of_reading():
    assert not any("data" in one for one in assess(measured(read_bytes_per_second=[]), NDV2).lines)


@pytest.mark.parametrize(
    "file", [{}, measured(ranks_per_node=0), measured(sums=[]), measured(sums=3)]
)
def test_a_file_of_another_version_is_refused(file):
    with pytest.raises(UserError, match="run the check again"):
        assess(file, NDV2)
