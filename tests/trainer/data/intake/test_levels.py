"""Levels of images of more than 8 bits."""

import io
import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from tests.trainer.support.data_sets.image_files import PNG, chunk, png_header, saved
from tests.trainer.support.data_sets.image_folders import by_name, prepare, records
from tests.trainer.support.scenarios import tiny_config
from trainer.data.intake.levels import Values, given_levels
from trainer.data.manifest import load_manifest
from trainer.data.medical.tiff_pages import TiffPages
from trainer.data.pixels.treatment import (
    OWN_LEVELS,
    Levels,
    RejectedError,
    UnreadFormatError,
    deep_bands,
    open_image,
    treat,
    treatment_of,
)
from trainer.export.layout import export_facts
from trainer.run_folder import RunRecord


def png(values):
    """A PNG of 16 bits: grey, grey with opacity, RGB or RGBA by the shape."""
    colour = {2: 4, 3: 2, 4: 6}[values.shape[-1]] if values.ndim == 3 else 0
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = png_header(values.shape[1], values.shape[0], 16, colour)
    return PNG + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


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
    found = {name: pixels(r.encoded) for name, r in by_name(tmp_path / "out").items()}
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


@pytest.mark.parametrize("offset", [0, -200_000, 2_000_000])
def test_percentiles_are_those_of_any_integers(offset):
    values = Values()
    for part in np.split(np.arange(1_000_000) + offset, 4):
        values.add(part)
    result = values.levels("percentiles")
    assert np.abs(np.subtract(result, (offset + 5000, offset + 995_000))).max() < 100


def test_each_image_may_have_a_range_of_its_own(tmp_path, capsys):
    source = folder(tmp_path, [ramp(4095), ramp(65_535), ramp(900)])
    manifest = prepare(source, tmp_path / "out", levels="bits")
    found = {name: pixels(r.encoded) for name, r in by_name(tmp_path / "out").items()}
    assert [found[f"a/{n}.png"].max() for n in range(3)] == [255, 255, 224]
    assert manifest.origin.intake.narrow == 0
    printed = capsys.readouterr()
    assert "from 0 to the highest bit that it uses (fractions" in printed.out
    assert "1/16" not in printed.err
    assert manifest.origin.intake.levels == OWN_LEVELS


def test_a_data_set_that_mixes_depths_is_told_by_files_with_the_option(tmp_path, capsys):
    source = folder(tmp_path, [ramp(4095), ramp(65_535), ramp(4000)])
    prepare(source, tmp_path / "out")
    err = capsys.readouterr().err
    assert "4 images of more than 8 bits, such as a/0.png, use at most 1/16 of the levels" in err
    assert "the data set mixes 4 images of 12 bits, 2 images of 16 bits: --levels bits gives" in err


def test_a_transparent_colour_of_16_bits_becomes_white():
    values = np.full((4, 4, 3), 2000, np.uint16)
    values[0, 0] = (7, 8, 9)
    values[1, 1] = (7, 8, 10)
    data = png(values)
    colour = chunk(b"tRNS", struct.pack(">3H", 7, 8, 9))
    data = data[:33] + colour + data[33:]
    found = pixels(treat(data, levels=Levels(0, 4095)).data)
    assert found[0, 0].tolist() == [255, 255, 255]
    assert found[1, 1].tolist() == [0, 0, 1]
    assert (found[2:] == int(2000 * 255 / 4095 + 0.5)).all()


@pytest.mark.parametrize("levels", [Levels(0, 4095), OWN_LEVELS, None])
def test_a_transparent_grey_of_16_bits_becomes_white(levels):
    values = np.full((4, 4), 2000, np.uint16)
    values[0, 0], values[1, 1] = 7 * 256 + 8, 7 * 256 + 9
    data = png(values)
    data = data[:33] + chunk(b"tRNS", struct.pack(">H", 7 * 256 + 8)) + data[33:]
    result = pixels(treat(data, levels=levels).data)
    assert result[0, 0] > 250
    assert result[1, 1] < 230


def test_opacity_of_16_bits_lies_on_white():
    values = np.full((4, 4, 2), 65_535, np.uint16)
    values[..., 0] = 1000
    values[0, 0, 1] = 0
    found = pixels(treat(png(values), levels=Levels(0, 4095)).data)
    assert found[0, 0] == 255
    assert (found[1:] == int(1000 * 255 / 4095 + 0.5)).all()


