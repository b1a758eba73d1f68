"""DICOM and TIFFs of several pages, from files to records."""

import io
import struct
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

from common.errors import ConfigError
from tests.trainer.data.intake.test_levels import tiff
from tests.trainer.support.data_sets.image_folders import prepare, records, rejected
from tests.trainer.support.data_sets.planted import Planted
from trainer.data.intake.segments import BrokenSegmentsError
from trainer.data.intake.tiff import alone
from trainer.data.manifest import load_manifest
from trainer.data.medical.dicom import Dicom
from trainer.data.medical.tiff_pages import TiffPages
from trainer.data.pixels.treatment import Levels, open_image, treat
from trainer.errors import DataError

EXPLICIT = b"1.2.840.10008.1.2.1"


def element(group, number, kind, value):
    """An element of a data set in explicit VR, little endian."""
    value += (b"\0" if kind in (b"UI", b"OB", b"OW", b"UN") else b" ") * (len(value) % 2)
    size = struct.pack("<HI", 0, len(value)) if kind in (b"OB", b"OW", b"UN", b"SQ") else (
        struct.pack("<H", len(value)))  # fmt: skip
    return struct.pack("<HH", group, number) + kind + size + value


def dicom(values, made=None, *, bits=12, photometric=b"MONOCHROME2", rescale=None, window=None):
    """A DICOM file written by hand, with identifiers if some are to be planted."""
    frames = values.shape[0] if values.ndim == 3 else 1
    height, width = values.shape[-2:]

    def us(group, number, value):
        return element(group, number, b"US", struct.pack("<H", value))

    text = made.text if made else lambda _: "x"
    meta = element(2, 0x0010, b"UI", EXPLICIT) + element(2, 2, b"UI", b"1.2.840.10008.5.1.4.1.1.7")
    meta += element(2, 0x0016, b"AE", text("aetitle").encode()[:16])
    parts = [
        element(8, 0x0005, b"CS", b"ISO_IR 192"),
        element(8, 0x0080, b"LO", text("institution").encode()),
        element(8, 0x0090, b"PN", text("physician").encode()),
        element(8, 0x1030, b"LO", text("study").encode()),
        element(9, 0x0010, b"LO", text("creator").encode()),
        element(9, 0x1001, b"UN", text("private").encode("utf-16-le")),
        element(0x10, 0x0010, b"PN", text("patient").encode()),
        element(0x10, 0x0020, b"LO", text("id").encode()),
        element(0x10, 0x4000, b"LT", text("comments").encode()),
        us(0x28, 2, 1),
        element(0x28, 4, b"CS", photometric),
        element(0x28, 8, b"IS", str(frames).encode()) if frames > 1 else b"",
        us(0x28, 0x10, height),
        us(0x28, 0x11, width),
        us(0x28, 0x100, 16),
        us(0x28, 0x101, bits),
        us(0x28, 0x102, bits - 1),
        us(0x28, 0x103, int(values.dtype == np.int16)),
    ]
    if window:
        parts += [
            element(0x28, n, b"DS", str(v).encode())
            for n, v in zip((0x1050, 0x1051), window, strict=True)
        ]
    if rescale:
        parts += [element(0x28, n, b"DS", str(v).encode())
                  for n, v in zip((0x1052, 0x1053), rescale, strict=True)]  # fmt: skip
    parts.append(element(0x7FE0, 0x10, b"OW", values.astype("<i2").tobytes()))
    length = element(2, 0, b"UL", struct.pack("<I", len(meta)))
    return bytes(128) + b"DICM" + length + meta + b"".join(parts)


def sequence(group, number, *items):
    """A sequence of items, each the bytes of its elements."""
    framed = b"".join(struct.pack("<HHI", 0xFFFE, 0xE000, len(item)) + item for item in items)
    return element(group, number, b"SQ", framed)


def transformed(slope=None, window=None):
    """The elements of a functional group: rescaling, and a window."""
    parts = []
    if slope:
        values = (element(0x28, n, b"DS", str(v).encode())
                  for n, v in zip((0x1052, 0x1053), slope, strict=True))  # fmt: skip
        parts.append(sequence(0x28, 0x9145, b"".join(values)))
    if window:
        values = (element(0x28, n, b"DS", str(v).encode())
                  for n, v in zip((0x1050, 0x1051), window, strict=True))  # fmt: skip
        parts.append(sequence(0x28, 0x9132, b"".join(values)))
    return b"".join(sorted(parts, key=lambda part: part[2:4], reverse=False))


