"""Image files of every kind: which are kept unchanged, the results for the others, and the pixels
that training reads.
"""

import io
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tests.trainer.support.data_sets.image_files import (
    exif,
    gradients,
    jpeg,
    orientation,
    saved,
    with_segment,
)
from tests.trainer.support.data_sets.image_samples import samples, unusable
from trainer.data.intake.rules import IntakeRules
from trainer.data.pixels.treatment import NoImageError, RejectedError, UnreadFormatError
from trainer.data.prepare.encode import Rules, encode, may_be_image
from trainer.data.prepare.input_files import ImageFile

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

RULES = Rules(50_000_000)
SAMPLES = samples()
UNUSABLE = unusable()


def decoded(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def taken(data, rules):
    """What becomes of an image; none if it is rejected."""
    try:
        return encode(data, "a", rules)
    except RejectedError as error:
        # Reasons are listed in a file, so they may not tell where something lay in memory.
        if " at 0x" in str(error):
            raise
        return None


# 1. Accepted files.


@pytest.mark.parametrize("kind", SAMPLES)
def test_an_image_is_kept_to_the_byte_or_converted(kind):
    sample = SAMPLES[kind]
    found = encode(sample.data, sample.name, RULES)
    assert found.treatment == sample.treatment
    assert (found.data == sample.data) == sample.kept
    assert (found.height, found.width) == sample.pixels.shape[:2]
    assert found.format == ("PNG" if found.data.startswith(b"\x89PNG") else "JPEG")
    difference = np.abs(decoded(found.data) - sample.pixels)
    assert difference.shape == sample.pixels.shape
    assert difference.mean() <= 3


@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if "JPEG" in kind])
def test_a_jpeg_whose_header_says_all_is_kept_as_pillow_would_have_it(kind, monkeypatch):
    sample = SAMPLES[kind]
    quickly = encode(sample.data, sample.name, RULES)
    monkeypatch.setattr("trainer.data.pixels.treatment.plain_jpeg", lambda _: None)
    assert encode(sample.data, sample.name, RULES) == quickly


def test_a_plain_jpeg_is_not_looked_at_by_pillow(monkeypatch):
    monkeypatch.setattr(Image, "open", None)
    for kind in ("JPEG", "grey JPEG", "JPEG in RGB", "progressive JPEG"):
        assert encode(SAMPLES[kind].data, "a.jpg", RULES).treatment == SAMPLES[kind].treatment


@pytest.mark.slow
def test_the_reader_of_training_sees_what_a_person_would_see():
    # Imported here, as it takes seconds and the other tests do without.
    import tensorflow as tf

    from trainer.data.images import central_image

    far = {}
    for kind, sample in SAMPLES.items():
        found = central_image(tf.constant(encode(sample.data, sample.name, RULES).data), 24, 1.0)
        height, width = sample.pixels.shape[:2]
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        square = sample.pixels[top : top + side, left : left + side]
        wanted = tf.image.resize(square, [24, 24]).numpy()
        difference = np.abs(found.numpy() - wanted).mean()
        if difference > 3:
            far[kind] = difference
    assert not far


@pytest.mark.parametrize("value", range(1, 9))
def test_an_orientation_is_undone_as_pillow_undoes_it(value):
    data = with_segment(jpeg(gradients(31, 50)), 0xE1, exif(orientation(value)))
    found = encode(data, "a.jpg", RULES)
    wanted = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    assert (found.width, found.height) == wanted.size
    assert np.abs(decoded(found.data) - np.asarray(wanted)).mean() <= 2
    assert "Orientation" not in str(Image.open(io.BytesIO(found.data)).getexif())


def test_all_16_bits_of_grey_are_rounded():
    levels = np.arange(0, 65536, 16, np.uint16).reshape(64, 64)
    levels[-1, -1] = 65535
    found = encode(saved(Image.fromarray(levels), "PNG"), "a.png", RULES)
    # The mean is kept, which cutting off would lower by half a level.
    assert decoded(found.data).mean() == pytest.approx((levels / 257).mean(), abs=0.1)


def test_a_converted_image_carries_nothing_but_pixels():
    tagged = saved(Image.fromarray(gradients()), "GIF", comment=b"secret")
    assert b"secret" not in encode(tagged, "a.gif", RULES).data


# 2. Refused files.


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_file_that_is_no_usable_image_is_rejected(kind):
    name, data, reason = UNUSABLE[kind]
    # By its name, a text need not be an image at all.
    error, reason = (NoImageError, "by its name") if kind == "a text" else (RejectedError, reason)
    with pytest.raises(error, match=reason):
        encode(data, name, RULES)


