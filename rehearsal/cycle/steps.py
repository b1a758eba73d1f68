"""The life cycle of a platform: from nothing to a trained and registered model, and back to
nothing.

Each step runs a command of the documents as a user would, and checks its result. A step returns its
findings in short lines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rehearsal.cycle import platform_steps, training_steps
from rehearsal.cycle.context import CycleContext, Findings


@dataclass(frozen=True)
class CycleStep:
    """One step of the cycle."""

    name: str
    title: str
    command: str
    """Command as a user would type it."""
    run: Callable[[CycleContext], Findings]


STEPS: Final = (
    CycleStep(
        "preview", "Preview the deployment", "python -m jobs preview", platform_steps.preview
    ),
    CycleStep("up", "Deploy the platform", "python -m jobs up", platform_steps.deploy),
    CycleStep(
        "up-again", "Deploy it again", "pulumi up --expect-no-changes", platform_steps.deploy_again
    ),
    CycleStep(
        "outputs",
        "Read the stack's outputs",
        "pulumi stack output platform --json",
        platform_steps.read_outputs,
    ),
    CycleStep(
        "preflight",
        "Check that a run can start",
        "python -m jobs preflight",
        training_steps.preflight,
    ),
    CycleStep(
        "prepare", "Prepare a data set", "python -m trainer prepare digits", training_steps.prepare
    ),
    CycleStep(
        "upload",
        "Upload and register the data set",
        "python -m jobs upload",
        training_steps.upload,
    ),
    CycleStep(
        "train",
        "Train through a pre-emption",
        "python -m jobs submit --preset digits --nodes 2",
        training_steps.train,
    ),
    CycleStep(
        "stacks",
        "Look into a running training",
        "python -m jobs stacks",
        training_steps.look_into,
    ),
    CycleStep(
        "scale-down",
        "Wait for scale-down to zero nodes",
        "python -m jobs status",
        training_steps.scale_down,
    ),
    CycleStep("cost", "Show what it cost", "python -m jobs cost", training_steps.costs),
    CycleStep(
        "tensorboard",
        "Show the curves in TensorBoard",
        "python -m jobs tensorboard",
        training_steps.look_at_curves,
    ),
    CycleStep(
        "download", "Download the results", "python -m jobs download", training_steps.download
    ),
    CycleStep(
        "evaluate",
        "Evaluate the downloaded model",
        "python -m trainer evaluate",
        training_steps.evaluate,
    ),
    CycleStep("register", "Register the model", "python -m jobs register", training_steps.register),
    CycleStep(
        "change", "Change a setting", "pulumi config set, python -m jobs up", platform_steps.change
    ),
    CycleStep(
        "drift",
        "Detect and repair drift",
        "python -m jobs drift",
        platform_steps.drift,
    ),
    CycleStep(
        "teardown", "Tear down the platform", "python -m jobs teardown", platform_steps.teardown
    ),
    CycleStep(
        "teardown-again",
        "Tear it down again",
        "python -m jobs teardown",
        platform_steps.teardown_again,
    ),
)
"""All steps, in order."""
