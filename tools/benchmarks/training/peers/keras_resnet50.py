"""Keras 2: `fit` of keras.applications' ResNet50 (v1, with fewer operations), compiled by XLA."""

import json
import os
import sys
import time

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf
import tf_keras as keras

batch, size, steps, rounds, precision = (*map(int, sys.argv[1:5]), sys.argv[5])
for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(gpu, True)
keras.mixed_precision.set_global_policy(precision)
model = keras.applications.ResNet50(
    weights=None, input_shape=(size, size, 3), classifier_activation=None
)
model.compile(
    keras.optimizers.SGD(0.1, momentum=0.9),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    jit_compile=True,
    steps_per_execution=steps,
)
images = tf.random.uniform([batch, size, size, 3])
classes = tf.random.uniform([batch], 0, 1000, tf.int32)
data = tf.data.Dataset.from_tensors((images, classes)).repeat().prefetch(2)


def take() -> float:
    """Take steps and return the seconds that they took."""
    began = time.perf_counter()
    model.fit(data, steps_per_epoch=steps, epochs=1, verbose=0)
    return time.perf_counter() - began


first = take()
rates = [steps * batch / take() for _ in range(rounds)]
print(json.dumps({"version": keras.__version__, "first_step": first, "rates": rates}))