def tiff(values, extra=(), photometric=None, planar=1, begin=0, further=0, copy=0):
    """A TIFF of bands in the last axis, with the tag ExtraSamples if one is wanted; or a part of
    one, which begins at a byte, names the directory of a further page, or is a smaller copy.
    """
    bands = values.shape[-1] if values.ndim == 3 else 1
    kind = photometric if photometric is not None else 2 if bands > 2 else 1
    stored = np.moveaxis(values, -1, 0) if planar == 2 else values
    pixels, parts = stored.tobytes(), bands if planar == 2 else 1
    lists = {
        254: [copy],
        256: [values.shape[1]], 257: [values.shape[0]], 258: [values.dtype.itemsize * 8] * bands,
        259: [1], 262: [kind], 273: [0] * parts, 277: [bands], 278: [values.shape[0]],
        279: [len(pixels) // parts] * parts, 284: [planar], 338: list(np.atleast_1d(extra)),
        339: [{"u": 1, "i": 2, "f": 3, "c": 6}[values.dtype.kind]] * bands,
    }  # fmt: skip
    lists = {tag: cells for tag, cells in lists.items() if cells}
    end = begin + 8 + 2 + 12 * len(lists) + 4
    first = end + sum(4 * len(cells) for cells in lists.values() if len(cells) > 1)
    lists[273] = [first + number * len(pixels) // parts for number in range(parts)]
    rows, more = b"", b""
    for tag, cells in lists.items():
        packed = struct.pack(f"<{len(cells)}I", *cells)
        rows += struct.pack("<HHI", tag, 4, len(cells))
        rows += packed if len(cells) == 1 else struct.pack("<I", end + len(more))
        more += packed if len(cells) > 1 else b""
    head = struct.pack("<2sHIH", b"II", 42, begin + 8, len(lists))
    return head + rows + struct.pack("<I", further) + more + pixels


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("extra", [(), 1, 2])
def test_a_tiff_with_a_band_of_measurements_is_refused(kind, extra):
    rng = np.random.default_rng(0)
    for values in (
        rng.integers(1, 255, (8, 8, 4)).astype(kind),
        np.full((8, 8, 4), (200, 100, 50, 30), kind),
    ):
        with pytest.raises(RejectedError, match="has 4 bands, of which the last would be an opac"):
            treat(tiff(values, extra), levels=Levels(0, 255))
    values = np.full((8, 8, 4), (200, 100, 50, np.iinfo(kind).max), kind)
    values[:3, :, 3] = 0
    found = pixels(treat(tiff(values, extra), levels=Levels(0, 255)).data)
    assert found[0, 0].tolist() == [255, 255, 255]
    assert abs(found[7, 7].astype(int) - (200, 100, 50)).max() <= 2


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_bands_that_are_no_opacity_are_left_out_and_told(kind):
    values = np.full((8, 8, 4), (200, 100, 50, 30), kind)
    treated = treat(tiff(values, 0), levels=Levels(0, 255))
    assert treated.treatment == "converted: TIFF, further bands left out"
    assert abs(pixels(treated.data)[0, 0].astype(int) - (200, 100, 50)).max() <= 2


THREE = "-b 1 -b 2 -b 3 -co PHOTOMETRIC=RGB -co INTERLEAVE=PIXEL"


@pytest.mark.parametrize(
    ("bands", "dtype", "tags", "described", "options"),
    [
        (3, "u2", {"photometric": 1, "extra": (0, 0)}, "3 bands of 16 bits that the file", THREE),
        (
            13,
            "u1",
            {"photometric": 1, "extra": [0] * 12},
            "13 bands of 8 bits that the",
            THREE,
        ),
        (5, "u2", {"extra": (0, 0)}, "5 bands of 16 bits, which is not", THREE),
        (4, "u1", {"extra": 0, "planar": 2}, "4 bands of 8 bits, stored one after the", THREE),
        (2, "u2", {"extra": 0}, "2 bands of 16 bits", "-b 1"),
        (1, "f8", {}, "1 band of 64 bits with fractions", "-ot Float32"),
        (1, "f2", {}, "1 band of 16 bits with fractions", "-ot Float32"),
        (3, "f4", {}, "3 bands of 32 bits with fractions", "-b 1"),
        (1, "u8", {}, "1 band of 64 bits", "-ot Float32"),
        (1, "c8", {}, "1 band of 64 bits", "-ot Float32"),
    ],
)
def test_a_tiff_that_is_not_read_is_named_with_its_cure(
    bands, dtype, tags, described, options, capfd
):
    data = tiff(np.full((8, 8, bands), 9, dtype), **tags)
    with pytest.raises(UnreadFormatError) as refused:
        treat(data, levels=Levels(0, 255))
    words = f"is a TIFF of {described}"
    assert str(refused.value).startswith(words)
    assert str(refused.value).endswith(f" gdal_translate {options} IN.tif OUT.tif")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("bits", ["u1", "u2"])
def test_a_tiff_as_the_cure_writes_it_is_read(bits):
    values = np.full((8, 8, 3), (200, 100, 50), bits)
    result = pixels(treat(tiff(values), levels=Levels(0, 255)).data)
    assert abs(result[0, 0].astype(int) - (200, 100, 50)).max() <= 2


def test_a_tiff_without_a_directory_has_a_damaged_header():
    data = tiff(np.full((8, 8, 13), 9, np.uint8))
    for end in (8, 60):
        with pytest.raises(RejectedError, match="has a damaged header"):
            treat(data[:end])


UNSIGNED = np.array([[0, 2**31 - 1, 2**31, 3_000_000_000, 2**32 - 1, 5]] * 3, np.uint32)


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [
        (Levels(0, 999_999_999), [0, 255, 255, 255, 255, 0]),
        (Levels(0, 2**32 - 1), [0, 127, 128, 178, 255, 0]),
        (Levels(2**31 - 1, 2**31), [0, 0, 255, 255, 255, 0]),
        (Levels(-6, 4), [153, 255, 255, 255, 255, 255]),
        (OWN_LEVELS, [0, 127, 128, 178, 255, 0]),
    ],
)
def test_integers_of_32_bits_have_no_sign_unless_the_file_says_so(levels, wanted):
    assert pixels(treat(tiff(UNSIGNED), levels=levels).data)[0].tolist() == wanted
    signed = UNSIGNED.astype(np.int64).clip(0, 2**31 - 1).astype(np.int32)
    result = pixels(treat(tiff(signed), levels=Levels(0, 100)).data)
    assert result[0].tolist() == [0, 255, 255, 255, 255, 13]


def test_the_levels_of_integers_of_32_bits_are_found_without_a_sign():
    data, values = tiff(UNSIGNED), Values()
    values.add_image(data, open_image(data))
    assert values.levels("auto") == (0, 2**32 - 1)
    assert values.levels("percentiles") == (0, 2**32 - 1)
    assert (TiffPages().values(data, 0, 99) == UNSIGNED).all()


def test_negative_values_of_8_bits_are_refused():
    values = np.array([[0, 100]] * 3, np.int8)
    assert abs(pixels(treat(tiff(values)).data).astype(int) - values).max() <= 1
    with pytest.raises(RejectedError, match="has negative values of 8 bits, which"):
        treat(tiff(-values))


def test_cielab_is_refused_by_its_name():
    lab = Image.fromarray(np.full((8, 8, 3), (100, 150, 30), np.uint8), "LAB")
    for levels in (None, Levels(0, 255)):
        with pytest.raises(RejectedError, match="is in CIELAB, which is not read; convert it to"):
            treat(saved(lab, "TIFF"), levels=levels)


def test_a_deep_tiff_whose_smallest_value_is_white_is_inverted():
    values = np.linspace(0, 4095, 64).reshape(8, 8).astype(np.uint16)
    plain, inverted = (
        pixels(treat(tiff(values, photometric=kind), levels=Levels(0, 4095)).data).astype(int)
        for kind in (1, 0)
    )
    assert (plain + inverted == 255).all()


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
    data = saved(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8), "TIFF")
    with pytest.raises(RejectedError, match="whose range is unknown"):
        treat(data)
    assert len(np.unique(pixels(treat(data, levels=Levels(-1, 1)).data))) == 64


