"""The optimizers. Each applies mean gradients to the weights, where these are, with TensorFlow's
fused operations.

An optimizer sees gradients after the all-reduce and without the loss scale, so every rank computes
the same update, and is not called at all for a step that is skipped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import tensorflow as tf

from common.errors import ConfigError
from trainer.checkpoints.snapshot import stored_name
from trainer.config import OptimizerConfig
from trainer.model_config import parse_rate


@dataclass(frozen=True)
class Parameter:
    """A variable to update, and how."""

    variable: tf.Variable
    name: str
    """Name of the variable in checkpoints."""
    kernel: bool
    """Whether weight decay applies; see `is_kernel`."""
    rate: float = 1.0
    """Factor of the learning rate."""

    def scaled(self, learning_rate: tf.Tensor) -> tf.Tensor:
        """Return the learning rate of this variable."""
        return learning_rate if self.rate == 1.0 else learning_rate * self.rate


class Optimizer(Protocol):
    """The interface of all optimizers."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Beginnings of the names of those variables of `state` that have the shape of a variable
        to update; the rest of such a name is `Parameter.name`, after a slash.
        """

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores, by name."""

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables.

        Args:
            gradients: Mean gradients in the order of the parameters, float32.
            learning_rate: float32 scalar.
        """


class Momentum:
    """v = m v + g + d w; w = w - lr v, or with Nesterov's look-ahead w = w - lr (g + d w + m v).

    In this form, unlike in v = m v - lr g, a change of the rate needs no correction of the momentum
    (Goyal et al. 2017, section 3). The decay d is for kernels only: decaying the scales and offsets
    of batch norm costs accuracy (He et al. 2018, section 3.1, "no bias decay").
    """

    groups: Final = ("momentum",)

    def __init__(self, parameters: Sequence[Parameter], config: OptimizerConfig) -> None:
        self._parameters = list(parameters)
        self._config = config
        self.slots = _zeros(parameters, "momentum")
        """One velocity per variable, of the same shape."""

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores, by name."""
        return _by_name("momentum", self._parameters, self.slots)

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables; see `Optimizer.apply`."""
        for parameter, slot, gradient in zip(self._parameters, self.slots, gradients, strict=True):
            variable = parameter.variable
            decay = self._config.weight_decay if parameter.kernel else 0.0
            with tf.device(variable.device):
                tf.raw_ops.ResourceApplyMomentum(
                    var=variable.handle,
                    accum=slot.handle,
                    lr=parameter.scaled(learning_rate),
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
    ranks must have equally many for bit-identical weights.
    """

    groups: Final = ("lars",)

    def __init__(
        self,
        parameters: Sequence[Parameter],
        config: OptimizerConfig,
        total: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
    ) -> None:
        """Args:
        parameters: What to update.
        config: Momentum, decay and trust.
        total: Returns the sums of squares of whole kernels for those of the given variables,
            float32 [2, kernels], where a variable is only a part of its kernel.
        """
        self._parameters = list(parameters)
        self._config, self._total = config, total
        self._slots = _zeros(parameters, "lars")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores, by name."""
        return _by_name("lars", self._parameters, self._slots)

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables; see `Optimizer.apply`."""
        decay = self._config.weight_decay
        triples = list(zip(self._parameters, self._slots, gradients, strict=True))
        factors = [parameter.rate for parameter in self._parameters if parameter.kernel]
        scale = 1.0 if all(factor == 1.0 for factor in factors) else tf.constant(factors)
        rates = iter(tf.unstack(learning_rate * scale * self._trust(gradients)))
        for parameter, slot, gradient in triples:
            variable = parameter.variable
            with tf.device(variable.device):
                tf.raw_ops.ResourceApplyKerasMomentum(
                    var=variable.handle,
                    accum=slot.handle,
                    lr=next(rates) if parameter.kernel else parameter.scaled(learning_rate),
                    grad=gradient + decay * variable if parameter.kernel and decay else gradient,
                    momentum=self._config.momentum,
                )

    def _trust(self, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the trust of each kernel, float32 [kernels]."""
        pairs = zip(self._parameters, gradients, strict=True)
        kernels = [(part.variable, gradient) for part, gradient in pairs if part.kernel]
        halves = [[_half_square(pair[side], pair[0]) for pair in kernels] for side in (0, 1)]
        sums = self._total(2.0 * tf.reshape(tf.convert_to_tensor(halves), [2, len(kernels)]))
        weight, gradient = tf.unstack(tf.sqrt(sums))
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

    groups: Final = ("adam_m", "adam_v")

    def __init__(self, parameters: Sequence[Parameter], config: OptimizerConfig) -> None:
        self._parameters = list(parameters)
        self._config = config
        self._means = _zeros(parameters, "adam_m")
        self._squares = _zeros(parameters, "adam_v")
        # With the weights, because XLA compiles an update for one device.
        with tf.device(parameters[0].variable.device if parameters else "CPU:0"):
            self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="adam_step")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores, by name."""
        return {
            **_by_name("adam_m", self._parameters, self._means),
            **_by_name("adam_v", self._parameters, self._squares),
            "adam_step": self._step,
        }

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables; see `Optimizer.apply`."""
        step = tf.cast(self._step.assign_add(1), tf.float64)
        # The corrections are in the rate and in epsilon, which the operation adds to sqrt(v): in
        # its float32, 1 - b^t would lose most of its digits.
        root = tf.sqrt(_correction(self._config.beta2, step))
        corrected = tf.cast(root / _correction(self._config.beta1, step), tf.float32)
        epsilon = self._config.epsilon * tf.cast(root, tf.float32)
        decay = self._config.weight_decay
        # One operation for all variables, in place of one for each.
        zero, beta1, beta2 = map(tf.constant, (0.0, self._config.beta1, self._config.beta2))
        slots = zip(self._parameters, self._means, self._squares, gradients, strict=True)
        for parameter, mean, square, gradient in slots:
            variable, rate = parameter.variable, parameter.scaled(learning_rate)
            with tf.device(variable.device):
                if decay and parameter.kernel:
                    variable.assign_sub(rate * decay * variable)
                tf.raw_ops.ResourceApplyAdam(
                    var=variable.handle,
                    m=mean.handle,
                    v=square.handle,
                    beta1_power=zero,
                    beta2_power=zero,
                    lr=rate * corrected,
                    beta1=beta1,
                    beta2=beta2,
                    epsilon=epsilon,
                    grad=gradient,
                )


class Compiled:
    """An optimizer whose update XLA compiles as one function. A GPU otherwise starts two or three
    kernels for each variable, and a ResNet50 has 161.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.groups, self.state = optimizer.groups, optimizer.state
        self._apply = tf.function(optimizer.apply, autograph=False, jit_compile=True)

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables; see `Optimizer.apply`."""
        self._apply(gradients, learning_rate)


OPTIMIZERS: Mapping[str, type[Momentum | Lars | AdamW]] = {
    "momentum": Momentum,
    "lars": Lars,
    "adamw": AdamW,
}
"""Optimizers by their names in `OptimizerConfig.kind`."""


def build_optimizer(
    updated: Sequence[Parameter],
    config: OptimizerConfig,
    total: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
) -> Optimizer:
    """Return the optimizer that a configuration names, with a state of zeros.

    Args:
        updated: What to update; see `parameters`.
        config: Kind, and everything else about it.
        total: See `Lars`; the other optimizers need no norms.
    """
    if config.kind == "lars":
        return Lars(updated, config, total)
    return OPTIMIZERS[config.kind](updated, config)


def parameters(
    variables: Sequence[tf.Variable],
    rates: Sequence[str] = (),
    factor: Callable[[str], float] = lambda _: 1.0,
) -> list[Parameter]:
    """Return how each variable is updated.

    Args:
        variables: Variables to train.
        rates: See `OptimizerConfig.rates`.
        factor: Another factor of the rate of a variable, by its name.

    Raises:
        ConfigError: A prefix begins no variable's name.
    """
    factors = dict(parse_rate(text) for text in rates)
    names = [stored_name(variable) for variable in variables]
    unused = [prefix for prefix in factors if not any(name.startswith(prefix) for name in names)]
    if unused:
        layers = ", ".join(dict.fromkeys(name.rpartition("/")[0] for name in names))
        raise ConfigError(
            [
                f"--optimizer.rates: {prefix!r} begins no trained layer's name; they are {layers}"
                for prefix in unused
            ]
        )
    return [
        Parameter(variable, name, is_kernel(variable), _factor(name, factors) * factor(name))
        for variable, name in zip(variables, names, strict=True)
    ]


def is_kernel(variable: tf.Variable) -> bool:
    """Return whether a variable is a matrix or a convolution, not a scale, an offset or a bias."""
    return len(variable.shape) > 1


def _factor(name: str, factors: Mapping[str, float]) -> float:
    longest = max((prefix for prefix in factors if name.startswith(prefix)), key=len, default=None)
    return 1.0 if longest is None else factors[longest]


def _half_square(tensor: tf.Tensor | tf.Variable, variable: tf.Variable) -> tf.Tensor:
    """Return half of a tensor's sum of squares, computed on the device of a variable."""
    with tf.device(variable.device):
        return tf.nn.l2_loss(tensor)


def _zeros(parameters: Sequence[Parameter], name: str) -> list[tf.Variable]:
    """Return a variable of zeros for each variable, of the same shape and on the same device."""
    zeros = []
    for number, parameter in enumerate(parameters):
        with tf.device(parameter.variable.device):
            start = tf.zeros_like(parameter.variable)
            zeros.append(tf.Variable(start, trainable=False, name=f"{name}{number}"))
    return zeros


def _by_name(
    group: str, parameters: Sequence[Parameter], slots: Sequence[tf.Variable]
) -> dict[str, tf.Variable]:
    pairs = zip(parameters, slots, strict=True)
    return {f"{group}/{parameter.name}": slot for parameter, slot in pairs}


def _correction(beta: float, step: tf.Tensor) -> tf.Tensor:
    """Return 1 - beta^step, for a beta that is rounded to float32 as in the mean to correct.

    Args:
        beta: Fraction of the mean that is kept.
        step: float64 scalar, at least 1.
    """
    return 1.0 - tf.cast(tf.constant(beta, tf.float32), tf.float64) ** step
