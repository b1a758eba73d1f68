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


def test_the_newest_sweep_with_a_usable_point_is_used(tmp_path):
    assert throughput.newest(tmp_path, "dev") is None
    older = write(tmp_path, "older", "2026-11-20T12:00:00Z")
    newer = write(tmp_path, "newer", "2026-11-21T12:00:00Z")
    # A sweep that failed measures nothing, so it does not hide what is known.
    write(tmp_path, "failed", "2026-11-22T12:00:00Z", rates=(), problem="the job: failed")
    write(tmp_path, "older", "2026-11-22T13:00:00Z", problem="the network was not InfiniBand")
    assert throughput.newest(tmp_path, "dev") == newer
    write(tmp_path, "older", "2026-11-23T12:00:00Z")
    assert throughput.newest(tmp_path, "dev") == older
    assert throughput.newest(tmp_path, "prod") is None


def test_a_broken_line_is_named(tmp_path):
    file = write(tmp_path, "sweep", "2026-11-20T12:00:00Z")
    with file.open("a") as added:
        added.write('{"size": "Standard_')
    with pytest.raises(UserError, match="line 2: is no measured point"):
        throughput.newest(tmp_path, "dev")


def test_a_network_that_is_no_usual_resnet_has_its_options_in_its_name():
    assert model_name(TRAINING) == wanted(TRAINING, "any").model == "ResNet-50"
    narrow = replace(TRAINING, model=replace(TRAINING.model, width=32))
    assert model_name(narrow) == "classification --width 32"
    divided = parse_train(["--preset", "digits", "--head.groups", "2"])
    assert model_name(divided).endswith("--head.groups 2")