def fractions(least=0.0, most=0.3, strange=()):
    """A TIFF of fractions, some of which may be replaced."""
    values = np.linspace(least, most, 400, dtype=np.float32)
    values[200 : 200 + len(strange)] = strange
    return saved(Image.fromarray(values.reshape(20, 20)), "TIFF")


@pytest.mark.parametrize(
    ("choice", "levels"),
    [
        ("auto", (0, float(np.float32(0.3)))),
        ("percentiles", (2 * 0.3 / 399, 397 * 0.3 / 399)),
        ("0:0.3", (0, 0.3)),
        ("bits", OWN_LEVELS),
    ],
)
def test_fractions_become_all_levels_in_each_way_out(tmp_path, choice, levels):
    strange = (np.nan, np.inf, -np.inf)
    for label in ("a", "b"):
        (tmp_path / "in" / label).mkdir(parents=True)
        for number in range(2):
            path = tmp_path / "in" / label / f"{number}.tif"
            path.write_bytes(fractions(strange=strange if number else ()))
    prepare(tmp_path / "in", tmp_path / "out", levels=choice)
    intake = load_manifest(tmp_path / "out").origin.intake
    assert intake.levels == pytest.approx(levels, abs=2e-3 if choice == "percentiles" else 0)
    stored = {name: r.encoded for name, r in by_name(tmp_path / "out").items()}
    assert len(np.unique(pixels(stored["a/0.tif"]))) == 256
    assert pixels(stored["b/1.tif"]).ravel()[200:203].tolist() == [0, 255, 0]
    # The facts of a model as they are written and read.
    record = RunRecord(tiny_config("out"), 1, 1, "", levels=intake.levels)
    (tmp_path / "export.json").write_text(json.dumps(record.treatment))
    facts = export_facts(tmp_path / "saved_model")
    for name, encoded in stored.items():
        data = (tmp_path / "in" / name).read_bytes()
        assert treat(data, **treatment_of(facts)).data == encoded
    low, high = intake.levels
    if low < high:
        assert given_levels(f"{low}:{high}") == intake.levels