def enhanced(values, shared, *frames):
    """A file of frames whose rescaling is in functional groups, as in Enhanced CT."""
    data = dicom(values)
    at = data.index(struct.pack("<HH", 0x7FE0, 0x10))
    groups = sequence(0x5200, 0x9229, shared) if shared else b""
    groups += sequence(0x5200, 0x9230, *frames) if frames else b""
    return data[:at] + groups + data[at:]


def ramp(most=4095, dtype=np.uint16):
    return np.linspace(0, most, 64 * 64).round().reshape(64, 64).astype(dtype)


def folder(tmp_path, files):
    for label in ("a", "b"):
        for name, data in files.items():
            path = tmp_path / "in" / label / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return tmp_path / "in"


def stored(output):
    found = [r for split in ("train", "validation") for r in records(output, split)]
    return {r.filename: np.asarray(Image.open(io.BytesIO(r.encoded))) for r in found}


needs_pydicom = pytest.mark.skipif(
    find_spec("pydicom") is None,
    reason="pydicom is not installed (optional group medical)",
)


@needs_pydicom
def test_frames_are_rescaled_by_their_functional_groups(tmp_path):
    frames = np.stack([np.full((8, 8), 24), np.full((8, 8), 1024), ramp()[:8, :8]]).astype(
        np.uint16
    )
    source = folder(tmp_path, {
        "ct.dcm": enhanced(frames, transformed((-1024, 1))),
        "own.dcm": enhanced(frames, b"", transformed((-1024, 1)), transformed((0, 1)),
                            transformed((-1024, 2))),
        "old.dcm": dicom(ramp(), rescale=(-1024, 1)),
    })  # fmt: skip
    manifest = prepare(source, tmp_path / "out", pages="all", levels="-1024:3071", max_rejected="0")
    assert manifest.origin.treatment == {"converted: DICOM": 14}
    found = stored(tmp_path / "out")

    def wanted(value):
        return int((value + 1024) * 255 / 4095 + 0.5)

    assert {wanted(-1000)} == set(found["a/ct.dcm"].ravel())
    assert {wanted(0)} == set(found["a/ct#2.dcm"].ravel())
    assert {wanted(-1000)} == set(found["a/own.dcm"].ravel())
    assert {wanted(1024)} == set(found["a/own#2.dcm"].ravel())
    own = ramp()[:8, :8].astype(int) * 2 - 1024
    assert (found["a/own#3.dcm"] == [[wanted(v) for v in row] for row in own]).all()
    auto = prepare(source, tmp_path / "auto")
    assert auto.origin.intake.levels == (-1024, 3071)


@needs_pydicom
def test_each_frame_has_its_own_window(tmp_path):
    frames = np.stack([ramp()[:8, :8] * 0 + 100, ramp()[:8, :8] * 0 + 100])
    low, high = (transformed(window=window) for window in ((100, 50), (3000, 50)))
    source = folder(tmp_path, {"a.dcm": enhanced(frames, b"", low, high), "b.dcm": dicom(ramp())})
    prepare(source, tmp_path / "out", pages="all", levels="window")
    found = stored(tmp_path / "out")
    assert 100 < found["a/a.dcm"].mean() < 160
    assert found["a/a#2.dcm"].max() == 0


@needs_pydicom
def test_levels_are_those_of_the_modality_and_the_same_for_all(tmp_path):
    image, dark = ramp(), ramp(200)
    hounsfield = {"rescale": (-1024, 1)}
    source = folder(tmp_path, {
        "1.dcm": dicom(image, **hounsfield), "2.dcm": dicom(dark, **hounsfield),
        "3.dcm": dicom(image, photometric=b"MONOCHROME1", **hounsfield),
    })  # fmt: skip
    manifest = prepare(source, tmp_path / "out")
    assert manifest.origin.intake.levels == (-1024, 3071)
    assert manifest.origin.intake.found == {"header of DICOM": 6}
    assert manifest.origin.treatment == {"converted: DICOM": 6}
    found = stored(tmp_path / "out")
    wanted = (image.astype(float) * 255 / 4095 + 0.5).astype(np.uint8)
    assert (found["a/1.dcm"] == wanted).all()
    assert len(np.unique(found["a/1.dcm"])) == 256
    assert (found["a/3.dcm"] == 255 - wanted).all()
    assert found["a/2.dcm"].max() == 12
    assert manifest.origin.intake.narrow == 2
    window = prepare(source, tmp_path / "w", levels="0:1000")
    assert window.origin.intake.levels == (0, 1000)
    clipped = stored(tmp_path / "w")["a/1.dcm"]
    inside = (image - 1024.0) * 255 / 1000
    assert (clipped == np.clip(inside + 0.5, 0, 255).astype(np.uint8)).all()


