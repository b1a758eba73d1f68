"""The names of points, and which of a stack are the newest."""

from dataclasses import replace

import pytest

from common.errors import UserError
from jobs import throughput
from jobs.throughput import Point, model_name, wanted
from tests.jobs.support.samples import TRAINING
from trainer.presets import parse_train


def write(folder, sweep, at, **changes):
    known = ("Standard_ND40rs_v2", 1, 8, "ResNet-50", "mixed_float16", 256, 224)
    file = folder / "dev" / sweep / throughput.FILE
    throughput.append(file, Point(*known, **{"rates": (9000.0,), "at": at, **changes}))
    return file


def test_a_last_line_that_was_not_finished_is_left_out_and_does_not_spoil_the_next_point(tmp_path):
    file = write(tmp_path, "sweep", "2026-11-20T12:00:00Z")
    with file.open("a") as added:
        added.write('{"size": "Standard_')
    assert len(throughput.read(file)) == 1
    write(tmp_path, "sweep", "2026-11-21T12:00:00Z")
    assert [one.at[8:10] for one in throughput.read(file)] == ["20", "21"]


def test_a_point_without_a_newline_at_its_end_stays_a_point(tmp_path):
    file = write(tmp_path, "sweep", "2026-11-20T12:00:00Z")
    file.write_text(file.read_text().rstrip("\n"))
    assert len(throughput.read(file)) == 1
    write(tmp_path, "sweep", "2026-11-21T12:00:00Z")
    assert len(throughput.read(file)) == 2


@pytest.mark.parametrize("rate", ["NaN", "Infinity", "-1", "0"])
def test_a_broken_line_in_the_middle_is_named_and_so_is_a_rate_that_is_no_number(tmp_path, rate):
    file = write(tmp_path, "sweep", "2026-11-20T12:00:00Z")
    file.write_text(file.read_text().replace("9000.0", rate))
    with pytest.raises(UserError, match="line 1: is not a measured point"):
        throughput.read(file)
    file.write_text('{"size": "Standard_\n' + "\n")
    with pytest.raises(UserError, match="line 1: is not a measured point"):
        throughput.read(file)


def test_a_network_that_is_no_usual_resnet_has_its_options_in_its_name():
    assert model_name(TRAINING) == wanted(TRAINING, "any").model == "ResNet-50"
    narrow = replace(TRAINING, model=replace(TRAINING.model, width=32))
    assert model_name(narrow) == "classification --width 32"
    divided = parse_train(["--preset", "digits", "--head.groups", "2"])
    assert model_name(divided).endswith("--head.groups 2")
