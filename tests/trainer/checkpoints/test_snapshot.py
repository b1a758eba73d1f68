"""The variables that a checkpoint is restored to."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from trainer.checkpoints.snapshot import restore
from trainer.errors import CheckpointError


def test_a_checkpoint_of_another_model_is_refused_with_what_differs():
    variables = {"a": tf.Variable([1.0, 2.0]), "b": tf.Variable(3.0)}
    tensors = {"a": np.zeros(3, np.float32), "c": np.zeros(1, np.float32)}
    faults = "missing ['b']; unknown ['c']; a (3,) instead of (2,)"
    with pytest.raises(CheckpointError, match=re.escape(f"x: belongs to another model: {faults}")):
        restore(variables, tensors, Path("x"))
    assert variables["a"].numpy().tolist() == [1.0, 2.0]
