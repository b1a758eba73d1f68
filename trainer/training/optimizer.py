"""SGD with momentum, applied by TensorFlow's fused operation."""

from collections.abc import Sequence

import tensorflow as tf

from trainer.checkpoints.snapshot import stored_name
from trainer.config import OptimizerConfig


class Momentum:
    """v = m v + g + d w; w = w - lr v, or with Nesterov's look-ahead w = w - lr (g + d w + m v).

    In this form, unlike in v = m v - lr g, a change of the rate needs no correction of the momentum
    (Goyal et al. 2017, section 3). The decay d is for kernels only: decaying the scales and offsets
    of batch norm costs accuracy (He et al. 2018, section 3.1, "no bias decay").
    """

    def __init__(self, variables: Sequence[tf.Variable], config: OptimizerConfig) -> None:
        self._variables = list(variables)
        self._config = config
        self.slots = [
            tf.Variable(tf.zeros_like(variable), trainable=False, name=f"momentum{number}")
            for number, variable in enumerate(self._variables)
        ]
        """Create one velocity per variable, of the same shape."""

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores, by name."""
        pairs = zip(self._variables, self.slots, strict=True)
        return {f"momentum/{stored_name(variable)}": slot for variable, slot in pairs}

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables.

        Args:
            gradients: Mean gradients in the order of the variables, float32.
            learning_rate: float32 scalar.
        """
        for variable, slot, gradient in zip(self._variables, self.slots, gradients, strict=True):
            decay = self._config.weight_decay if is_kernel(variable) else 0.0
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=slot.handle,
                lr=learning_rate,
                grad=gradient + decay * variable if decay else gradient,
                momentum=self._config.momentum,
                use_nesterov=self._config.nesterov,
            )


def is_kernel(variable: tf.Variable) -> bool:
    """Return whether weight decay applies: to matrices and convolutions, not to scales, offsets or
    biases.
    """
    return len(variable.shape) > 1
