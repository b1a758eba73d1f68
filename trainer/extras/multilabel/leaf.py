"""The leaf of multi-label classification. Standard library only."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from common.annotations import Bounds
from common.program import Command
from trainer.leaf import Leaf
from trainer.task_descriptions import (
    Answers,
    EmbeddedDataSet,
    Metric,
    RowTarget,
    TaskDescription,
)
from trainer.tasks.classification.leaf import CLASSIFICATION

MULTI_HOT: Final = "image/class/multi_hot"
"""Key of the classes of a record: a byte for each class of the data set, 1 or 0."""


@dataclass(frozen=True)
class MultilabelOptions:
    """How a run learns that images have several classes, and when it says that one has a class."""

    threshold: Annotated[float, Bounds(above=0, below=1)] = 0.5
    """Probability from which an image is said to have a class: in F1, on the run's page and in the
    exported model. Average precision and ROC AUC do not depend on it."""

    positive_weight: Annotated[float, Bounds(above=0)] = 1.0
    """Factor of the loss of a class that an image has. Above 1, rare classes are found more often,
    with more false alarms, and probabilities are too large."""


def _problems(config: Any) -> list[str]:
    if config.task == MULTILABEL.name:
        return []
    given = vars(config.of(MultilabelOptions))
    return [
        f"--multilabel.{name.replace('_', '-')}: is for --task multilabel; leave it out"
        for name, value in vars(MultilabelOptions()).items()
        if given[name] != value
    ]


_METRICS: Final = "trainer.extras.multilabel.metrics"

MULTILABEL: Final = TaskDescription(
    name="multilabel",
    code="trainer.extras.multilabel.task:Multilabel",
    targets="trainer.extras.multilabel.targets:Classes",
    training=Metric("train_f1", "training F1 of an image"),
    evaluation=(
        Metric("mean_ap", "mean AP", f"{_METRICS}:mean_ap"),
        Metric("mean_auc", "mean ROC AUC", f"{_METRICS}:mean_auc"),
        Metric("micro_f1", "F1 of all decisions", f"{_METRICS}:micro_f1"),
        Metric("macro_f1", "mean F1", f"{_METRICS}:macro_f1"),
    ),
    about=(
        "Means over the classes that held-out images have, of the average precision, the area under"
        " the ROC curve and F1 at the threshold; and F1 of all images and classes together."
    ),
    report="trainer.extras.multilabel.report:sections",
    per="image",
    logits=lambda size, outputs: [outputs],  # noqa: ARG005 - does not depend on the size
    answers=Answers(
        frozenset({"class_probabilities", "present", "class_names"}),
        "class_probabilities",
        "trainer.extras.multilabel.task:read_answers",
        tabular=False,
    ),
    embedded=EmbeddedDataSet("tiles", "trainer.extras.multilabel.tiles:records", 3000),
    suggestion=replace(CLASSIFICATION.suggestion, small="tiles", images="images", finetune=""),
    features={MULTI_HOT: "trainer.extras.multilabel.classes:stored_fault"},
    rows=RowTarget(MULTI_HOT, "trainer.extras.multilabel.classes:packed"),
    prepare="prepare multilabel",
    baseline="all classes",
)

LEAF: Final = Leaf(
    key="multilabel",
    options=MultilabelOptions,
    problems=_problems,
    task=MULTILABEL,
    presets={"tiles": "trainer.extras.multilabel.preset:TILES"},
    commands=(
        Command(
            "prepare multilabel",
            "data",
            "write images that have any number of classes, by a table or by folders",
            "trainer.extras.multilabel.prepare:prepare_multilabel",
            "trainer.extras.multilabel.options:PrepareMultilabelOptions",
        ),
        Command(
            "prepare tiles",
            "data",
            "write the embedded images of several classes: digits in four tiles",
            "trainer.data.builtin.writer:run",
            "trainer.extras.multilabel.options:PrepareTilesOptions",
        ),
    ),
)
