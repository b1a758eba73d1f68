"""LARS and AdamW against the formulas of their papers, in NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.updates.test_optimizer import RATES, gradients_at, start
from trainer.config import OptimizerConfig
from trainer.presets import PRESETS
from trainer.updates.optimizer import (
    OPTIMIZERS,
    AdamW,
    Lars,
    Momentum,
    build_optimizer,
    parameters,
)

KERNELS = ("kernel", "convolution")


def config(kind, **changes):
    return replace(PRESETS["digits"].optimizer, kind=kind, nesterov=False, **changes)


def make(kind, values, **changes):
    variables = {
        name: tf.Variable(value.astype(np.float32), name=name) for name, value in values.items()
    }
    updated = parameters(list(variables.values()))
    return variables, build_optimizer(updated, config(kind, **changes))


def apply(optimizer, gradients, rate):
    optimizer.apply([tf.constant(g, tf.float32) for g in gradients.values()], tf.constant(rate))


def lars(values, velocity, gradients, rate, *, eta, momentum, decay):
    """One step of LARS in float64, as MLPerf's implementations write it."""
    values, velocity = dict(values), dict(velocity)
    for name, gradient in gradients.items():
        weight, trust, update = values[name], 1.0, gradient
        if name in KERNELS:
            norms = np.linalg.norm(weight), np.linalg.norm(gradient)
            if all(norms):
                trust = eta * norms[0] / (norms[1] + decay * norms[0])
            update = gradient + decay * weight
        velocity[name] = momentum * velocity[name] + rate * trust * update
        values[name] = weight - velocity[name]
    return values, velocity


# 1. Which optimizer.


def test_each_kind_has_its_optimizer():
    built = {kind: type(make(kind, start())[1]) for kind in OPTIMIZERS}
    assert built == {"momentum": Momentum, "lars": Lars, "adamw": AdamW}


def test_no_two_kinds_store_their_state_by_the_same_name():
    names = [make(kind, start())[1].state.keys() for kind in OPTIMIZERS]
    assert len(set().union(*names)) == sum(map(len, names))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_gradient_too_few_is_refused(kind):
    _, optimizer = make(kind, start())
    with pytest.raises(ValueError, match="zip"):
        apply(optimizer, {"kernel": gradients_at(0)["kernel"]}, 0.1)


# 2. LARS.


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("zero", [None, "weights", "gradients"])
def test_a_step_of_lars_is_that_of_the_formula(zero, decay):
    values, gradients = start(), gradients_at(0)
    if zero is not None:
        (values if zero == "weights" else gradients)["kernel"] = np.zeros((4, 3))
    still = {name: np.zeros_like(value) for name, value in values.items()}
    wanted, velocity = lars(values, still, gradients, 0.3, eta=0.02, momentum=0.9, decay=decay)
    variables, optimizer = make("lars", values, trust=0.02, weight_decay=decay)
    apply(optimizer, gradients, 0.3)
    for name, variable in variables.items():
        np.testing.assert_allclose(variable.numpy(), wanted[name], rtol=1e-6, atol=1e-6)
        stored = optimizer.state[f"lars/{name}"].numpy()
        np.testing.assert_allclose(stored, -velocity[name], rtol=1e-6, atol=1e-6)


def test_the_rate_of_lars_is_inside_its_velocity():
    values = start()
    velocity = {name: np.zeros_like(value) for name, value in values.items()}
    variables, optimizer = make("lars", values, trust=0.02, weight_decay=0.01, momentum=0.9)
    for step, rate in enumerate(RATES):
        values, velocity = lars(
            values, velocity, gradients_at(step), rate, eta=0.02, momentum=0.9, decay=0.01
        )
        apply(optimizer, gradients_at(step), rate)
    for name, variable in variables.items():
        np.testing.assert_allclose(variable.numpy(), values[name], rtol=1e-5, atol=1e-5)


def test_lars_leaves_no_trace_of_the_length_of_a_kernels_gradient():
    ends = []
    for factor in (1.0, 1000.0):
        variables, optimizer = make("lars", start(), trust=0.02, weight_decay=0.0)
        for step, rate in enumerate(RATES):
            longer = {name: factor * value for name, value in gradients_at(step).items()}
            apply(optimizer, longer, rate)
        ends.append({name: variable.numpy() for name, variable in variables.items()})
    for name in KERNELS:
        np.testing.assert_allclose(ends[1][name], ends[0][name], rtol=1e-5, atol=1e-6)
    # Biases and scales have no trust that would undo the factor.
    assert not np.allclose(ends[1]["bias"], ends[0]["bias"], atol=1.0)


