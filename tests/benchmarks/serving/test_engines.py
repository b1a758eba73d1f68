"""Both engines get the same pixels, or their comparison would say nothing."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from werkzeug.formparser import parse_form_data
from werkzeug.test import EnvironBuilder

from benchmarks.serving.engines import pixels
from benchmarks.serving.load import form
from trainer.data.images import central_image


@pytest.mark.parametrize("shape", [(8, 8), (40, 60), (90, 50)])
@pytest.mark.parametrize("crop", [1.0, 0.875])
def test_pillow_crops_and_resizes_as_the_evaluation_does(shape, crop):
    noise = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, format="PNG")
    ours = central_image(tf.constant(buffer.getvalue()), 16, crop).numpy().astype(int)
    theirs = pixels(buffer.getvalue(), 16, crop).astype(int)
    assert np.abs(ours - theirs).max() <= 2


def test_the_form_of_a_large_request_holds_all_images():
    body, kind = form([b"first", b"second"])
    environ = EnvironBuilder(method="POST", data=body, content_type=kind).get_environ()
    _, _, files = parse_form_data(environ)
    assert [file.read() for _, file in files.items(multi=True)] == [b"first", b"second"]
