"""COCO's metric equals pycocotools, whose figures for 1,000 random cases are kept next to this
file.
"""

import json

import numpy as np

from tests.trainer.extras.detection import coco_cases
from trainer.extras.detection.average_precision import Image, average_precision


def figures(images, classes):
    found = average_precision([Image(**image) for image in images], classes)
    sizes = (found.mean(size) for size in ("small", "medium", "large"))
    return [found.mean(), found.mean(threshold=0.5), *sizes]


def test_figures_of_a_thousand_random_cases_are_those_of_pycocotools():
    expected = np.array(json.loads(coco_cases.FILE.read_text()))
    assert expected.shape == (1000, 5)
    # Cases that tell something: all sizes occur, and most figures are neither 0 nor 1.
    assert ((expected > 0) & (expected < 1)).mean() > 0.3
    found = [figures(*coco_cases.case(number)) for number in range(len(expected))]
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)


def test_the_order_of_images_does_not_matter_where_scores_differ():
    images, classes = coco_cases.case(14)
    for image in images:
        image["scores"] = np.random.default_rng(len(image["scores"])).random(len(image["scores"]))
    scores = np.concatenate([image["scores"] for image in images])
    assert len(set(scores)) == len(scores)
    assert figures(images[::-1], classes) == figures(images, classes)