def test_lars_of_a_network_without_kernels_is_sgd():
    variables, optimizer = make("lars", {"bias": np.ones(3)}, momentum=0.0)
    apply(optimizer, {"bias": np.full(3, 2.0)}, 0.25)
    assert variables["bias"].numpy().tolist() == [0.5, 0.5, 0.5]


def test_lars_forms_all_norms_in_few_tensors():
    """Square roots and divisions are of all kernels at once, however many there are."""
    variables = [tf.Variable(tf.ones([3, 2])) for _ in range(20)]
    optimizer = Lars(parameters(variables), OptimizerConfig(kind="lars"))
    graph = (
        tf.function(optimizer.apply, autograph=False)
        .get_concrete_function([tf.TensorSpec([3, 2])] * 20, tf.TensorSpec([]))
        .graph
    )
    kinds = [operation.type for operation in graph.get_operations()]
    assert (kinds.count("Sqrt"), kinds.count("RealDiv"), kinds.count("L2Loss")) == (1, 1, 40)


# 3. AdamW.


def adamw(values, *, beta1, beta2, epsilon, decay, beyond=0):
    """The steps in float64, from the paper's algorithm 2, after `beyond` steps of no gradient."""
    values = {name: value.copy() for name, value in values.items()}
    mean, square = ({name: np.zeros_like(v) for name, v in values.items()} for _ in range(2))
    for step, rate in enumerate(RATES):
        count = step + beyond + 1
        for name, gradient in gradients_at(step).items():
            mean[name] = beta1 * mean[name] + (1 - beta1) * gradient
            square[name] = beta2 * square[name] + (1 - beta2) * gradient**2
            m, v = mean[name] / (1 - beta1**count), square[name] / (1 - beta2**count)
            decayed = decay * values[name] if name in KERNELS else 0.0
            values[name] = values[name] - rate * (m / (np.sqrt(v) + epsilon) + decayed)
    return values


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(("beta1", "beta2", "epsilon"), [(0.9, 0.999, 1e-8), (0.5, 0.9, 0.3)])
def test_steps_of_adamw_are_those_of_the_formula(beta1, beta2, epsilon, decay):
    options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    variables, optimizer = make("adamw", start(), weight_decay=decay, **options)
    for step, rate in enumerate(RATES):
        apply(optimizer, gradients_at(step), rate)
    wanted = adamw(start(), decay=decay, **options)
    for name, variable in variables.items():
        np.testing.assert_allclose(variable.numpy(), wanted[name], rtol=1e-5, atol=1e-5)
    assert int(optimizer.state["adam_step"].numpy()) == len(RATES)


def test_the_first_step_of_adamw_has_the_length_of_the_rate():
    """So it is only with both corrections, which a state of zeros needs most."""
    variables, optimizer = make("adamw", {"kernel": np.zeros((4, 3))}, weight_decay=0.0)
    apply(optimizer, {"kernel": gradients_at(0)["kernel"]}, 0.25)
    np.testing.assert_allclose(np.abs(variables["kernel"].numpy()), 0.25, rtol=1e-6)


def test_the_corrections_of_adamw_count_on_from_a_stored_step():
    variables, optimizer = make("adamw", start(), weight_decay=0.0, beta2=0.99)
    optimizer.state["adam_step"].assign(1000)
    for step, rate in enumerate(RATES):
        apply(optimizer, gradients_at(step), rate)
    wanted = adamw(start(), beta1=0.9, beta2=0.99, epsilon=1e-8, decay=0.0, beyond=1000)
    for name, variable in variables.items():
        np.testing.assert_allclose(variable.numpy(), wanted[name], rtol=1e-5, atol=1e-5)


# 4. All of them.


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_weight_decay_leaves_scales_and_biases_alone(kind):
    values = {"bias": np.ones(4), "kernel": np.ones((4, 2))}
    variables, optimizer = make(kind, values, weight_decay=0.5, trust=1.0)
    apply(optimizer, {name: np.zeros_like(value) for name, value in values.items()}, 1.0)
    assert np.array_equal(variables["bias"].numpy(), np.ones(4))
    # The gradient is zero, so LARS decays with a trust of 1.
    assert np.array_equal(variables["kernel"].numpy(), np.full([4, 2], 0.5))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_update_is_the_same_inside_a_graph(kind):
    ends = []
    for wrap in (lambda f: f, lambda f: tf.function(f, autograph=False)):
        variables, optimizer = make(kind, start())
        update = wrap(optimizer.apply)
        for step, rate in enumerate(RATES):
            gradients = [tf.constant(g, tf.float32) for g in gradients_at(step).values()]
            update(gradients, tf.constant(rate))
        state = {**variables, **optimizer.state}
        ends.append({name: variable.numpy() for name, variable in state.items()})
    for name, value in ends[0].items():
        np.testing.assert_allclose(value, ends[1][name], rtol=1e-6, atol=1e-6, err_msg=name)