@pytest.mark.parametrize("suffix", ["HEIC", "heif", "CR2", "nef", "arw", "dng", "jxl"])
@pytest.mark.parametrize("content", [b"?" * 60, b"II*\0", SAMPLES["TIFF"].data])
def test_an_image_of_a_kind_that_is_not_read_is_rejected_with_the_cure(suffix, content):
    file = ImageFile("", f"a.{suffix}", 0, "", 0, 0)
    with pytest.raises(RejectedError) as refused:
        IntakeRules().encoded(content, file, RULES)
    # As an image, which counts, and not as another kind of file.
    assert not isinstance(refused.value, NoImageError)
    assert str(refused.value) == (
        f"is an image of a kind that is not read (.{suffix.lower()}); convert it to JPEG or PNG"
    )
    assert may_be_image(f"a.{suffix}")


def test_a_jpeg_that_is_named_as_heic_is_a_jpeg():
    whole = jpeg(gradients())
    assert encode(whole, "IMG_1.HEIC", RULES).data == whole


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x0aftypmif1", "HEIC"),
        (b"\0\0\0\x1cftypavif\0\0\0\0mif1", "AVIF"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
        (b"\xff\x0a\x7f", "JPEG XL"),
    ],
)
@pytest.mark.parametrize("name", ["a", "a.jpg", "a.strange"])
def test_a_known_kind_that_is_not_read_is_named_by_its_content(begin, kind, name):
    with pytest.raises(UnreadFormatError, match=f"is in {kind}, which is not read; convert it to"):
        encode(begin + bytes(40), name, RULES)


def test_an_image_of_as_many_pixels_as_allowed_is_taken():
    data = saved(Image.fromarray(gradients()), "PNG")
    assert encode(data, "a.png", Rules(60 * 40)).data == data
    with pytest.raises(RejectedError, match=r"at most 2,399 are accepted \(--max-pixels\)"):
        encode(data, "a.png", Rules(60 * 40 - 1))


def test_a_part_of_a_file_is_rejected_or_shows_the_whole_image():
    # What says how this one is turned is cut off before its pixels are.
    kinds = SAMPLES.keys() - {"turned PNG, which says so at its end"}
    for kind in kinds:
        sample = SAMPLES[kind]
        size = len(sample.data)
        for end in sorted({*range(1, size, max(size // 40, 1)), *range(size - 9, size)}):
            found = taken(sample.data[:end], RULES)
            if found:
                difference = np.abs(decoded(found.data) - sample.pixels)
                assert difference.mean() <= 3, (kind, end)


def test_a_damaged_file_is_taken_or_rejected_but_never_ends_the_command():
    source = random.Random(0)
    kinds = sorted(SAMPLES)
    for _ in range(2000):
        data = bytearray(SAMPLES[source.choice(kinds)].data)
        reach = source.choice([100, len(data)])
        for _ in range(source.randrange(1, 6)):
            data[source.randrange(min(len(data), reach))] ^= source.randrange(1, 256)
        found = taken(bytes(data), Rules(100_000, source.choice([None, 24])))
        assert not found or found.data[:3] in (b"\xff\xd8\xff", b"\x89PN")


# 3. Encoded again.


def again(pixels, side, quality=90, **options):
    return encode(jpeg(pixels, **options), "a.jpg", Rules(50_000_000, side, quality))


@settings(max_examples=60)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 120))
def test_the_short_side_becomes_what_was_asked_for_and_the_aspect_stays(height, width, side):
    found = again(gradients(height, width), side)
    short = min(height, width)
    assert min(found.height, found.width) == min(side, short)
    scale = min(1, side / short)
    # Within a pixel, and what rounding up a JPEG's size at an eighth adds.
    assert abs(found.height - height * scale) <= 1 + height * scale / 100
    assert abs(found.width - width * scale) <= 1 + width * scale / 100
    assert Image.open(io.BytesIO(found.data)).size == (found.width, found.height)


@pytest.mark.parametrize("shape", [(40, 60), (24, 24), (24, 300)])
def test_no_image_is_enlarged(shape):
    found = again(gradients(*shape), 500)
    assert (found.height, found.width) == shape
    assert found.treatment == "encoded again: JPEG"


def test_the_quality_is_the_one_asked_for():
    for quality in (30, 75, 90):
        found = Image.open(io.BytesIO(again(gradients(), 24, quality).data))
        wanted = Image.open(io.BytesIO(saved(Image.new("RGB", (8, 8)), "JPEG", quality=quality)))
        assert found.quantization == wanted.quantization


def test_a_shrunk_image_shows_the_same():
    pixels = gradients(700, 1000)
    found = again(pixels, 64)
    wanted = Image.fromarray(pixels).resize((found.width, found.height), Image.Resampling.BOX)
    assert np.abs(decoded(found.data) - np.asarray(wanted)).mean() <= 3


def test_a_turned_image_is_shrunk_upright():
    lying = np.ascontiguousarray(np.rot90(gradients(400, 600)))
    data = with_segment(jpeg(lying), 0xE1, exif(orientation(6)))
    found = encode(data, "a.jpg", Rules(50_000_000, 40))
    assert (found.height, found.width) == (40, 60)
    assert found.treatment == "encoded again: JPEG, turned upright"
    assert np.abs(decoded(found.data) - gradients(40, 60)).mean() <= 4
