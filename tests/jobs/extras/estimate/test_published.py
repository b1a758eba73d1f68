"""The measurements that come with the project are complete, and agree with themselves; the
multiply-adds of the networks that can be predicted follow from their layers."""

from collections import Counter, defaultdict
from dataclasses import astuple

import pytest

from common.errors import UserError
from jobs.extras.estimate.published import RESNETS, SHIPPED, gpu_type, read, shipped


def test_every_row_has_its_source_and_date():
    assert len(shipped()) == 1005
    assert all(row.source and row.date[:2] == "20" for row in shipped())


def test_no_configuration_of_a_source_is_there_twice():
    keys = Counter(
        tuple(v for k, v in vars(row).items() if k not in ("images_per_s", "efficiency"))
        for row in (r for r in read(SHIPPED))
    )
    assert not [key for key, count in keys.items() if count > 1]


def test_an_efficiency_is_that_of_the_throughput_of_one_gpu_of_the_same_publisher():
    """To three digits, which is what sources print."""
    single = defaultdict(set)
    for row in shipped():
        if row.gpus == 1 and row.images_per_s:
            key = row.publisher, row.model, row.precision, row.gpu, row.image_size
            single[key].add(row.images_per_s)
    checked = 0
    for row in shipped():
        if row.efficiency and row.images_per_s:
            key = row.publisher, row.model, row.precision, row.gpu, row.image_size
            base = row.images_per_s / row.gpus / row.efficiency
            assert any(abs(base / one - 1) < 2e-3 for one in single[key]), astuple(row)
            checked += 1
    assert checked > 900


@pytest.mark.parametrize(
    ("name", "kind"),
    [("NVIDIA V100 32 GB", "V100"), ("A100 SXM 80GB 500W", "A100"), ("RTX A6000", "A6000"),
     ("NVIDIA H100 80 GB", "H100"), ("NVIDIA H100 NVL 94 GB", "H100 NVL"), ("P40", "P40")],
)  # fmt: skip
def test_gpus_are_told_apart_by_type_and_not_by_memory(name, kind):
    assert gpu_type(name) == kind


def test_links_networks_and_software_are_read_from_the_words_of_the_sources():
    kinds = {(row.link, row.network) for row in shipped()}
    assert ("host memory", "InfiniBand") in kinds
    assert ("PCIe", "TCP") in kinds
    assert {link for link, _ in kinds} == {
        *("NVLink", "NVLink 1", "NVLink 2", "NVLink 3", "NVLink 4"),
        *("NVLink pairs", "PCIe", "host memory"),
    }
    assert {row.software for row in shipped()} == {
        *("TensorFlow", "TensorFlow with XLA", "MXNet", "PyTorch", "other software")
    }


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2018-07-03", "", "date is missing"),
        ("TensorFlow", "", "framework is missing"),
        (",8,", ",-8,", "must be above 0"),
        ("fp32", "int8", "'int8' is not fp32, tf32 or amp"),
    ],
)
def test_a_row_that_cannot_be_is_refused_with_its_line(tmp_path, old, new, words):
    head = SHIPPED.read_text().splitlines()[0]
    row = "a/b,2018-07-03,ResNet-50,224,64,fp32,TensorFlow,V100,8,1,NVLink,3000,0.9,,a/b"
    (tmp_path / "rows.csv").write_text(f"{head}\n{row.replace(old, new)}\n")
    with pytest.raises(UserError, match=f"line 2: .*{words}"):
        read(tmp_path / "rows.csv")


BLOCKS = {"ResNet-50": (3, 4, 6, 3), "ResNet-101": (3, 4, 23, 3), "ResNet-152": (3, 8, 36, 3)}


def multiply_adds(blocks):
    """Of a ResNet v1.5 at 224 pixels: convolutions and the last layer, as He et al. count."""
    total, channels, side = 112 * 112 * 7 * 7 * 3 * 64, 64, 56
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            inside, side = side, side // stride
            total += inside * inside * channels * width
            total += side * side * 9 * width * width
            total += side * side * width * 4 * width
            if not block:
                total += side * side * channels * 4 * width
            channels = 4 * width
    return total + channels * 1000


@pytest.mark.parametrize("model", RESNETS)
def test_multiply_adds_are_those_of_the_layers(model):
    assert RESNETS[model] == pytest.approx(multiply_adds(BLOCKS[model]) / 1e9, rel=0.01)
