"""Random cases of COCO's metric, and what pycocotools says of them.

pycocotools is in no lock: in an environment that has it and NumPy, this program writes
coco_cases.json again, and tells the largest difference from what is there.

    python3 -m venv /tmp/coco && /tmp/coco/bin/pip install pycocotools numpy
    /tmp/coco/bin/python tests/trainer/extras/detection/coco_cases.py
"""

import contextlib
import io
import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("coco_cases.json")
COUNT = 1000


def case(number):
    """Images with objects (corners, class, crowd, area) and predictions (corners, score, class)."""
    noise = np.random.default_rng(number)
    classes = int(noise.integers(1, 4))
    whole = noise.random() < 0.5
    images = []
    for _ in range(noise.integers(1, 5)):
        count, more = noise.integers(0, 9), noise.integers(0, 6)
        corner, side = noise.uniform(0, 300, [count, 2]), noise.uniform(2, 180, [count, 2])
        objects = np.concatenate([corner, corner + side], 1)
        moved = objects + noise.normal(0, noise.choice([0.5, 4, 15]), objects.shape)
        corner, side = noise.uniform(0, 300, [more, 2]), noise.uniform(2, 180, [more, 2])
        found = np.concatenate([moved, np.concatenate([corner, corner + side], 1)])
        found[:, 2:] = np.maximum(found[:, 2:], found[:, :2] + 1)
        if whole:
            objects, found = np.round(objects), np.round(found)
        labels = noise.integers(0, classes, count)
        sides = objects[:, 2:] - objects[:, :2]
        areas = sides.prod(1) * noise.choice([1.0, 0.6], count)
        found_labels = np.concatenate([labels, noise.integers(0, classes, more)])
        # Some have the score of another one, and some the wrong class.
        scores = np.round(noise.random(count + more), int(noise.choice([1, 6])))
        wrong = noise.random(count + more) < 0.15
        found_labels[wrong] = noise.integers(0, classes, wrong.sum())
        images.append(
            {
                "objects": objects,
                "classes": labels,
                "crowd": noise.random(count) < 0.15,
                "areas": areas,
                "found": found,
                "scores": scores,
                "found_classes": found_labels,
            }
        )
    return images, classes


def by_pycocotools(images, classes):
    """mAP, at 0.5, and of small, medium and large objects."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def boxes(corners):
        return np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1).tolist()

    data = {
        "images": [{"id": number + 1} for number in range(len(images))],
        "categories": [{"id": label} for label in range(classes)],
        "annotations": [],
    }
    results = []
    for number, image in enumerate(images, 1):
        columns = ("classes", "crowd", "areas")
        rows = zip(boxes(image["objects"]), *(image[key].tolist() for key in columns), strict=True)
        data["annotations"] += [
            {"image_id": number, "bbox": box, "category_id": label, "iscrowd": int(crowd),
             "area": area}
            for box, label, crowd, area in rows
        ]  # fmt: skip
        columns = ("scores", "found_classes")
        rows = zip(boxes(image["found"]), *(image[key].tolist() for key in columns), strict=True)
        results += [
            {"image_id": number, "bbox": box, "score": score, "category_id": label}
            for box, score, label in rows
        ]
    for number, annotation in enumerate(data["annotations"], 1):
        annotation["id"] = number
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = data
        truth.createIndex()
        if results:
            predicted = truth.loadRes(results)
        else:
            predicted = COCO()
            predicted.dataset = {**data, "annotations": []}
            predicted.createIndex()
        run = COCOeval(truth, predicted, "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    # AP, AP at 0.5, at 0.75, and of the three sizes.
    return [float(value) for value in run.stats[[0, 1, 3, 4, 5]]]


if __name__ == "__main__":
    expected = [by_pycocotools(*case(number)) for number in range(COUNT)]
    if FILE.exists():
        kept = np.array(json.loads(FILE.read_text()))
        print("largest difference from what was kept:", np.abs(kept - expected).max())
    rows = ",\n".join(json.dumps([round(value, 9) for value in row]) for row in expected)
    FILE.write_text(f"[\n{rows}\n]\n")
