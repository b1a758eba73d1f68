"""The cycle of a platform: from nothing to a trained and registered model, and back to nothing.

Each step is what a person does, by the commands of the README, and a look at what must have come of
it. A step gives back what it found, in a few words.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rehearsal.cycle import platform_steps, training_steps
from rehearsal.cycle.context import Scene
from rehearsal.cycle.findings import Found


@dataclass(frozen=True)
class Step:
    """One step."""

    name: str
    title: str
    command: str
    """As a person gives it."""
    take: Callable[[Scene], Found]


STEPS: Final = (
    Step("preview", "See what would be deployed", "python -m jobs preview", platform_steps.preview),
    Step("up", "Deploy the platform", "python -m jobs up", platform_steps.deploy),
    Step(
        "up-again", "Deploy it again", "pulumi up --expect-no-changes", platform_steps.deploy_again
    ),
    Step(
        "outputs",
        "Read its outputs",
        "pulumi stack output platform --json",
        platform_steps.read_outputs,
    ),
    Step(
        "preflight",
        "Look whether a run could start",
        "python -m jobs preflight",
        training_steps.preflight,
    ),
    Step(
        "prepare", "Prepare a data set", "python -m trainer prepare digits", training_steps.prepare
    ),
    Step("upload", "Upload and register it", "python -m jobs upload", training_steps.upload),
    Step(
        "train",
        "Train, and lose the nodes",
        "python -m jobs submit --preset digits --nodes 2",
        training_steps.train,
    ),
    Step(
        "scale-down",
        "Wait until no node is left",
        "python -m jobs status",
        training_steps.scale_down,
    ),
    Step(
        "tensorboard",
        "Look at the curves",
        "python -m jobs tensorboard",
        training_steps.look_at_curves,
    ),
    Step("download", "Download what it left", "python -m jobs download", training_steps.download),
    Step(
        "evaluate", "Evaluate the model here", "python -m trainer evaluate", training_steps.evaluate
    ),
    Step("register", "Register the model", "python -m jobs register", training_steps.register),
    Step(
        "change", "Change a setting", "pulumi config set, python -m jobs up", platform_steps.change
    ),
    Step(
        "drift",
        "Find what somebody edited",
        "pulumi refresh --preview-only --diff",
        platform_steps.drift,
    ),
    Step("teardown", "Tear everything down", "python -m jobs teardown", platform_steps.teardown),
    Step(
        "teardown-again",
        "Tear it down again",
        "python -m jobs teardown",
        platform_steps.teardown_again,
    ),
)
"""In their order."""