def compressed(values, syntax):
    """A DICOM file in a compressed transfer syntax: RLE, or a format that Pillow writes."""
    from pydicom import dcmread, uid
    from pydicom.encaps import encapsulate

    file = dcmread(io.BytesIO(dicom(values, bits=8 if values.dtype == np.uint8 else 12)))
    if syntax == "RLELossless":
        file.compress(uid.RLELossless, values)
    else:
        buffer = io.BytesIO()
        if syntax == "JPEGBaseline8Bit":
            file.BitsAllocated = 8
            Image.fromarray(values).save(buffer, "JPEG", quality=95)
        else:
            Image.fromarray(values).save(buffer, "JPEG2000", no_jp2=True)
        file.PixelData = encapsulate([buffer.getvalue()])
        file["PixelData"].VR, file["PixelData"].is_undefined_length = "OB", True
        file.file_meta.TransferSyntaxUID = getattr(uid, syntax)
    written = io.BytesIO()
    file.save_as(written)
    return written.getvalue()


@needs_pydicom
@pytest.mark.parametrize("syntax", ["RLELossless", "JPEG2000Lossless"])
def test_lossless_compression_changes_no_pixel(tmp_path, syntax):
    files = {"1.dcm": dicom(ramp()), "2.dcm": compressed(ramp(), syntax)}
    prepare(folder(tmp_path, files), tmp_path / "out")
    found = stored(tmp_path / "out")
    assert (found["a/1.dcm"] == found["a/2.dcm"]).all()
    assert len(np.unique(found["a/2.dcm"])) == 256


@needs_pydicom
def test_jpeg_of_8_bits_is_read_by_pillow(tmp_path):
    image = ramp(255, np.uint8)
    file = compressed(image, "JPEGBaseline8Bit")
    prepare(folder(tmp_path, {"1.dcm": file, "2.dcm": file}), tmp_path / "out")
    found = stored(tmp_path / "out")["a/1.dcm"].astype(int)
    assert np.abs(found - image).max() <= 4


@needs_pydicom
def test_a_compression_without_a_decoder_is_rejected_by_its_name(tmp_path):
    known = compressed(ramp(), "JPEG2000Lossless")
    files = {f"plain-{number}.dcm": dicom(ramp()) for number in range(20)}
    # As long as the syntax that they replace.
    for name, other in (("3.dcm", b"80"), ("4.dcm", b"99")):
        files[name] = known.replace(b"1.2.840.10008.1.2.4.90", b"1.2.840.10008.1.2.4." + other)
    prepare(folder(tmp_path, files), tmp_path / "out", max_rejected="4", held_out=0.3)
    reasons = {row[1]: row[-1] for row in rejected(tmp_path / "out")}
    assert "is compressed as JPEG-LS Lossless" in reasons["a/3.dcm"]
    assert "is compressed in an unknown way" in reasons["a/4.dcm"]


@needs_pydicom
def test_the_window_of_a_file_is_used_if_asked_for(tmp_path):
    source = folder(tmp_path, {"1.dcm": dicom(ramp(), window=(1000, 400)), "2.dcm": dicom(ramp())})
    prepare(source, tmp_path / "out", levels="window")
    found = stored(tmp_path / "out")
    values = ramp().astype(int)
    assert (found["a/1.dcm"][values < 795] == 0).all()
    assert (found["a/1.dcm"][values > 1205] == 255).all()
    assert abs(int(np.median(found["a/1.dcm"][abs(values - 1000) < 3])) - 128) <= 2
    assert (found["a/2.dcm"] == (values * 255 / 4095 + 0.5).astype(np.uint8)).all()


