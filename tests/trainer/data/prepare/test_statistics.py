"""Sums of pixels, and the normalization that follows from them."""

from PIL import Image

from tests.trainer.support.data_sets.records import noise_record
from trainer.data.manifest import Normalization
from trainer.data.pixels.encoded_image import open_stored
from trainer.data.prepare.statistics import PixelSums


def test_sums_of_pixels_add_up_in_any_order_and_survive_json():
    images = [open_stored(noise_record(number, 0).encoded) for number in range(4)]
    whole, parts = PixelSums(), [PixelSums() for _ in images]
    for image, part in zip(images, parts, strict=True):
        whole.add(image)
        part.add(image)
    merged = PixelSums()
    for part in reversed(parts):
        merged.merge(part)
    assert merged == whole


def test_a_channel_that_never_changes_has_the_standard_deviation_1():
    sums = PixelSums()
    sums.add(Image.new("RGB", (8, 8), (9, 0, 255)))
    assert sums.normalization() == Normalization((9.0, 0.0, 255.0), (1.0, 1.0, 1.0))
