"""The default task, which is declared as any other. Standard library only."""

from typing import Final

from trainer.leaf import Leaf
from trainer.task_descriptions import (
    Answers,
    EmbeddedDataSet,
    Metric,
    Suggestion,
    TaskDescription,
)

_METRICS: Final = "trainer.tasks.classification.metrics"

CLASSIFICATION: Final = TaskDescription(
    name="classification",
    code="trainer.tasks.classification.task:Classification",
    targets="trainer.tasks.classification.labels:Labels",
    training=Metric("train_top1", "training top-1"),
    evaluation=(
        Metric("top1", "top-1", f"{_METRICS}:top1"),
        Metric(
            "balanced_accuracy",
            "balanced accuracy",
            f"{_METRICS}:balanced_accuracy",
            about="Balanced accuracy: the mean of that fraction over classes, however many images"
            " they have.",
        ),
        Metric(
            "top5",
            "top-5",
            f"{_METRICS}:top5",
            more_than=5,
            about="Top-5: the fraction whose class is among the five most probable.",
            baseline="five largest classes",
        ),
    ),
    about="Fraction of images whose class is the most probable (top-1).",
    report="trainer.tasks.classification.report:sections",
    per="image",
    logits=lambda size, outputs: [outputs],  # noqa: ARG005 - does not depend on the size
    answers=Answers(
        frozenset({"class_ids", "class_names", "probabilities"}),
        "probabilities",
        "trainer.tasks.classification.serving:read_answers",
        tabular=True,
    ),
    embedded=EmbeddedDataSet("digits", "trainer.data.builtin.digits:records", 1437),
    suggestion=Suggestion(
        "digits",
        "resnet",
        (
            (0, ("images-224-finetune", "images-224")),
            (100_000, ("images-224-finetune-node", "images-224-node")),
            (1_000_000, ("images-224-finetune-nodes", "images-224-nodes")),
        ),
        images="own-images",
        finetune="own-images-finetune",
    ),
    baseline="largest class",
    # Balanced accuracy as well, because a run may show its classes equally often.
    comparable=("top1", "balanced_accuracy"),
)

LEAF: Final = Leaf(task=CLASSIFICATION)
