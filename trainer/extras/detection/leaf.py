"""The leaf of object detection. Standard library only."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from common.annotations import Bounds
from common.program import Command
from trainer.leaf import Leaf
from trainer.task_descriptions import (
    Answers,
    EmbeddedDataSet,
    Metric,
    Network,
    RowTarget,
    Suggestion,
    TaskDescription,
)

BOXES: Final = "image/object/boxes"
"""Key of the boxes of a record; see `trainer.extras.detection.boxes`."""
EXTRA: Final = 8
"""Outputs of a location besides those of the classes; see `trainer.extras.detection.network`."""


@dataclass(frozen=True)
class DetectionOptions:
    """The most objects of a record that a run which detects objects accepts."""

    boxes: Annotated[int, Bounds(at_least=1, at_most=1000)] = 100
    """Most boxes of an image; a record with more is an error. Each takes memory in every image of a
    batch, for every location of the network."""


def locations(size: int) -> int:
    """Return the locations of the pyramid P3 to P7 at an image size."""
    return sum((-(-size // stride)) ** 2 for stride in (8, 16, 32, 64, 128))


def _problems(config: Any) -> list[str]:
    if config.task != DETECTION.name:
        return []
    problems = []
    if config.data.eval_crop != 1.0:
        problems.append("--data.eval-crop: an evaluation sees whole images; set it to 1")
    if config.data.augment == "shift":
        problems.append("--data.augment: boxes are not shifted; use random-resized-crop or none")
    if config.optimizer.label_smoothing:
        problems.append("--optimizer.label-smoothing: the focal loss has no smoothing; set it to 0")
    return problems


_METRICS: Final = "trainer.extras.detection.metrics"

DETECTION: Final = TaskDescription(
    name="detection",
    code="trainer.extras.detection.task:Detection",
    targets="trainer.extras.detection.targets:Boxes",
    training=Metric("train_iou", "training IoU"),
    evaluation=(
        Metric("map", "mAP", f"{_METRICS}:ap_of_all"),
        Metric("map50", "mAP at 0.5", f"{_METRICS}:ap_at_half"),
        Metric("map_small", "mAP of small objects", f"{_METRICS}:ap_of_small"),
        Metric("map_medium", "mAP of medium objects", f"{_METRICS}:ap_of_medium"),
        Metric("map_large", "mAP of large objects", f"{_METRICS}:ap_of_large"),
    ),
    about=(
        "Mean average precision as COCO defines it, over IoU 0.5 to 0.95; sizes divide at 32 x 32"
        " and 96 x 96 pixels; 0 where there are no such objects."
    ),
    report="trainer.extras.detection.report:sections",
    per="location",
    logits=lambda size, outputs: [locations(size), outputs + EXTRA],
    answers=Answers(
        frozenset({"boxes", "scores", "class_ids", "class_names"}),
        "scores",
        "trainer.extras.detection.serving:read_answers",
        tabular=False,
        draw="trainer.extras.detection.drawing:draw_answers",
    ),
    embedded=EmbeddedDataSet("shapes", "trainer.extras.detection.data.shapes:records", 1600),
    suggestion=Suggestion("shapes", "fcos-small", images="objects"),
    features={BOXES: "trainer.extras.detection.boxes:stored_boxes_fault"},
    rows=RowTarget(
        BOXES,
        "trainer.extras.detection.data.rows:packed",
        frozenset({"bbox", "category"}),
        "category",
        ("xywh", "corners", "xywh-drop", "corners-drop"),
    ),
    prepare="prepare detection",
)

LEAF: Final = Leaf(
    key="detection",
    options=DetectionOptions,
    problems=_problems,
    task=DETECTION,
    networks={
        "fcos": Network(
            "trainer.extras.detection.network:build_fcos",
            64,
            "location",
            "FCOS, P3 to P7, on ResNet{depth} of width {width}",
            ("depth", "width", "stem"),
        ),
        "fcos-small": Network(
            "trainer.extras.detection.network:build_small_fcos",
            32,
            "location",
            "FCOS with three levels on ResNet{depth} of width {width}",
            ("depth", "width", "stem"),
        ),
    },
    presets={
        "shapes": "trainer.extras.detection.preset:SHAPES",
        "objects": "trainer.extras.detection.preset:OBJECTS",
    },
    commands=(
        Command(
            "prepare detection",
            "data",
            "write images and boxes of COCO or YOLO",
            "trainer.extras.detection.data.prepare:prepare_detection",
            "trainer.extras.detection.data.options:PrepareDetectionOptions",
        ),
        Command(
            "prepare shapes",
            "data",
            "write the embedded images with boxes: shapes on photographs",
            "trainer.data.builtin.writer:run",
            "trainer.extras.detection.data.options:PrepareShapesOptions",
        ),
    ),
)
