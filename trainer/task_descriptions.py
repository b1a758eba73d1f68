"""The facts about a task and a network that need none of their code. Standard library only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Metric:
    """A metric between 0 and 1, of which more is better."""

    key: str
    """Key in metrics.jsonl and result.json."""
    label: str
    """Label on the console and in reports."""
    of: str = ""
    """MODULE:FUNCTION from what `Task.counts` returns to the value; empty for a metric of training
    batches."""
    more_than: int = 0
    """Number of classes that a data set must exceed for the metric to mean anything."""
    about: str = ""
    """Sentence on its meaning, for the runs that have it."""
    baseline: str = ""
    """Prediction of its baseline in a few words, if it differs from that of the task."""


@dataclass(frozen=True)
class EmbeddedDataSet:
    """A data set that is made of images in the trainer's packages."""

    source: str
    """Name in `data.source`, and of the folder in data/."""
    records: str
    """MODULE:FUNCTION that returns its training and its held-out records, and the names of its
    classes in the order of labels."""
    examples: int
    """Training images."""


@dataclass(frozen=True)
class Answers:
    """How the outputs of an exported model are read."""

    outputs: frozenset[str]
    """Outputs of its signature serving_default."""
    parts: str
    """Output, [b, k], that has a number for each class that an image may be answered with."""
    read: str
    """MODULE:FUNCTION from the outputs of a batch to a list for each image, with a mapping for each
    class: class_id, class_name, and a number from 0 to 1, the largest first."""
    tabular: bool
    """Whether all images have equally many, so that they fit into columns of a table."""
    draw: str = ""
    """MODULE:FUNCTION that draws an image's answers: from the encoded image and what `read` returns
    for it to a JPEG. Empty if the task has none."""


@dataclass(frozen=True)
class RowTarget:
    """How a row of a table holds, in one column, the targets of a record: a list of labels, unless
    it has fields.
    """

    feature: str
    """Key of the feature in records, of `TaskDescription.features`."""
    pack: str
    """MODULE:FUNCTION from the column's value in a row, as plain Python, the encoded image, the
    form, and the number of classes to the feature and the label of the image; raises RejectedError
    for a row that cannot be used."""
    fields: frozenset[str] = frozenset()
    """Fields that the column has: it is a struct of lists, or a list of structs."""
    classes: str = ""
    """The field of them with labels."""
    forms: tuple[str, ...] = ()
    """Ways to read a row, the default first."""


@dataclass(frozen=True)
class Suggestion:
    """The runs with which a newcomer can begin."""

    small: str
    """Preset for images below 64 pixels."""
    network: str
    """Network for larger images on a CPU."""
    large: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """For large images on GPUs: number of training images from which presets are suggested, in
    increasing order, and those presets."""
    images: str = "images"
    """Preset of which a run on larger images takes everything else."""
    finetune: str = ""
    """Preset of such a run from a file of weights; empty if there is none."""


@dataclass(frozen=True)
class Network:
    """A network that a configuration can name."""

    builder: str
    """Function that builds it, as module:function; see `trainer.model.build.build_model`."""
    smallest: int
    """Smallest image size that it accepts, in pixels."""
    per: str = "image"
    """The unit that it has logits for; see `TaskDescription.per`."""
    words: str = "{name}"
    """Description in a few words, from the name and the options of the network."""
    options: tuple[str, ...] = ()
    """Options of `ModelConfig` that decide its architecture."""


@dataclass(frozen=True)
class TaskDescription:
    """A task: the targets that a network learns to predict."""

    name: str
    code: str
    """MODULE:CLASS of its `Task`."""
    targets: str
    """MODULE:CLASS of its `TargetDecoder`."""
    training: Metric
    """Metric of the training batches."""
    evaluation: tuple[Metric, ...]
    """Metrics of an evaluation. The first one decides which checkpoint is the best, unless the
    configuration names another."""
    about: str
    """Explanation of the metrics, in one line for the report."""
    report: str
    """MODULE:FUNCTION that returns the sections of a run's report about its predictions, given the
    `Run`."""
    per: str
    """The unit that the network must have logits for, such as image or pixel."""
    logits: Callable[[int, int], list[int]]
    """Shape of the logits of an image, from its size and the number of outputs."""
    answers: Answers
    embedded: EmbeddedDataSet
    suggestion: Suggestion
    features: Mapping[str, str] = field(default_factory=dict)
    """Targets of a record besides its label: keys of byte features, each with MODULE:FUNCTION that
    returns the fault of a value, or None, given it, the width and height of the image in pixels,
    and the number of classes. Empty if the label is the target."""
    rows: RowTarget | None = None
    """How tables hold its targets; None if they do not."""
    prepare: str = "prepare folder"
    """Command that writes its data sets."""
    baseline: str = ""
    """What `Task.baseline` predicts, in two words; empty if the task has none."""
    comparable: tuple[str, ...] = ()
    """Keys of the evaluation metrics that the training metric may be compared with."""

    def baseline_of(self, metric: Metric) -> str:
        """Return the prediction of the baseline of a metric, in a few words."""
        return metric.baseline or self.baseline

    def metrics(self, classes: int) -> tuple[Metric, ...]:
        """Return the metrics of an evaluation that mean anything for a number of classes."""
        return tuple(metric for metric in self.evaluation if classes > metric.more_than)

    def words(self, values: Mapping[str, Any]) -> list[str]:
        """Return the known evaluation metrics in words, such as "top-1 97.50% (largest class
        71.20%)".

        Args:
            values: Metrics by key; `baseline` has those of the baseline.
        """
        baseline = values.get("baseline") or {}

        def of_baseline(metric: Metric) -> str:
            if metric.key not in baseline:
                return ""
            return f" ({self.baseline_of(metric)} {baseline[metric.key]:.2%})"

        return [
            f"{metric.label} {value:.2%}{of_baseline(metric)}"
            for metric in self.evaluation
            if (value := values.get(metric.key)) is not None
        ]
