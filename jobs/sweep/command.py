"""`python -m jobs sweep`: a sweep as a file for `az ml job create`, without submitting it."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Formerly, Positional, Required
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.commands.spec import SpecOptions, described
from jobs.console import Console
from jobs.errors import SpecError
from jobs.spec import from_options
from jobs.sweep.sweep import read_sweep


@dataclass(frozen=True)
class SweepOptions(SpecOptions):
    """Print a sweep as YAML for `az ml job create --file`, whose trials are all combinations of
    values of options of the trainer: sweep optimizer.learning-rate=0.1,0.2,0.4
    optimizer.momentum=0.9,0.95 [options of submit]. Azure Machine Learning runs the trials, and
    compares them on held-out images, by the first metric of their task. The code that the YAML
    refers to is written to build/.
    """

    varied: Annotated[tuple[str, ...], Positional("OPTION=VALUE,VALUE..."), Required()] = ()
    """Options of the trainer, each with the values that it takes."""

    concurrent: Annotated[int, Bounds(at_least=1), Formerly("sweep_concurrent")] = 1
    """Maximum number of trials at the same time; each needs --nodes nodes."""

    def check(self, program: tuple[str, ...]) -> None:
        """Check what varies, together with the trainer's options.

        Raises:
            ConfigError: It is invalid.
            SpecError: The job does not train.
        """
        config = from_options.read_config(self, program)
        if config is None:
            raise SpecError(["--kind: a check has no options to vary"])
        read_sweep(self.varied, config)


def run(
    options: SweepOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Print the sweep without sending requests to Azure."""
    spec, code, config = described(options, outputs, program)
    if config is None:
        raise SpecError(["--kind: a check has no options to vary"])
    # Imported here because importing the SDK takes seconds.
    from jobs.sweep.sdk_job import sweep_to_yaml  # noqa: PLC0415

    sweep = read_sweep(options.varied, config)
    text, console = sweep_to_yaml(spec, code, sweep, options.concurrent), Console(as_json=as_json)
    console.note(f"{plural(sweep.trials, 'trial')}, at most {options.concurrent} at a time")
    console.answer({"job": spec.run, "trials": sweep.trials, "yaml": text}, text.rstrip())
    return 0