def test_wide_fractions_have_integers_as_levels():
    values = Values()
    values.add(np.linspace(-3.3, 300.2, 4000))
    assert values.levels("auto") == (-4, 301)
    assert values.levels("percentiles") == (-2, 299)
    # As JSON has them, whole numbers are integers.
    values = Values()
    values.add(np.array([-3.0, 90.0]))
    assert json.dumps(values.levels("auto")) == "[-3, 90]"


def test_an_image_without_a_finite_value_is_refused():
    data = saved(Image.fromarray(np.full((4, 4), np.nan, np.float32)), "TIFF")
    for levels in (OWN_LEVELS, Levels(0, 1)):
        with pytest.raises(RejectedError, match="has no finite value"):
            treat(data, levels=levels)


@pytest.mark.parametrize("value", [0.25, -7.0, 3e38, 1e-30])
def test_an_image_of_one_value_is_black(value):
    data = saved(Image.fromarray(np.full((4, 4), value, np.float32)), "TIFF")
    values = Values()
    values.add_image(data, open_image(data))
    assert values.levels("auto").low < values.levels("auto").high
    assert pixels(treat(data, levels=OWN_LEVELS).data).max() == 0


@pytest.mark.parametrize(
    ("text", "levels"),
    [("0:0.3", (0, 0.3)), ("-.5:.5", (-0.5, 0.5)), ("1e-05:2E3", (1e-5, 2000)),
     ("0:4294967295", (0, 4_294_967_295)), ("-1000.0:5.", (-1000, 5))],
)  # fmt: skip
def test_levels_may_be_fractions(text, levels):
    result = given_levels(text)
    assert result == levels
    assert [type(value) for value in result] == [type(value) for value in levels]


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


@pytest.mark.parametrize(
    "text",
    ["", "5", "9:3", "3:3", "a:b", "automatic", "0:1e999", "0:nan", "1:1.0", "0:1_0", "0:1e-320"],
)
def test_other_levels_are_refused(text):
    with pytest.raises(ValueError, match="must be LOW:HIGH"):
        given_levels(text)
