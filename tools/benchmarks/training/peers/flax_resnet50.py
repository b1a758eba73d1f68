"""flax: ResNet50 v1.5 with SGD and momentum, the whole step compiled as one function."""

import functools
import json
import sys
import time
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

batch, size, steps, rounds, precision = (*map(int, sys.argv[1:5]), sys.argv[5])
kind = {"mixed_bfloat16": jnp.bfloat16, "mixed_float16": jnp.float16}.get(precision, jnp.float32)
conv = functools.partial(nn.Conv, use_bias=False, dtype=kind)


class Block(nn.Module):
    """A bottleneck, which shrinks in its 3x3 convolution."""

    filters: int
    stride: int

    @nn.compact
    def __call__(self, inputs: Any, *, train: bool) -> Any:
        """Apply it."""
        norm = functools.partial(
            nn.BatchNorm, use_running_average=not train, momentum=0.9, dtype=kind
        )
        strides, shortcut = (self.stride, self.stride), inputs
        outputs = nn.relu(norm()(conv(self.filters, (1, 1))(inputs)))
        outputs = nn.relu(norm()(conv(self.filters, (3, 3), strides)(outputs)))
        outputs = conv(4 * self.filters, (1, 1))(outputs)
        outputs = norm(scale_init=nn.initializers.zeros)(outputs)
        if shortcut.shape != outputs.shape:
            shortcut = norm()(conv(4 * self.filters, (1, 1), strides)(shortcut))
        return nn.relu(shortcut + outputs)


class ResNet50(nn.Module):
    """The network."""

    @nn.compact
    def __call__(self, inputs: Any, *, train: bool) -> Any:
        """Apply it."""
        outputs = conv(64, (7, 7), (2, 2), padding=[(3, 3), (3, 3)])(inputs)
        outputs = nn.BatchNorm(use_running_average=not train, momentum=0.9, dtype=kind)(outputs)
        outputs = nn.max_pool(nn.relu(outputs), (3, 3), strides=(2, 2), padding="SAME")
        for group, blocks in enumerate((3, 4, 6, 3)):
            for number in range(blocks):
                stride = 2 if group and not number else 1
                outputs = Block(64 * 2**group, stride)(outputs, train=train)
        return nn.Dense(1000, dtype=kind)(jnp.mean(outputs, (1, 2))).astype(jnp.float32)


network = ResNet50()
images = jax.random.randint(jax.random.key(0), (batch, size, size, 3), 0, 255).astype(jnp.uint8)
targets = optax.smooth_labels(
    jax.nn.one_hot(jax.random.randint(jax.random.key(1), (batch,), 0, 1000), 1000), 0.1
)
optimizer = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.1, 0.9, nesterov=True))


@functools.partial(jax.jit, donate_argnums=(0,))
def update(state: Any) -> Any:
    """Take a step."""
    params, statistics, slots = state
    normalized = ((images.astype(jnp.float32) / 255 - 0.45) / 0.22).astype(kind)

    def loss(params: Any) -> Any:
        variables = {"params": params, "batch_stats": statistics}
        logits, changed = network.apply(variables, normalized, train=True, mutable=["batch_stats"])
        return optax.softmax_cross_entropy(logits, targets).mean(), changed["batch_stats"]

    (_, moved), gradients = jax.value_and_grad(loss, has_aux=True)(params)
    updates, slots = optimizer.update(gradients, slots, params)
    return optax.apply_updates(params, updates), moved, slots


def take(state: Any, count: int) -> tuple[Any, float]:
    """Take steps; return the state after them, and the seconds that they took."""
    began = time.perf_counter()
    for _ in range(count):
        state = update(state)
    jax.block_until_ready(state)
    return state, time.perf_counter() - began


start = jax.jit(lambda key: network.init(key, jnp.zeros((2, size, size, 3)), train=False))(
    jax.random.key(2)
)
state = (start["params"], start["batch_stats"], optimizer.init(start["params"]))
state, first = take(state, 1)
state, _ = take(state, steps)
rates = []
for _ in range(rounds):
    state, seconds = take(state, steps)
    rates.append(steps * batch / seconds)
print(json.dumps({"version": jax.__version__, "first_step": first, "rates": rates}))