def grey(values, bits, **tags):
    """A DICOM file of at most 8 bits, packed if it is of one."""
    from pydicom import dcmread

    file = dcmread(io.BytesIO(dicom(values)))
    file.BitsAllocated = 1 if bits == 1 else 8
    file.BitsStored, file.HighBit = bits, bits - 1
    packed = np.packbits(values.astype(bool), bitorder="little") if bits == 1 else values
    file.PixelData = packed.tobytes()
    for name, value in tags.items():
        setattr(file, name, value)
    written = io.BytesIO()
    file.save_as(written)
    return written.getvalue()


def converted(data, levels=None, *, window=False):
    single = Dicom().single(data, 0, 10_000, levels, window=window)
    return np.asarray(Image.open(io.BytesIO(single))).astype(int)


WINDOW = {"WindowCenter": 128, "WindowWidth": 20}


@needs_pydicom
@pytest.mark.parametrize("rescale", [{}, {"RescaleSlope": 1, "RescaleIntercept": 0}])
@pytest.mark.parametrize("photometric", ["MONOCHROME2", "MONOCHROME1"])
def test_the_window_of_an_image_of_8_bits_is_used(rescale, photometric):
    values = np.arange(256, dtype=np.uint8).reshape(16, 16)
    data = grey(values, 8, PhotometricInterpretation=photometric, **rescale, **WINDOW)
    result = converted(data, window=True).ravel()
    plain = converted(data, Levels(0, 255)).ravel()
    if photometric == "MONOCHROME1":
        result, plain = 255 - result, 255 - plain
    assert (plain == np.arange(256)).all()
    assert (result[:118] == 0).all()
    assert (result[138:] == 255).all()
    assert abs(result[128] - 128) <= 7


@needs_pydicom
def test_a_negative_slope_does_not_invert_a_window():
    data = dicom(ramp(), rescale=(4095, -1), window=(2048, 4096))
    result = converted(data, window=True)
    assert np.abs(result - converted(data, Levels(0, 4095))).max() <= 1
    assert result[0, 0] == 255


@needs_pydicom
@pytest.mark.parametrize("bits", [1, 2, 6, 8])
def test_few_bits_become_0_to_255(bits):
    most = (1 << bits) - 1
    values = np.resize(np.arange(most + 1, dtype=np.uint8), (16, 16))
    result = converted(grey(values, bits))
    assert (result == (values * (255 / most) + 0.5).astype(np.uint8)).all()


@needs_pydicom
def test_frames_names_and_patients(tmp_path):
    made = Planted()
    frames = np.stack([ramp(), ramp()[::-1]])
    for label in ("a", "b"):
        for patient in range(4):
            data = dicom(frames, made)
            path = tmp_path / "in" / label / f"{made.text('name')}.dcm"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            # Another file of the same patient.
            path.with_name(f"{made.text('again')}{patient}").write_bytes(data)
    manifest = prepare(tmp_path / "in", tmp_path / "out", pages="all", names="numbered",
                       group_by="tag:PatientID", held_out=0.25)  # fmt: skip
    counts = {name: split.examples for name, split in manifest.splits.items()}
    assert counts == {"train": 24, "validation": 8}
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert made.found_in(written) == []
    assert len(made.texts) > 60
    # The images of a group are equal here, and those of different groups are as well, so count.
    assert manifest.origin.intake.grouped
    with pytest.raises(DataError, match="has no group"):
        prepare(tmp_path / "in", tmp_path / "other", group_by="tag:PatientSex")


@needs_pydicom
def test_damaged_files_are_rejected_without_quoting(tmp_path):
    made = Planted()
    good = dicom(ramp(), made)
    files = {f"{at}.dcm": good[:at] for at in (140, 300, 700, 2000)} | {"good.dcm": good}
    huge = good.replace(struct.pack("<HH", 0x28, 0x11) + b"US\2\0\x40\0",
                        struct.pack("<HH", 0x28, 0x11) + b"US\2\0\xff\xff")  # fmt: skip
    files["huge.dcm"] = huge
    prepare(
        folder(tmp_path, {**files, "2.dcm": dicom(ramp())}), tmp_path / "out", max_rejected="90%"
    )
    reasons = [row[2] for row in rejected(tmp_path / "out")[1:]]
    assert len(reasons) == 10
    assert made.found_in(" ".join(reasons).encode()) == []


