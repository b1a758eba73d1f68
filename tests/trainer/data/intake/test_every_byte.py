"""Nothing that a decoder does not read stays in a JPEG or PNG, wherever it was planted."""

import io
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.trainer.support.data_sets.image_files import chunk, saved, segment
from trainer.data.intake.jpeg import segments as jpeg
from trainer.data.intake.metadata import BrokenSegmentsError, strip

TEXT = "Müller, Jürgen"
CODES = ("utf-8", "utf-16-le", "utf-16-be", "latin-1")


def smooth(width: int, height: int, seed: int = 0, noise: int = 40) -> Image.Image:
    chance = np.random.default_rng(seed)
    few = chance.normal(128, noise, (height // 8 + 2, width // 8 + 2, 3)).clip(0, 255)
    return Image.fromarray(few.astype(np.uint8)).resize((width, height), 3)


def pixels(data: bytes) -> list[int]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).ravel().tolist()


JPEGS = {
    "baseline": {},
    "optimized": {"optimize": True},
    "restarts": {"restart_marker_blocks": 3},
    "progressive": {"progressive": True},
    "large colours": {"subsampling": 0, "quality": 98},
    "low quality": {"quality": 5},
}


def scans(data: bytes) -> list[int]:
    """Offsets of the markers behind the entropy-coded bytes."""
    found, at = [], data.find(b"\xff\xda")
    while at >= 0:
        found.append(jpeg._scan_end(data, at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")))
        at = data.find(b"\xff\xda", found[-1])
    return found


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("kind", JPEGS)
def test_bytes_behind_the_last_block_of_any_scan_are_cut(kind, code):
    data = saved(smooth(90, 70), "JPEG", **JPEGS[kind])
    assert strip(data).data is data
    planted = TEXT.encode(code)
    for at in scans(data):
        stripped = strip(data[:at] + planted + data[at:])
        assert stripped.data == data
        assert stripped.removed == ("bytes after the image",)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 70), st.integers(1, 70), st.integers(0, 99), st.integers(0, 90)),
    st.integers(1, 100),
    st.sampled_from([0, 1, 2]),
    st.sampled_from(["", "optimize", "progressive", "restart_marker_rows"]),
    st.booleans(),
    st.binary(min_size=1, max_size=12).map(lambda some: some.replace(b"\xff", b"\xfe")),
)
def test_no_byte_too_many_and_none_too_few_is_cut(size, quality, sampling, option, grey, more):
    image = smooth(*size).convert("L" if grey else "RGB")
    options = {option: 1} if option else {}
    data = saved(image, "JPEG", quality=quality, subsampling=sampling, **options)
    assert strip(data).data is data
    assert strip(data[:-2] + more + data[-2:]).data == data


def test_the_codes_tell_the_same_as_another_last_byte():
    """The two ways of `cuts` agree, and the fast one decides nearly always."""
    fast = 0
    for seed in range(100):
        data = saved(smooth(33 + seed, 40, seed, seed), "JPEG", quality=20 + 3 * (seed % 26))
        begin = data.index(b"\xff\xda")
        begin += 2 + int.from_bytes(data[begin + 2 : begin + 4], "big")
        fast += jpeg._Pixels(data).need_last_byte(begin, len(data) - 2)
        for surplus in (b"a", b"\0", b"\xfe", b"\x7f\x7f"):
            longer = data[:-2] + surplus + data[-2:]
            assert not jpeg._Pixels(longer).need_last_byte(begin, len(longer) - 2)
    assert fast > 90


def test_segments_that_no_decoder_reads_are_cut():
    data = saved(smooth(50, 40), "JPEG", dpi=(72, 72))
    scan, text = data.index(b"\xff\xda"), TEXT.encode()
    table = data.index(b"\xff\xdb")
    places = {
        "number of lines": (scan, segment(0xDC, text)),
        "unused quantization": (scan, segment(0xDB, b"\3" + text.ljust(64))),
        "quantization that is replaced": (table, segment(0xDB, b"\0" + text.ljust(64))),
        "unused codes": (
            scan,
            segment(0xC4, b"\x13" + bytes((0, 0, 0, len(text), *bytes(12))) + text),
        ),
        "restarts that are replaced": (scan, segment(0xDD, b"Ju") + segment(0xDD, b"\0\0")),
        "arithmetic conditioning": (scan, segment(0xCC, text)),
        "markers alone": (scan, b"\xff\x01\xff\xd0\xff\xd7"),
        "fill bytes": (scan, b"\xff\xff\xff"),
    }
    for place, (at, planted) in places.items():
        stripped = strip(data[:at] + planted + data[at:]).data
        rest = stripped.replace(segment(0xDD, b"\0\0"), b"")
        assert (place, rest) == (place, data)
    both = segment(0xDB, b"\0" + bytes(range(1, 65)) + b"\3" + text.ljust(64))
    assert TEXT.encode() not in strip(data[:scan] + both + data[scan:]).data
    with pytest.raises(BrokenSegmentsError, match="damaged table"):
        strip(data[:scan] + segment(0xDD, b"\0\0" + text) + data[scan:])


