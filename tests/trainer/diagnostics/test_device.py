"""Which GPUs of a machine a rank takes."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf

from common.errors import ConfigError
from trainer.config import ComputeConfig
from trainer.diagnostics.device import gpu_share, peak_flops, set_up_device
from trainer.distributed.communicator import Alone, Backend
from trainer.presets import PRESETS

DIGITS = PRESETS["digits"]


@pytest.fixture
def taken(monkeypatch):
    """The GPUs that TensorFlow was told to show, and which of them to fill as needed."""
    told = {"visible": None, "growing": []}

    def show(devices, _):
        told["visible"] = devices

    monkeypatch.setattr(tf.config, "set_visible_devices", show)
    monkeypatch.setattr(
        tf.config.experimental, "set_memory_growth", lambda gpu, _: told["growing"].append(gpu)
    )
    for kind in ("intra", "inter"):
        monkeypatch.setattr(
            tf.config.threading, f"set_{kind}_op_parallelism_threads", lambda _: None
        )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return told


def rank(monkeypatch, gpus, local_rank, local_size):
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda _: [f"gpu{n}" for n in range(gpus)]
    )
    world = Alone()
    world.local_rank, world.local_size = local_rank, local_size
    return world


@pytest.mark.parametrize(
    ("local_rank", "devices", "expected"),
    [(0, 1, ["gpu0"]), (3, 1, ["gpu3"]), (0, 2, ["gpu0", "gpu1"]), (3, 2, ["gpu6", "gpu7"])],
)
def test_ranks_take_gpus_that_follow_each_other(monkeypatch, taken, local_rank, devices, expected):
    set_up_device(DIGITS, rank(monkeypatch, 8, local_rank, 4), devices)
    assert taken == {"visible": expected, "growing": expected}


@pytest.mark.parametrize(("capability", "accepted"), [((7, 0), False), ((8, 0), True)])
def test_bfloat16_needs_a_gpu_that_has_it(monkeypatch, taken, capability, accepted):
    details = {"device_name": "Tesla V100", "compute_capability": capability}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: details)
    config = replace(DIGITS, compute=ComputeConfig(precision="mixed_bfloat16"))
    world = rank(monkeypatch, 1, 0, 1)
    if accepted:
        set_up_device(config, world)
        return
    with pytest.raises(ConfigError, match=r"Tesla V100 has compute capability 7\.0.*mixed_float16"):
        set_up_device(config, world)


@pytest.mark.parametrize("nccl", [False, True])
def test_ranks_share_the_one_gpu_of_a_laptop_unless_nccl_forbids_it(
    monkeypatch, taken, capsys, nccl
):
    world = rank(monkeypatch, 1, 1, 2)
    world.backend = Backend(("Gloo", "NCCL") if nccl else ("Gloo",), "Gloo", "Gloo")
    with pytest.raises(ConfigError) if nccl else nullcontext():
        set_up_device(DIGITS, world)
    assert taken["visible"] == (None if nccl else ["gpu0"])
    assert ("2 ranks share one GPU" in capsys.readouterr().err) is not nccl


@pytest.mark.parametrize("devices", [1, 2])
def test_a_rank_that_sees_only_its_own_gpus_takes_them(monkeypatch, taken, devices):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,7")
    set_up_device(DIGITS, rank(monkeypatch, devices, 3, 4), devices)
    assert taken["visible"] == ["gpu0", "gpu1"][:devices]


@pytest.mark.parametrize(
    ("gpus", "devices", "told"),
    [
        (2, 1, "--ranks: 4 ranks on this machine, which has 2 GPUs; each rank needs a GPU of its"),
        (
            4,
            2,
            "--ranks: 4 ranks on this machine, which has 4 GPUs; each rank needs 2 GPUs of its own",
        ),
        (
            1,
            2,
            "--ranks: 4 ranks on this machine, which has 1 GPU; each rank needs 2 GPUs of its own",
        ),
    ],
)
def test_a_machine_with_too_few_gpus_is_refused(monkeypatch, taken, gpus, devices, told):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3" if gpus == 4 else "0")
    if devices == 1:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with pytest.raises(ConfigError) as caught:
        set_up_device(DIGITS, rank(monkeypatch, gpus, 0, 4), devices)
    assert caught.value.problems[0].startswith(told)
    assert taken["visible"] is None


@pytest.mark.parametrize(
    ("name", "precision", "peak"),
    [
        ("Tesla V100-SXM2-32GB", "mixed_float16", 125e12),
        ("Tesla V100-PCIE-16GB", "float32", 14e12),
        ("NVIDIA A10", "mixed_float16", 125e12),
        ("NVIDIA A100-SXM4-80GB", "float32", 156e12),
        ("NVIDIA L40S", "mixed_bfloat16", 362e12),
        ("NVIDIA H100 NVL", "mixed_bfloat16", 835e12),
        ("NVIDIA H200", "mixed_bfloat16", 989e12),
        ("NVIDIA GeForce RTX 4090", "float32", 82.6e12),
        # Other chips, or bfloat16 that this one lacks.
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "float32", None),
        ("NVIDIA GeForce RTX 3080 Ti", "float32", None),
        ("NVIDIA A10G", "float32", None),
        ("Tesla T4", "mixed_bfloat16", None),
    ],
)
def test_the_peak_of_a_gpu_is_that_of_its_own_chip(name, precision, peak):
    assert peak_flops(name, precision) == (None if peak is None else pytest.approx(peak))


@pytest.mark.parametrize(
    ("gpus", "ranks", "shown", "share"),
    [(1, 1, None, 1), (1, 2, None, 0.5), (8, 8, None, 1), (1, 8, "3", 1)],
)
def test_ranks_that_share_a_gpu_have_a_part_of_it_each(monkeypatch, gpus, ranks, shown, share):
    world = rank(monkeypatch, gpus, 0, ranks)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: ["gpu0"])
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda _: {"device_name": "NVIDIA H200"}
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert gpu_share(world) == share