@pytest.mark.parametrize("big", [False, True])
def test_a_page_alone_is_a_file_of_one_page(big):
    buffer = io.BytesIO()
    first, *more = (Image.new("L", (size, size)) for size in (5, 6, 7))
    first.save(buffer, "TIFF", save_all=True, append_images=more, big_tiff=big)
    for page, size in enumerate((5, 6, 7)):
        single = open_image(alone(buffer.getvalue(), page))
        assert single.size == (size, size)
        assert single.n_frames == 1
    with pytest.raises(BrokenSegmentsError):
        alone(buffer.getvalue(), 3)


@pytest.mark.parametrize(("dtype", "photometric"), [(np.uint32, 1), (np.uint16, 0)])
def test_a_page_of_a_tiff_is_read_as_the_first_one_is(dtype, photometric):
    most = np.iinfo(dtype).max
    values = np.array([[0, most // 4 * 3, most]] * 2, dtype)
    data = tiff(values, photometric=photometric)
    before = len(tiff(values))
    both = tiff(values, further=before + 8) + tiff(values, photometric=photometric, begin=before)
    assert TiffPages().count(both) == 2
    single = TiffPages().single(both, 1, 99, None, window=False)
    levels = Levels(0, int(most))
    assert treat(single, levels=levels).data == treat(data, levels=levels).data
    assert (TiffPages().values(both, 1, 99) == values).all()


def test_a_smaller_copy_in_a_tiff_is_not_a_page():
    values = np.full((4, 4), 9, np.uint8)
    size = len(tiff(values))
    data = tiff(values, further=size + 8)
    data += tiff(values, begin=size, further=2 * size + 8, copy=1) + tiff(values, begin=2 * size)
    assert open_image(data).n_frames == 3
    assert TiffPages().count(data) == 2
    single = TiffPages().single(data, 1, 99, None, window=False)
    assert int.from_bytes(single[4:8], "little") == 2 * size + 8


def test_a_page_that_is_not_read_is_rejected_alone(tmp_path):
    first, bands = np.full((4, 4), 9, np.uint8), np.full((4, 4, 3), 9, np.uint16)
    before = len(tiff(first))
    both = tiff(first, further=before + 8) + tiff(bands, photometric=1, begin=before)
    files = {"a.tif": both, "b.tif": tiff(first)}
    prepare(folder(tmp_path, files), tmp_path / "out", pages="all", max_rejected="2")
    assert sorted(stored(tmp_path / "out")) == ["a/a.tif", "a/b.tif", "b/a.tif", "b/b.tif"]
    rows = rejected(tmp_path / "out")[1:]
    assert {row[1] for row in rows} == {"a/a#2.tif", "b/a#2.tif"}
    assert "is a TIFF of 3 bands of 16 bits that the file does not call RGB" in rows[0][2]


def test_each_page_of_a_tiff_is_an_image_if_asked_for(tmp_path):
    deep = [Image.fromarray(ramp()), Image.fromarray(ramp()[::-1].copy())]
    buffer = io.BytesIO()
    deep[0].save(buffer, "TIFF", save_all=True, append_images=deep[1:], tiffinfo={315: "Jane Doe"})
    assert TiffPages().count(buffer.getvalue()) == 2
    assert TiffPages().tag(buffer.getvalue(), "315") == "Jane Doe"
    source = folder(tmp_path, {"1.tif": buffer.getvalue()})
    prepare(source, tmp_path / "out", pages="all")
    found = stored(tmp_path / "out")
    assert sorted(found) == ["a/1#2.tif", "a/1.tif", "b/1#2.tif", "b/1.tif"]
    wanted = (ramp().astype(float) * 255 / 4095 + 0.5).astype(np.uint8)
    assert (found["a/1.tif"] == wanted).all()
    assert (found["b/1#2.tif"] == wanted[::-1]).all()
    assert load_manifest(tmp_path / "out").origin.intake.levels == (0, 4095)
    with pytest.raises(ConfigError, match="--group-by: is empty"):
        prepare(source, tmp_path / "none", group_by="tag:")
