"""Which sweep of a stack a plan uses."""

import pytest

from common.errors import UserError
from jobs.planning import points
from jobs.planning.points import Point


def write(folder, sweep, at, **changes):
    known = ("Standard_ND40rs_v2", 1, 8, "ResNet-50", "mixed_float16", 256, 224)
    file = folder / "dev" / sweep / points.FILE
    points.append(file, Point(*known, **{"rates": (9000.0,), "at": at, **changes}))
    return file


def test_the_newest_sweep_with_a_usable_point_is_used(tmp_path):
    assert points.newest(tmp_path, "dev") is None
    older = write(tmp_path, "older", "2026-11-20T12:00:00Z")
    newer = write(tmp_path, "newer", "2026-11-21T12:00:00Z")
    # A sweep that failed measures nothing, so it does not hide what is known.
    write(tmp_path, "failed", "2026-11-22T12:00:00Z", rates=(), problem="the job: failed")
    write(tmp_path, "older", "2026-11-22T13:00:00Z", problem="the network was not InfiniBand")
    assert points.newest(tmp_path, "dev") == newer
    write(tmp_path, "older", "2026-11-23T12:00:00Z")
    assert points.newest(tmp_path, "dev") == older
    assert points.newest(tmp_path, "prod") is None


def test_a_broken_line_is_named(tmp_path):
    file = write(tmp_path, "sweep", "2026-11-20T12:00:00Z")
    with file.open("a") as added:
        added.write('{"size": "Standard_')
    with pytest.raises(UserError, match="line 2: is no measured point"):
        points.newest(tmp_path, "dev")
