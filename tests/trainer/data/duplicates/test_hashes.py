"""Hashes of images, and the search for pairs against all pairs."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageFilter

from trainer.data.duplicates import hashes
from trainer.data.duplicates.hashes import BITS, find_matches, perceptual_hash


def scene(seed, size=(240, 180)):
    """An image with large and small shapes."""
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def encode(image, kind="JPEG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def bits(one, other):
    return (perceptual_hash(one) ^ perceptual_hash(other)).bit_count()


CHANGES = {
    "the same": lambda image: encode(image, quality=90),
    "PNG": lambda image: encode(image, "PNG"),
    "low quality": lambda image: encode(image, quality=30),
    "smaller": lambda image: encode(image.resize((90, 70)), quality=90),
    "brighter": lambda image: encode(ImageEnhance.Brightness(image).enhance(1.1), quality=90),
    "blurred": lambda image: encode(image.filter(ImageFilter.GaussianBlur(2)), quality=90),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_image_that_was_changed_a_little_is_near(change):
    distances = [bits(encode(scene(s), quality=95), CHANGES[change](scene(s))) for s in range(12)]
    assert max(distances) <= 4


def test_other_images_and_mirrored_ones_are_not_near():
    many = [encode(scene(seed)) for seed in range(30)]
    others = [bits(a, b) for n, a in enumerate(many) for b in many[:n]]
    assert min(others) > 6
    assert bits(many[0], encode(scene(0).transpose(Image.Transpose.FLIP_LEFT_RIGHT))) > 6


@pytest.mark.parametrize("data", [b"", b"not an image", encode(Image.new("RGB", (40, 40), "grey"))])
def test_an_image_of_one_level_or_that_cannot_be_decoded_has_no_hash(data):
    assert perceptual_hash(data) is None


def every_pair(training, held_out, distance):
    found = []
    for place, own in enumerate(held_out.tolist()):
        near = [((own ^ other).bit_count(), n) for n, other in enumerate(training.tolist())]
        if near and min(near)[0] <= distance:
            found.append((place, min(near)[1], min(near)[0]))
    return found


@given(st.integers(0, 2**32), st.integers(0, 6), st.sampled_from([1, 5, 1 << 20]))
def test_the_nearest_of_all_pairs_is_found_whatever_fits_into_memory(seed, distance, pairs):
    noise = np.random.default_rng(seed)
    training = noise.integers(0, 1 << 63, 40, np.uint64)
    held_out = np.concatenate([training[:10], noise.integers(0, 1 << 63, 5, np.uint64)])
    for place in range(10):
        for bit in noise.choice(BITS, noise.integers(0, 9), replace=False):
            held_out[place] ^= np.uint64(1) << np.uint64(bit)
    training[30] = training[3]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashes, "_PAIRS", pairs)
        found = find_matches(training, held_out, distance)
    columns = (found.held_out, found.training, found.distance)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert rows == every_pair(training, held_out, distance)


def test_a_split_without_hashes_has_no_pairs():
    some, none = np.array([1, 2], np.uint64), np.array([], np.uint64)
    assert len(find_matches(some, none, 4).held_out) == 0
    assert len(find_matches(none, some, 4).held_out) == 0
