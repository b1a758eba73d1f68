"""Measured rows: the file of the published ones, and those of the user's points."""

import csv

import pytest

from common.errors import UserError
from jobs.extras.estimate.rows import SHIPPED, gpu_type, own_rows, read, shipped, why_not
from tests.jobs.extras.estimate.support import NDA100, NDV2, point, workload

CONFIG = workload().config


def test_every_published_row_has_a_source_and_a_date():
    rows = shipped()
    assert len(rows) > 500
    assert all(row.source and row.date[:2] == "20" for row in rows)
    assert {row.gpu_type for row in rows} >= {"V100", "A100", "H200"}
    assert len(set(rows)) == len(rows)


def test_the_rows_of_this_project_are_those_of_its_page_of_benchmarks():
    page = (SHIPPED.parents[3] / "docs" / "reference" / "benchmarks.md").read_text()
    own = [row for row in shipped() if row.publisher == "own"]
    assert len(own) == 4
    assert all(f"| {row.images_per_s:,.0f} |" in page for row in own)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [("source", "", "source is missing"), ("precision", "fp8", "'fp8' is not fp32"),
     ("images_per_s", "-1", "must be above 0"), ("nodes", "2", "network: is that"),
     ("gpus_per_node", "x", "invalid literal")],
)  # fmt: skip
def test_a_row_that_cannot_be_is_named(tmp_path, column, value, words):
    with SHIPPED.open() as lines:
        row = next(csv.DictReader(lines))
    file = tmp_path / "rows.csv"
    with file.open("w") as lines:
        writer = csv.DictWriter(lines, row)
        writer.writeheader()
        writer.writerows([row, {**row, column: value}])
    with pytest.raises(UserError, match=f"line 3: .*{words}"):
        read(file)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("NVIDIA V100 32 GB", "V100"), ("Tesla V100-SXM2-32GB", "V100"), ("NVIDIA H200", "H200"),
     ("NVIDIA A100-SXM4-80GB", "A100"), ("NVIDIA H100 80GB HBM3", "H100"),
     ("NVIDIA H100 NVL 94 GB", "H100 NVL"), ("Quadro RTX 8000", "8000"), ("", "")],
)  # fmt: skip
def test_a_gpu_has_one_name_in_tables_drivers_and_the_catalogue(name, kind):
    assert gpu_type(name) == kind


@pytest.mark.parametrize(
    ("other", "words"),
    [(point(1, 1.0, model="ResNet-101"), "network ResNet-101"),
     (point(1, 1.0, batch_per_rank=64), "batch of a rank 64, not 256"),
     (point(1, 1.0, precision="float32"), "precision float32"),
     (point(1, 1.0, problem="NCCL used sockets"), "NCCL used sockets"),
     (point(1), "it has no rates"), (point(1, 1.0, image_size=160), "image size 160"),
     (point(1, 1.0, accumulation=2), "micro-batches 2"), (point(1, 1.0, xla=False), "without XLA"),
     (point(1, 1.0, data="imagenet:3"), "data imagenet:3"),
     (point(1, 1.0, size="Standard_X1"), "no such size"),
     (point(1, 1.0, size="this machine"), "names no GPU")],
)  # fmt: skip
def test_points_of_something_else_are_not_used_and_the_reason_is_said(other, words):
    assert words in why_not(other, CONFIG)
    assert own_rows([other], CONFIG) == []


def test_the_newest_point_of_the_same_nodes_counts():
    points = [point(1, 8000.0, at="1"), point(1, 8500.0, at="2"), point(2, 16_000.0)]
    assert [row.images_per_s for row in own_rows(points, CONFIG)] == [8500, 16_000]


def test_a_card_of_this_machine_is_a_row_as_a_vm_size_is():
    card = point(1, 1234.0, size="this machine", ranks=1, environment={"gpu": "Tesla V100-SXM2"})
    node = point(1, 9000.0, size=NDV2.name)
    a100 = point(2, 40_000.0, size=NDA100.name)
    rows = own_rows([card, node, a100], CONFIG)
    assert [(row.gpu_type, row.shape, row.network) for row in rows] == [
        ("V100", (1, 1), ""), ("V100", (8, 1), ""), ("A100", (8, 2), "InfiniBand"),
    ]  # fmt: skip
    assert all(row.mine for row in rows)
