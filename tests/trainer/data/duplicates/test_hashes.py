"""Hashes of images, and the search for pairs against all pairs."""

import io

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter

from trainer.data.duplicates.hashes import perceptual_hash


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
