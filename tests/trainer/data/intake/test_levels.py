"""Levels of images of more than 8 bits."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from tests.trainer.support.data_sets.image_folders import prepare, records
from tests.trainer.support.data_sets.planted import chunk
from trainer.data.intake.levels import Values, given_levels
from trainer.data.pixels.treatment import Levels, RejectedError, deep_bands, open_image, treat


def png(values):
    """A PNG of 16 bits: grey, grey with opacity, RGB or RGBA by the shape."""
    colour = {2: 4, 3: 2, 4: 6}[values.shape[-1]] if values.ndim == 3 else 0
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">2I5B", values.shape[1], values.shape[0], 16, colour, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def ramp(most):
    return np.linspace(0, most, 4096).round().reshape(64, 64).astype(np.uint16)


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)))


def folder(tmp_path, images):
    for label in ("a", "b"):
        (tmp_path / "in" / label).mkdir(parents=True)
        for number, image in enumerate(images):
            (tmp_path / "in" / label / f"{number}.png").write_bytes(png(image))
    return tmp_path / "in"


def test_12_bits_keep_256_levels_and_share_them(tmp_path, capsys):
    manifest = prepare(folder(tmp_path, [ramp(4095), ramp(200)]), tmp_path / "out")
    assert manifest.origin.intake.levels == (0, 4095)
    assert manifest.origin.intake.narrow == 2
    found = {r.filename: pixels(r.encoded) for s in ("train", "validation")
             for r in records(tmp_path / "out", s)}  # fmt: skip
    assert len(np.unique(found["a/0.png"])) == 256
    assert (found["a/0.png"] == (ramp(4095) * (255 / 4095) + 0.5).astype(np.uint8)).all()
    assert found["b/1.png"].max() == 12
    printed = capsys.readouterr()
    assert "the values 0 to 4095 became 0 to 255" in printed.out
    assert "2 images of more than 8 bits, such as a/1.png, use at most 1/16" in printed.err


@pytest.mark.parametrize(
    ("text", "most", "levels"),
    [("full", 4095, None), ("auto", 65_535, (0, 65_535)), ("auto", 255, (0, 255)),
     ("100:2000", 4095, (100, 2000)), ("percentiles", 4000, (20, 3980))],
)  # fmt: skip
def test_what_levels_mean(tmp_path, text, most, levels):
    manifest = prepare(folder(tmp_path, [ramp(most)] * 2), tmp_path / "out", levels=text)
    assert manifest.origin.intake.levels == levels
    if text == "full":
        assert manifest.origin.intake.narrow == 4
        assert len(np.unique(pixels(records(tmp_path / "out", "train")[0].encoded))) == 17


def test_images_of_8_bits_have_no_levels(tmp_path):
    for label in ("a", "b"):
        (tmp_path / "in" / label).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (9, 9), (number, 2, 3)).save(tmp_path / "in" / label / f"{number}.png")
    assert prepare(tmp_path / "in", tmp_path / "out").origin.intake.levels is None


@pytest.mark.parametrize("bands", [3, 4])
def test_colours_of_16_bits_are_read_whole(bands):
    values = np.random.default_rng(0).integers(0, 4096, (20, 30, bands), dtype=np.uint16)
    data = png(values)
    found = deep_bands(data, open_image(data))
    assert all((np.asarray(band) == values[..., n]).all() for n, band in enumerate(found))
    if bands == 3:
        treated = treat(data, levels=Levels(0, 4095))
        assert (pixels(treated.data) == (values * (255 / 4095) + 0.5).astype(np.uint8)).all()
        assert treated.format == "PNG"


def test_32_bits_need_levels():
    buffer = io.BytesIO()
    Image.fromarray(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)).save(buffer, "TIFF")
    with pytest.raises(RejectedError, match="whose range is unknown"):
        treat(buffer.getvalue())
    assert len(np.unique(pixels(treat(buffer.getvalue(), levels=Levels(-1, 1)).data))) == 64


def test_parts_of_a_data_set_add_up():
    whole, parts = Values(), [Values(), Values(), Values()]
    for number, most in enumerate((300, 4000, 70)):
        whole.add(ramp(most))
        parts[number].add(ramp(most))
    total = Values()
    for part in parts:
        total.merge(part)
    for choice in ("auto", "percentiles"):
        assert total.levels(choice) == whole.levels(choice)
    total.add(np.array([-1000.5, 3000.2]))
    assert total.levels("auto") == (-1001, 4000)
    assert Values().levels("auto") is None


@pytest.mark.parametrize("text", ["", "5", "9:3", "3:3", "a:b", "automatic"])
def test_other_levels_are_refused(text):
    with pytest.raises(ValueError, match="must be LOW:HIGH"):
        given_levels(text)
