"""Removal of metadata: no text stays, no pixel changes, and no damaged file is a crash."""

import io
import json
import random
import shutil
import subprocess
import tracemalloc
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

from tests.trainer.support.data_sets.image_files import chunk, saved, segment
from tests.trainer.support.data_sets.planted import pixels, planted, profile
from trainer.data.intake.colour_profile import colours_only
from trainer.data.intake.jpeg import segments as jpeg
from trainer.data.intake.metadata import BrokenSegmentsError, kinds, strip

STRIPPED = ("plain.jpg", "progressive.jpeg", "text.png", "picture.webp", "drawn.gif")


def decoded(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("name", STRIPPED)
def test_no_text_stays_and_pixels_are_equal(name):
    made = planted()
    data = made.files[name]
    assert len(made.found_in(data)) >= 2
    stripped = strip(data)
    assert made.found_in(stripped.data) == []
    assert (decoded(stripped.data) == decoded(data)).all()
    assert stripped.removed == kinds(data) != ()
    again = strip(stripped.data)
    assert again.data is stripped.data
    assert again.removed == ()


def test_kinds_are_counted_by_name():
    files = planted().files
    assert kinds(files["plain.jpg"]) == (
        "EXIF", "IPTC", "XMP", "bytes after the image", "comment", "further images", "other data",
        "texts of a colour profile", "thumbnail",
    )  # fmt: skip
    assert kinds(files["text.png"]) == (
        "EXIF", "XMP", "bytes after the image", "other data", "text", "texts of a colour profile",
        "time",
    )  # fmt: skip
    assert kinds(files["scan.tif"]) == ("IPTC", "XMP", "text", "texts of a colour profile")
    assert kinds(b"BM and so on") == ()


def test_an_image_without_metadata_is_the_same_object():
    for kind in ("JPEG", "PNG"):
        data = saved(pixels(), kind)
        assert strip(data).data is data


def test_transforms_of_colours_stay():
    """Without Adobe's segment, a JPEG in RGB would be read as YCbCr."""
    data = saved(pixels(), "JPEG", keep_rgb=True, comment=b"Doe")
    stripped = strip(data).data
    assert b"Adobe" in stripped
    assert (decoded(stripped) == decoded(data)).all()
    grey = saved(pixels().convert("L"), "PNG", gamma=0.5)
    assert strip(grey).data is grey


def test_a_colour_profile_keeps_its_colours():
    given = profile("Jane Doe")
    kept = colours_only(given)
    assert kept
    assert len(kept) < len(given)
    lab = ImageCms.createProfile("LAB")
    image = pixels()
    transforms = [
        ImageCms.buildTransform(ImageCms.ImageCmsProfile(io.BytesIO(p)), lab, "RGB", "LAB")
        for p in (given, kept)
    ]
    before, after = (np.asarray(ImageCms.applyTransform(image, t)) for t in transforms)
    assert (before == after).all()
    assert colours_only(kept) == kept
    assert colours_only(given[:200]) is None


def test_a_profile_in_several_segments_is_one():
    text = "Doe" * 30_000
    parts = profile(text)
    chunks = [parts[at : at + 65_000] for at in range(0, len(parts), 65_000)]
    assert len(chunks) > 1
    plain = saved(pixels(), "JPEG")
    segments = (
        segment(0xE2, b"ICC_PROFILE\0" + bytes((n, len(chunks))) + c)
        for n, c in enumerate(chunks, 1)
    )
    stripped = strip(plain[:2] + b"".join(segments) + plain[2:])
    found = Image.open(io.BytesIO(stripped.data)).info["icc_profile"]
    assert found == colours_only(parts)
    incomplete = plain[:2] + segment(0xE2, b"ICC_PROFILE\0\1\2" + chunks[0]) + plain[2:]
    assert strip(incomplete).removed == ("damaged colour profile",)
    assert strip(incomplete).data == plain


def test_a_packed_profile_cannot_exhaust_the_memory():
    bomb = chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(200_000_000), 9))
    plain = saved(pixels(), "PNG")
    tracemalloc.start()
    stripped = strip(plain[:33] + bomb + plain[33:])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert stripped.data == plain
    assert peak < 20_000_000


@pytest.mark.parametrize("count", [800, pytest.param(4000, marks=pytest.mark.long)])
def test_damaged_files_are_refused_or_stripped(count):
    """Truncated, flipped and overwritten with lengths of 4 GB: nothing but the one error."""
    made, chance, refused = planted(), random.Random(0), list[str]()
    originals = [data for name, data in made.files.items() if name != "scan.tif"]
    tiff = made.files["scan.tif"]
    for number in range(count):
        data = bytearray(tiff if number % 10 == 9 else chance.choice(originals))
        kind = number % 4
        if kind == 0:
            del data[chance.randrange(4, len(data)) :]
        for _ in range(chance.randrange(1, 12)):
            at = chance.randrange(4, max(5, len(data) - 4))
            if kind == 1:
                data[at : at + 4] = b"\xff\xff\xff\xff"
            elif kind == 2:
                data[at : at + 4] = bytes(4)
            elif kind == 3:
                data[at : at + 1] = bytes((chance.randrange(256),))
        tracemalloc.start()
        try:
            assert kinds(bytes(data)) is not None
            if number % 10 != 9:
                assert len(strip(bytes(data)).data) <= len(data) + 200
        except BrokenSegmentsError as error:
            refused.append(str(error))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12 * len(data) + 8_500_000
    assert 0.1 < len(refused) / count < 0.95
    assert made.found_in(" ".join(refused).encode()) == []


def test_what_exiftool_reads_has_no_text(tmp_path):
    if not shutil.which("exiftool"):
        pytest.skip("exiftool is not installed (Debian: libimage-exiftool-perl)")
    made = planted()
    for name in STRIPPED:
        (tmp_path / name).write_bytes(made.files[name])
    command = ["exiftool", "-json", "-a", "-u", "-U", "-G1", "-b", *STRIPPED]

    def read() -> list[dict[str, object]]:
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
        assert run.stdout
        found = json.loads(run.stdout.decode(errors="replace"))
        return [one for one in found if isinstance(one, dict)]

    assert len(made.found_in(json.dumps(read()).encode())) > 20
    for name in STRIPPED:
        (tmp_path / name).write_bytes(strip(made.files[name]).data)
    after = read()
    assert made.found_in(json.dumps(after).encode()) == []
    groups = {key.partition(":")[0] for one in after for key in one}
    assert not {group for group in groups if group.startswith(("IFD", "XMP", "IPTC", "Photoshop"))}


@pytest.mark.parametrize("restarts", [b"", b"\xff\xd3"])
@pytest.mark.parametrize("beyond", [-2, -1, 0, 1])
def test_the_end_of_a_long_scan_is_found_wherever_windows_meet(beyond, restarts):
    codes = (restarts + b"\x12\xff\x00").ljust(2 * jpeg._WINDOW + beyond, b"\x34")
    image = b"\xff\xd8" + codes + b"\xff\xd9"
    assert jpeg._scan_end(image + b"behind", 2) == 2 + len(codes)
