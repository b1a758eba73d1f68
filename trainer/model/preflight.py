"""Checks of a network's files that need no TensorFlow, before anything is started."""

from importlib.util import find_spec
from pathlib import Path

from common.errors import ConfigError
from trainer.config import ModelConfig


def check_model_files(config: ModelConfig, *, resumes: bool) -> None:
    """Check that the package of the builder and the file of initial weights exist.

    Args:
        config: The network.
        resumes: Whether the run continues; then it reads no initial weights, and has kept the code
            of its network.

    Raises:
        ConfigError: One of them is missing; lists both.
    """
    problems = []
    if config.builder is not None and not resumes:
        package = config.builder.partition(":")[0].partition(".")[0]
        if find_spec(package) is None:
            problems.append(
                f"--model.builder: there is no package or module {package}; start the training in"
                " the folder that contains it"
            )
    if config.weights is not None and not resumes and not Path(config.weights).is_file():
        problems.append(f"--model.weights: {config.weights} does not exist; name a file")
    if problems:
        raise ConfigError(problems)
