"""The output of a run about the machines that it starts on, and its warnings."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("tensorflow")

from tests.trainer.diagnostics.test_nccl import (
    INFINIBAND,
    NO_DRIVER,
    ROCE,
    SOCKET,
)
from tests.trainer.support.command import TINY, metrics
from tests.trainer.support.fake_node import add_port, make_node, ndv2
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer.config import ComputeConfig, ExchangeConfig, LogConfig, WatchdogConfig
from trainer.diagnostics.environment import environment
from trainer.diagnostics.nccl import NcclLog, Transport, read_log
from trainer.diagnostics.startup_report import StartupReport, look
from trainer.distributed.communicator import Alone, Backend
from trainer.distributed.request_listener import RequestListener
from trainer.distributed.signals import StopRequest
from trainer.distributed.watchdog import Watchdog
from trainer.presets import PRESETS
from trainer.run_folder import decisive
from trainer.training.run import Attempt

V100 = "Tesla V100-SXM2-32GB"
BY_NCCL = Backend(("MPI", "Gloo", "NCCL"), "MPI", "NCCL")
BY_GLOO = Backend(("Gloo",), "Gloo", "Gloo")


def seen(root, gpu="", ranks=1, gpus=1, **changes):
    """The view of the ranks of one node, with figures that do not differ from machine to
    machine."""
    of_this_machine = {
        "cores": 40, "locked_memory": None, "shared_memory": 64 * 10**9,
        "free_disk": 2_345 * 10**9, "free_scratch": 5_500_000_000,
    }  # fmt: skip
    return [
        {
            **look(gpu, rank, root / "runs", {}, root, places(rank, gpus) if gpu else ()),
            **of_this_machine,
            **changes,
        }
        for rank in range(ranks)
    ]


def places(rank, gpus):
    return [f"/physical_device:GPU:{rank * gpus + number}" for number in range(gpus)]


def startup(*nodes, backend=BY_NCCL, **facts):
    """A world of these nodes, which has travelled as plain data."""
    ranks = [rank for node in nodes for rank in node]
    return StartupReport(json.loads(json.dumps(ranks)), backend, **facts)


@pytest.fixture
def good(tmp_path):
    return seen(ndv2(tmp_path / "good"), V100, 8)


@pytest.fixture
def bare(tmp_path):
    return seen(make_node(tmp_path / "bare"), V100, 8)


# 1. The lines.


def test_two_nodes_with_gpus_are_told_in_a_few_lines(good):
    made = startup(good, good, built_with={"CUDA": "12.5.1", "cuDNN": "9"})
    assert made.lines() == [
        f"GPUs: 16 x {V100}; driver 535.161.08; TensorFlow built with CUDA 12.5.1 and cuDNN 9",
        "machine: 2 nodes, the first with 40 cores, 0.6 of 1.0 GB memory free, 64 GB in /dev/shm,"
        " locked memory unlimited",
        "free disk: 2.35 TB for the run, 5.5 GB for temporary files",
        "exchange: Horovod with MPI, Gloo, NCCL; coordinated by MPI, gradients are summed by NCCL",
        "InfiniBand: all nodes: mlx5_an0 (Ethernet, 40 Gb/sec), mlx5_ib0 (InfiniBand, 100 Gb/sec)",
    ]


def test_nodes_that_differ_are_told_by_their_numbers(good, bare):
    (told,) = (s for s in startup(bare, good, bare).lines() if s.startswith("InfiniBand"))
    assert told == (
        "InfiniBand: nodes 0, 2: no adapter; node 1: mlx5_an0 (Ethernet, 40 Gb/sec), mlx5_ib0"
        " (InfiniBand, 100 Gb/sec)"
    )


def test_all_gpus_of_a_rank_with_several_are_told(tmp_path):
    made = startup(seen(make_node(tmp_path), V100, 4, gpus=2))
    assert made.lines()[0] == f"GPUs: 8 x {V100}; driver unknown"
    assert made.record()["gpus"] == [V100] * 8


def test_a_gpu_that_ranks_share_counts_once(tmp_path):
    node = seen(make_node(tmp_path), V100, 2, places=places(0, 1))
    made = startup(node, node)
    assert made.lines()[0] == f"GPUs: 2 x {V100}; driver unknown"
    assert made.record()["gpus"] == [V100] * 2


@pytest.mark.parametrize(
    ("gpu", "deterministic", "before", "line"),
    [
        ("", False, None, None),
        ("", False, {"processor": environment()["processor"]}, None),
        ("", False, {"processor": "abacus"}, "on {processor}, the previous one on abacus"),
        (V100, False, None, "see --compute.deterministic"),
        (V100, True, None, None),
        (V100, True, {"processor": "abacus", "gpus": [V100, V100]}, None),
        (V100, True, {"gpus": ["NVIDIA A100"]}, f"on {V100}, the previous one on NVIDIA A100"),
    ],
)
def test_a_run_says_when_its_bits_may_differ(tmp_path, gpu, deterministic, before, line):
    made = startup(seen(make_node(tmp_path), gpu))
    lines = made.notes(ComputeConfig(deterministic=deterministic), before)
    if line is None:
        assert lines == []
    else:
        assert line.format(**environment()) in lines[0]


@pytest.mark.parametrize(
    ("gpu", "compute", "said"),
    [
        (V100, ComputeConfig("mixed_float16"), True),
        (V100, ComputeConfig("mixed_float16", xla=True), False),
        (V100, ComputeConfig(), False),
        ("", ComputeConfig("mixed_float16"), False),
    ],
)
def test_a_slow_choice_on_a_gpu_is_said(tmp_path, gpu, compute, said):
    lines = startup(seen(make_node(tmp_path), gpu)).notes(compute, None)
    assert any("--compute.xla" in line for line in lines) == said


def test_a_machine_without_gpus_says_nothing_of_them(tmp_path):
    alone = startup(seen(make_node(tmp_path), shared_memory=None), backend=None)
    assert alone.lines() == [
        "machine: 40 cores, 0.6 of 1.0 GB memory free",
        "free disk: 2.35 TB for the run, 5.5 GB for temporary files",
    ]


def test_a_file_system_that_tells_nothing_is_said_so(tmp_path):
    made = startup(seen(make_node(tmp_path), free_disk=None))
    assert "free disk: unknown for the run, 5.5 GB for temporary files" in made.lines()
    assert "free_disk_gb" not in made.record()


def test_a_limit_of_locked_memory_is_told_where_an_adapter_needs_it(tmp_path):
    add_port(make_node(tmp_path), "mlx5_ib0")
    lines = startup(seen(tmp_path, V100, locked_memory=65536)).lines()
    assert any("locked memory at most 65.5 kB (ulimit -l; RDMA needs it" in line for line in lines)
    assert any(line.startswith("InfiniBand: mlx5_ib0 (InfiniBand") for line in lines)


def test_a_rank_without_a_gpu_and_an_unknown_driver_are_told(bare):
    bare[3]["gpu"] = ""
    assert startup(bare).lines()[0] == f"GPUs: 7 x {V100}, and 1 rank without; driver unknown"


# 2. The record.


def test_the_record_has_what_was_found_and_no_more(good, tmp_path):
    full = startup(good, good, built_with={"CUDA": "12.5.1"})
    record = json.loads(json.dumps(full.record(read_log(INFINIBAND))))
    assert record["nodes"] == 2
    assert record["driver"] == "535.161.08"
    assert record["operations"] == "NCCL"
    assert record["tensorflow_cuda"] == "12.5.1"
    assert record["nccl_transport"].startswith("NCCL 2.21.5: between nodes InfiniBand")
    assert record["nccl_infiniband"] is True
    assert "nccl_infiniband" not in startup(good).record(read_log(INFINIBAND))
    # Addresses would tell whose machine it is.
    assert "10.0.0" not in json.dumps(record)
    laptop = startup(seen(make_node(tmp_path / "laptop")), backend=None).record()
    assert laptop.keys() - environment([]).keys() == {"nodes", "memory_gb", "free_disk_gb"}


# 3. The warnings.


def test_all_nodes_with_infiniband_are_no_reason_to_warn(good):
    assert startup(good, good).warning() == ""
    assert startup(good).warning() == ""


def test_a_node_without_infiniband_is_named_with_the_cost_and_the_remedy(good, bare):
    text = startup(good, bare, good).warning()
    assert text.splitlines()[1].startswith("WARNING: this run should use InfiniBand")
    assert "\n  node 1: no adapter\n" in text
    assert "node 0" not in text
    wanted = ["1.8 to 2.4 times", "--device /dev/infiniband", "ibverbs-providers"]
    wanted += ["NCCL_IB_DISABLE", "jobs submit --kind check", "--exchange.infiniband False"]
    assert [word for word in wanted if word not in text] == []


def test_sums_by_gloo_go_over_tcp_whatever_the_nodes_have(good):
    assert "summed by Gloo" in startup(good, good, backend=BY_GLOO).warning()


def test_one_node_is_told_that_it_needs_none(bare):
    text = startup(bare).warning()
    assert "no adapter" in text
    assert "a run on one node does not need it, but a run on several nodes would" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(("log", "loud"), [(SOCKET, True), (ROCE, True), (INFINIBAND, False),
                                           (NO_DRIVER, False)])  # fmt: skip
def test_nccl_that_chose_another_network_is_warned_of_after_the_first_step(good, log, loud):
    text = startup(good, good).warning_after(read_log(log))
    assert bool(text) == loud
    assert ("no InfiniBand but" in text) == loud
    assert ("1.8 to 2.4 times" in text) == loud


def test_no_warning_after_the_first_step_on_one_node_or_without_a_log(good):
    assert startup(good).warning_after(read_log(SOCKET)) == ""
    assert startup(good, good).warning_after(None) == ""


def test_the_preset_for_several_nodes_expects_infiniband():
    expects = PRESETS["imagenet-ndv2"]
    assert expects.exchange.infiniband
    assert not PRESETS["imagenet-1gpu"].exchange.infiniband
    other = replace(expects, exchange=replace(expects.exchange, infiniband=False))
    assert decisive(other) == decisive(expects)


# 4. In a run.


@pytest.mark.slow
def test_two_ranks_on_a_machine_without_gpus_say_three_lines_once(workplace):
    options = ("--name", "a", "--max-steps", "2", "--exchange.infiniband", "True")
    done = fork_trainer("train", *TINY, *options, cwd=workplace)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("  ")]
    assert [line.split(":")[0].strip() for line in said] == ["machine", "free disk", "exchange"]
    assert said[2].endswith("coordinated by Gloo, gradients are summed by Gloo")
    assert done.stderr.count("--exchange.infiniband: this node cannot use InfiniBand") == 1
    (start,) = metrics(workplace / "runs" / "a", "start")
    found = start["environment"]
    assert found["cores"] >= 1
    assert (found["nodes"], found["controller"], found["operations"]) == (1, "Gloo", "Gloo")
    assert "nccl_transport" not in found


class Written(NcclLog):
    """A log of a NCCL that has begun."""

    def __init__(self, text):
        self._text = text

    def transport(self) -> Transport:
        return read_log(self._text)


@pytest.mark.long
def test_a_run_over_another_network_warns_before_and_after_its_first_step(
    digits_folder, tmp_path, monkeypatch, capfd, good, bare
):
    monkeypatch.setattr("trainer.updates.strategy.build_model", small_model)
    monkeypatch.setattr(StartupReport, "gather", lambda *_: startup(good, bare))
    config = replace(
        tiny_config(str(digits_folder), max_steps=1, export=False, log=LogConfig(report=False)),
        name="a", runs_dir=str(tmp_path / "runs"), exchange=ExchangeConfig(infiniband=True),
    )  # fmt: skip
    with Watchdog(WatchdogConfig(), None) as watchdog:
        requests = RequestListener(watchdog, None)
        attempt = Attempt(config, Alone(), watchdog, requests, Written(SOCKET))
        assert attempt.run(StopRequest()) == 0
    told = capfd.readouterr()
    chosen = "NCCL 2.18.3: between nodes no InfiniBand but Socket, without GPUDirect"
    assert told.out.index("took the first step") < told.out.index(f"\n  {chosen}\n")
    before, after = "\n  node 1: no adapter\n", f"\n  rank 0's {chosen}\n"
    assert told.err.index(before) < told.err.index(after)
    # The advice is not repeated.
    assert told.err.count("1.8 to 2.4 times") == 1
    (start,) = metrics(tmp_path / "runs" / "a", "start")
    assert start["environment"]["nccl_transport"] == chosen
