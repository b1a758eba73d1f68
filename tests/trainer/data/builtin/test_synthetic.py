"""The synthetic data set on disk."""

import errno
import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from common.files import UnwritableError
from trainer.data.builtin.synthetic import HEIGHT, WIDTH, noise_records, prepare_noise
from trainer.data.manifest import load_manifest
from trainer.errors import DataError


def test_the_same_seed_makes_the_same_images_and_each_number_another():
    first, again, other = (list(noise_records(3, seed)) for seed in (0, 0, 1))
    assert [r.encoded for r in first] == [r.encoded for r in again]
    assert len({r.encoded for r in [*first, *other]}) == 6


def test_images_cost_what_photographs_cost():
    records = list(noise_records(8, 0))
    sizes = [len(record.encoded) for record in records]
    assert 80_000 < np.mean(sizes) < 160_000
    image = Image.open(io.BytesIO(records[0].encoded))
    assert (image.size, image.mode, image.format) == ((WIDTH, HEIGHT), "RGB", "JPEG")
    pixels = np.asarray(image).astype(float)
    assert pixels.mean() == pytest.approx(127.5, abs=10)
    assert pixels.std() == pytest.approx(55, abs=10)


def test_a_prepared_folder_has_a_manifest_and_is_made_once(tmp_path, capsys):
    folder = tmp_path / "noise"
    made = prepare_noise(str(folder), 10)
    assert load_manifest(folder).version == made.version
    assert made.splits["train"].examples == 10
    assert made.splits["validation"].examples == 10
    assert prepare_noise(str(folder), 10).version == made.version
    with pytest.raises(DataError, match="holds another data set"):
        prepare_noise(str(folder), 11)


@pytest.mark.parametrize("other", [10, 11])
def test_a_folder_that_another_node_makes_meanwhile_is_compared(tmp_path, monkeypatch, other):
    folder = tmp_path / "noise"
    prepare_noise(str(tmp_path / "made"), other)
    exists, asked = Path.exists, []

    def late(path, **options):
        there = exists(path, **options)
        if path == folder and exists(tmp_path / "made"):
            asked.append(path)
            if len(asked) == 2:
                (tmp_path / "made").rename(folder)
        return there

    monkeypatch.setattr(Path, "exists", late)
    if other == 10:
        assert prepare_noise(str(folder), 10).version == load_manifest(folder).version
    else:
        with pytest.raises(DataError, match="holds another data set"):
            prepare_noise(str(folder), 10)
    assert [path.name for path in tmp_path.iterdir()] == ["noise"]


def test_a_folder_that_may_not_be_written_is_named_by_its_own_name(tmp_path, monkeypatch):
    def refuse(prefix, **_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), f"{prefix}x")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(UnwritableError, match=f"^{tmp_path}/noise: is not writable"):
        prepare_noise(str(tmp_path / "noise"), 10)
