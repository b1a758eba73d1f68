"""What the plots show: which figures of metrics.jsonl go together, and how to read them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Line:
    """One curve of a panel."""

    event: str
    key: str
    label: str
    marked: bool = False
    """With a marker at each point, for what is measured rarely."""
    compared: bool = True
    """Whether a comparison of runs shows it."""


@dataclass(frozen=True)
class Panel:
    """What one plot shows."""

    id: str
    title: str
    reading: str
    """How to read it, in one line."""
    lines: tuple[Line, ...]
    ticks: str = ""
    """d3's format of the axis; empty lets plotly choose."""
    hover: str = ",.4~g"
    unit: str = ""
    scale: Literal["linear", "log"] = "linear"
    from_zero: bool = False


PANELS = (
    Panel(
        "loss",
        "Loss",
        "Mean cross-entropy; held-out rising while training falls is overfitting.",
        (
            Line("train", "loss", "training"),
            Line("evaluation", "validation_loss", "held-out", marked=True),
        ),
        from_zero=True,
    ),
    Panel(
        "accuracy",
        "Accuracy",
        "Part of the images that is right at once (top-1) or within five (top-5).",
        (
            Line("train", "train_top1", "training top-1"),
            Line("evaluation", "top1", "held-out top-1", marked=True),
            Line("evaluation", "top5", "held-out top-5", marked=True, compared=False),
        ),
        ticks=".0%",
        hover=".2%",
    ),
    Panel(
        "rate",
        "Learning rate",
        "Follows from the step alone; a restart must not make it jump.",
        (Line("train", "learning_rate", "learning rate"),),
        from_zero=True,
    ),
    Panel(
        "throughput",
        "Throughput",
        "Images a second while it trains, over all ranks.",
        (Line("train", "images_per_second", "images/s"),),
        ticks="~s",
        hover=",.1f",
        unit=" images/s",
        from_zero=True,
    ),
    Panel(
        "wait",
        "Data wait",
        "Training time that rank 0 waits for data; a few percent are too many.",
        (Line("train", "data_wait_percent", "data wait"),),
        hover=".1f",
        unit=" %",
        from_zero=True,
    ),
    Panel(
        "mfu",
        "Model FLOP/s utilisation",
        "Part of the GPUs' peak that the model's own operations reach.",
        (Line("train", "mfu_percent", "utilisation"),),
        hover=".1f",
        unit=" %",
        from_zero=True,
    ),
    Panel(
        "gradient",
        "Gradient norm",
        "Of each interval's last step; a spike is a step that went too far.",
        (Line("train", "gradient_norm", "gradient norm"),),
        ticks="~g",
        scale="log",
    ),
    Panel(
        "scale",
        "Loss scale",
        "Factor on float16 losses; halves when a gradient overflows.",
        (Line("train", "loss_scale", "loss scale"),),
        ticks="~g",
        scale="log",
    ),
)
