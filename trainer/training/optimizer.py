"""The optimizers. Each applies mean gradients to the weights, with TensorFlow's fused operations.

An optimizer sees gradients after the all-reduce and without the loss scale, so every rank computes
the same update, and is not called at all for a step that is skipped.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import tensorflow as tf

from trainer.checkpoints.snapshot import stored_name
from trainer.config import OptimizerConfig


class Optimizer(Protocol):
    """The interface of all optimizers."""

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores, by name."""

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables.

        Args:
            gradients: Mean gradients in the order of the variables, float32.
            learning_rate: float32 scalar.
        """


class Momentum:
    """v = m v + g + d w; w = w - lr v, or with Nesterov's look-ahead w = w - lr (g + d w + m v).

    In this form, unlike in v = m v - lr g, a change of the rate needs no correction of the momentum
    (Goyal et al. 2017, section 3). The decay d is for kernels only: decaying the scales and offsets
    of batch norm costs accuracy (He et al. 2018, section 3.1, "no bias decay").
    """

    def __init__(self, variables: Sequence[tf.Variable], config: OptimizerConfig) -> None:
        self._variables = list(variables)
        self._config = config
        self.slots = _zeros(variables, "momentum")
        """Create one velocity per variable, of the same shape."""

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores, by name."""
        return _by_name("momentum", self._variables, self.slots)

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables; see `Optimizer.apply`."""
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


class Lars:
    """LARS (You et al. 2017, "Large Batch Training of Convolutional Networks") as in MLPerf: for
    each kernel w with the mean gradient g

        trust = eta |w| / (|g| + d |w|)    if |w| > 0 and |g| > 0, else 1
        v = m v + lr trust (g + d w); w = w - v

    The rate is inside the velocity. Biases, and scales and offsets of batch norm, have trust 1 and
    no decay d. (lars_optimizer.py of Google's TensorFlow 2 implementation, MLPerf Training results
    v0.7, with its epsilon of 0; common/fit.py of NVIDIA's in MXNet has the same trust, but rescales
    the momentum when the rate changes.)

    The velocity is stored as -v, the form of TensorFlow's operation. All norms are formed together,
    in few tensors. They are float32 sums whose last bits can depend on the number of threads, so
    ranks must have equally many for weights that are the same to the bit.
    """

    def __init__(self, variables: Sequence[tf.Variable], config: OptimizerConfig) -> None:
        self._variables = list(variables)
        self._config = config
        self._slots = _zeros(variables, "lars")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores, by name."""
        return _by_name("lars", self._variables, self._slots)

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables; see `Optimizer.apply`."""
        decay = self._config.weight_decay
        triples = list(zip(self._variables, self._slots, gradients, strict=True))
        kernels = [(variable, gradient) for variable, _, gradient in triples if is_kernel(variable)]
        rates = iter(tf.unstack(learning_rate * self._trust(kernels)) if kernels else ())
        for variable, slot, gradient in triples:
            kernel = is_kernel(variable)
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=variable.handle,
                accum=slot.handle,
                lr=next(rates) if kernel else learning_rate,
                grad=gradient + decay * variable if kernel and decay else gradient,
                momentum=self._config.momentum,
            )

    def _trust(self, kernels: Sequence[tuple[tf.Variable, tf.Tensor]]) -> tf.Tensor:
        """Return the trust of each kernel, float32 [kernels]."""
        weight, gradient = (
            tf.sqrt(2.0 * tf.stack([tf.nn.l2_loss(tensor) for tensor in tensors]))
            for tensors in zip(*kernels, strict=True)
        )
        scaled = self._config.trust * weight / (gradient + self._config.weight_decay * weight)
        return tf.where((weight > 0) & (gradient > 0), scaled, 1.0)


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, "Decoupled Weight Decay
    Regularization", algorithm 2): in step t, counted from 1,

        m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2
        w = w - lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + d w)

    The paper multiplies the decay d by the schedule only; here it is multiplied by the learning
    rate, as is usual since. It is for kernels only.
    """

    def __init__(self, variables: Sequence[tf.Variable], config: OptimizerConfig) -> None:
        self._variables = list(variables)
        self._config = config
        self._means = _zeros(variables, "adam_m")
        self._squares = _zeros(variables, "adam_v")
        with tf.device("CPU:0"):
            self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="adam_step")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores, by name."""
        return {
            **_by_name("adam_m", self._variables, self._means),
            **_by_name("adam_v", self._variables, self._squares),
            "adam_step": self._step,
        }

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables; see `Optimizer.apply`."""
        step = tf.cast(self._step.assign_add(1), tf.float64)
        # The corrections are in the rate and in epsilon, which the operation adds to sqrt(v): in
        # its float32, 1 - b^t would lose most of its digits.
        root = tf.sqrt(_correction(self._config.beta2, step))
        rate = learning_rate * tf.cast(root / _correction(self._config.beta1, step), tf.float32)
        epsilon = self._config.epsilon * tf.cast(root, tf.float32)
        decay = self._config.weight_decay
        slots = zip(self._variables, self._means, self._squares, gradients, strict=True)
        for variable, mean, square, gradient in slots:
            if decay and is_kernel(variable):
                variable.assign_sub(learning_rate * decay * variable)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=mean.handle,
                v=square.handle,
                beta1_power=0.0,
                beta2_power=0.0,
                lr=rate,
                beta1=self._config.beta1,
                beta2=self._config.beta2,
                epsilon=epsilon,
                grad=gradient,
            )


OPTIMIZERS: Mapping[str, Callable[[Sequence[tf.Variable], OptimizerConfig], Optimizer]] = {
    "momentum": Momentum,
    "lars": Lars,
    "adamw": AdamW,
}
"""Optimizers by their names in `OptimizerConfig.kind`."""


def build_optimizer(variables: Sequence[tf.Variable], config: OptimizerConfig) -> Optimizer:
    """Return the optimizer that a configuration names, with a state of zeros."""
    return OPTIMIZERS[config.kind](variables, config)


def is_kernel(variable: tf.Variable) -> bool:
    """Return whether weight decay applies: to matrices and convolutions, not to scales, offsets or
    biases.
    """
    return len(variable.shape) > 1


def _zeros(variables: Sequence[tf.Variable], name: str) -> list[tf.Variable]:
    """Return a variable of zeros for each variable, of the same shape."""
    return [
        tf.Variable(tf.zeros_like(variable), trainable=False, name=f"{name}{number}")
        for number, variable in enumerate(variables)
    ]


def _by_name(
    group: str, variables: Sequence[tf.Variable], slots: Sequence[tf.Variable]
) -> dict[str, tf.Variable]:
    pairs = zip(variables, slots, strict=True)
    return {f"{group}/{stored_name(variable)}": slot for variable, slot in pairs}


def _correction(beta: float, step: tf.Tensor) -> tf.Tensor:
    """Return 1 - beta^step, for a beta that is rounded to float32 as in the mean to correct.

    Args:
        beta: Fraction of the mean that is kept.
        step: float64 scalar, at least 1.
    """
    return 1.0 - tf.cast(tf.constant(beta, tf.float32), tf.float64) ** step
