"""The leaf of semantic segmentation. Standard library only."""

from typing import Final

from common.program import Command
from trainer.leaf import Leaf
from trainer.task_descriptions import (
    Answers,
    EmbeddedDataSet,
    Metric,
    Network,
    Suggestion,
    TaskDescription,
)

MASK: Final = "image/segmentation/class/encoded"
"""Key of a mask with the class of each pixel, as in TensorFlow's DeepLab."""

_METRICS: Final = "trainer.extras.segmentation.metrics"

SEGMENTATION: Final = TaskDescription(
    name="segmentation",
    code="trainer.extras.segmentation.task:Segmentation",
    targets="trainer.extras.segmentation.masks:Masks",
    training=Metric("train_pixel_accuracy", "training pixel accuracy"),
    evaluation=(
        Metric("mean_iou", "mean IoU", f"{_METRICS}:mean_iou"),
        Metric("foreground_iou", "mean IoU without background", f"{_METRICS}:foreground_iou"),
        Metric("pixel_accuracy", "pixel accuracy", f"{_METRICS}:pixel_accuracy"),
    ),
    about="Intersection over union, averaged over the classes, and fraction of correct pixels.",
    report="trainer.extras.segmentation.report:sections",
    per="pixel",
    logits=lambda size, outputs: [size, size, outputs],
    answers=Answers(
        frozenset({"masks", "class_names", "shares"}),
        "shares",
        "trainer.extras.segmentation.task:read_answers",
        tabular=False,
    ),
    embedded=EmbeddedDataSet("scenes", "trainer.extras.segmentation.scenes:records", 2400),
    suggestion=Suggestion("scenes", "unet"),
    features={MASK: "trainer.extras.segmentation.mask_files:stored_mask_fault"},
    prepare="prepare segmentation",
    baseline="largest class",
    comparable=("pixel_accuracy",),
)

LEAF: Final = Leaf(
    task=SEGMENTATION,
    networks={
        "dilated": Network(
            "trainer.extras.segmentation.dilated:build_dilated",
            8,
            "pixel",
            "dilated convolutions of width {width}",
            ("width",),
        ),
        "unet": Network(
            "trainer.extras.segmentation.unet:build_unet",
            8,
            "pixel",
            "U-Net on ResNet{depth} of width {width}",
            ("depth", "width", "stem"),
        ),
    },
    presets={"scenes": "trainer.extras.segmentation.preset:SCENES"},
    commands=(
        Command(
            "prepare segmentation",
            "data",
            "write images and their masks",
            "trainer.extras.segmentation.prepare:prepare_segmentation",
            "trainer.extras.segmentation.options:PrepareSegmentationOptions",
        ),
        Command(
            "prepare scenes",
            "data",
            "write the embedded images with masks: digits on photographs",
            "trainer.data.builtin.writer:run",
            "trainer.extras.segmentation.options:PrepareScenesOptions",
        ),
    ),
)
