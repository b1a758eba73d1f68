"""The factor of the loss that keeps small gradients from vanishing in float16 (Micikevicius et al.
2018, "Mixed Precision Training", section 3.2): with `mixed_float16` it halves when a gradient
overflows, and doubles after many steps in which none did; otherwise it is 1.
"""

from collections.abc import Callable
from typing import Final

import tensorflow as tf

from trainer.config import TrainConfig

INITIAL: Final = 2.0**15
GROWTH_STEPS: Final = 2000
"""Finite steps after which it doubles."""
LARGEST: Final = 2.0**126
"""Largest scale, whose inverse is still a normal number of float32. Half of infinity would still
be infinite."""


class LossScale:
    """The loss scale of a run, the same on all ranks."""

    def __init__(self, config: TrainConfig) -> None:
        self.dynamic = config.compute.precision == "mixed_float16"
        """Whether it changes; if not, it is 1, and no step is left out."""
        self.after_exchange = config.exchange.compression == "fp16"
        """Whether gradients keep it until they are summed, because they need it on the wire, and
        because the sum may overflow as well."""
        with tf.device("CPU:0"):
            start = INITIAL if self.dynamic else 1.0
            self._scale = tf.Variable(start, name="loss_scale")
            self._finite_steps = tf.Variable(0, dtype=tf.int32, name="finite_steps")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables that a checkpoint stores, by name."""
        return {"loss_scale": self._scale, "finite_steps": self._finite_steps}

    def now(self) -> tf.Tensor:
        """Return the scale of this step, a float32 scalar."""
        return self._scale.read_value() if self.dynamic else tf.constant(1.0)

    def unscaled(
        self, gradients: list[tf.Tensor], scale: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Return a rank's own gradients without the scale, unless they are sent with it, and 1.0 if
        one of them overflowed, else 0.0.
        """
        if not self.dynamic or self.after_exchange:
            return gradients, tf.constant(0.0)
        # XLA can fuse this into the backward pass here, but not after the exchange.
        return unscale(gradients, scale)

    def guard(
        self, finite: tf.Tensor, update: Callable[[], None], undo: Callable[[], None]
    ) -> None:
        """Update the state of this rank, or undo the changes of the step, inside a graph.

        Args:
            finite: Whether no gradient overflowed, a bool scalar.
            update: Updates the state.
            undo: Restores the state before the forward pass.
        """
        if self.dynamic:
            tf.cond(finite, lambda: _done(update), lambda: _done(undo))
        else:
            update()

    def follow(self, finite: tf.Tensor, steps: int = 1) -> None:
        """Change the scale after some steps, inside a graph: with the same answer on all ranks."""
        if self.dynamic:
            tf.cond(finite, lambda: self._count(steps), self._halve)

    def exhausted(self, finite: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        """Return whether a gradient overflowed at a scale of 1: then it is itself too large."""
        return ~finite & (scale <= 1.0) if self.dynamic else tf.constant(value=False)

    def _count(self, steps: int) -> tf.Tensor:
        """Count finite steps, and double the scale after enough of them."""
        count = self._finite_steps + steps
        grown = count >= GROWTH_STEPS
        doubled = tf.minimum(self._scale * 2.0, LARGEST)
        self._scale.assign(tf.where(grown, doubled, self._scale))
        self._finite_steps.assign(tf.where(grown, 0, count))
        return tf.constant(0)

    def _halve(self) -> tf.Tensor:
        self._scale.assign(tf.maximum(self._scale / 2.0, 1.0))
        self._finite_steps.assign(0)
        return tf.constant(0)


def unscale(gradients: list[tf.Tensor], scale: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Divide gradients by the loss scale; also return 1.0 if one of them overflowed, else 0.0."""
    finite = tf.math.is_finite(tf.linalg.global_norm(gradients))
    return [gradient / scale for gradient in gradients], 1.0 - tf.cast(finite, tf.float32)


def _done(action: Callable[[], None]) -> tf.Tensor:
    # A branch must have a result.
    action()
    return tf.constant(0)