def test_fields_that_no_decoder_reads_are_neutral():
    plain = saved(smooth(50, 40), "JPEG")
    body = plain[20:]
    odd = segment(0xE0, b"JFIF\0JUJurge\0\0")
    assert strip(plain[:2] + odd + body).data == plain
    for density in (b"\1\0\x48\0\x48", b"\2\0\x1c\0\x1c", b"\0\0\1\0\1"):
        usual = plain[:2] + segment(0xE0, b"JFIF\0\1\2" + density + b"\0\0") + body
        assert strip(usual).data is usual
    adobe = saved(smooth(50, 40), "JPEG", keep_rgb=True)
    at = adobe.index(b"Adobe")
    named = adobe[: at + 5] + b"Jurgen" + adobe[at + 11 :]
    assert strip(adobe).data is adobe
    assert strip(named).data == adobe


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1"])
def test_a_png_ends_with_its_last_row(mode, code):
    image = smooth(47, 33).convert(mode) if mode != "P" else smooth(47, 33).quantize(16)
    data = saved(image, "PNG")
    assert strip(data).data == data
    at, planted = data.index(b"IDAT") - 4, TEXT.encode(code)
    stored = data[at + 8 : at + 8 + int.from_bytes(data[at : at + 4], "big")]
    before, after = data[:at], data[at + 12 + len(stored) :]
    rows = zlib.decompress(stored)
    places = {
        "behind the stream": before + chunk(b"IDAT", stored + planted) + after,
        "a further chunk": before + chunk(b"IDAT", stored) + chunk(b"IDAT", planted) + after,
        "further rows": before + chunk(b"IDAT", zlib.compress(rows + planted * 90, 0)) + after,
        "densities": before + chunk(b"pHYs", planted[:9].ljust(9)) + data[at:],
        "colours": before + chunk(b"cHRM", planted.ljust(32)) + data[at:],
        "gamma": before + chunk(b"gAMA", planted[:4]) + data[at:],
        "profile twice": before + chunk(b"gAMA", b"\0\0\xb1\x8f") * 2 + data[at:],
    }
    if mode != "P":
        places["palette"] = before + chunk(b"PLTE", planted.ljust(30)) + data[at:]
    for place, given_ in places.items():
        stripped = strip(given_)
        assert stripped.data != given_, place
        assert planted not in stripped.data, place
        assert pixels(stripped.data) == pixels(data), place
    with pytest.raises(BrokenSegmentsError, match="damaged pixels"):
        strip(before + chunk(b"IDAT", zlib.compress(rows[:-5])) + after)


def test_colours_of_a_palette_that_no_pixel_has_become_black():
    image = smooth(47, 33).quantize(16)
    colours = (image.getpalette() or [])[:48]
    image.putpalette([*colours, *TEXT.encode("latin-1").ljust(48)])
    data = saved(image, "PNG")
    assert TEXT.encode("latin-1") in data
    stripped = strip(data)
    assert TEXT.encode("latin-1") not in stripped.data
    assert pixels(stripped.data) == pixels(data)
    assert strip(stripped.data).data is stripped.data


def test_an_interlaced_png_is_measured_by_its_passes():
    """Pillow writes none, so this one is made of the rows of each pass."""
    width, height = 13, 9
    grey = np.asarray(smooth(width, height).convert("L"))
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
              (0, 1, 1, 2))  # fmt: skip
    rows = b"".join(
        b"\0" + row.tobytes()
        for left, top, across, down in passes
        for row in grey[top::down, left::across]
        if row.size
    )
    header = b"\0\0\0\x0d\0\0\0\x09\x08\0\0\0\1"

    def image(content: bytes) -> bytes:
        parts = (chunk(b"IHDR", header), chunk(b"IDAT", content), chunk(b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(parts)

    data = image(zlib.compress(rows))
    assert (np.asarray(Image.open(io.BytesIO(data))) == grey).all()
    assert strip(data).data is data
    longer = image(zlib.compress(rows + TEXT.encode() * 9, 0))
    assert TEXT.encode() not in strip(longer).data
