"""`python -m jobs sweep`: trials as runs of their own, or as a file for `az ml job create`."""

from dataclasses import dataclass, replace
from typing import Annotated

from common.annotations import Bounds, Formerly, Positional, Required
from common.errors import ConfigError
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.commands.spec import described
from jobs.commands.submit import SubmitOptions
from jobs.console import Console
from jobs.errors import SpecError
from jobs.extras.sweep.sweep import read_sweep
from jobs.extras.sweep.trials import one_gpu, submit_trials
from jobs.spec import from_options


@dataclass(frozen=True)
class SweepOptions(SubmitOptions):
    """Train all combinations of values of options of the trainer: sweep
    optimizer.learning-rate=0.003,0.01,0.03 seed=0,1 --preset images-224-finetune [options of
    submit]. Each is a trial, on one GPU if the stack has a cluster of such nodes. With --submit,
    each trial is a separate run. Otherwise this prints a sweep of Azure Machine Learning as YAML
    for `az ml job create --file`, and writes its code to build/; Azure compares the trials on
    held-out images, by the first metric of their task.
    """

    varied: Annotated[tuple[str, ...], Positional("OPTION=VALUE,VALUE..."), Required()] = ()
    """Options of the trainer, each with the values that it takes."""

    submit: bool = False
    """Submit each trial as a separate run, whose key begins with --name. `supervise` submits it
    again if its Spot nodes are taken, and `compare` has all in one table and on one page. --budget
    is for all trials together, in equal parts. The same command again submits only trials that are
    missing."""

    concurrent: Annotated[int, Bounds(at_least=1), Formerly("sweep_concurrent")] = 1
    """Maximum number of trials at the same time in the YAML; each needs --nodes nodes. Those of
    --submit wait for free nodes of the cluster."""

    def check(self, program: tuple[str, ...]) -> None:
        """Check what varies, together with the trainer's options.

        Raises:
            ConfigError: It is invalid.
            SpecError: The job does not train.
        """
        super().check(program)
        config = from_options.read_config(self, program)
        if config is None:
            raise SpecError(["--kind: a check has no options to vary"])
        read_sweep(self.varied, config)
        if self.submit and self.name is None:
            raise ConfigError(["--name: is missing; the keys of all trials begin with it"])
        if self.budget is not None and not self.submit:
            raise ConfigError(["--budget: only the trials of --submit can keep it"])


def run(
    options: SweepOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Submit the trials, or print the sweep without sending requests to Azure."""
    if options.cluster is None and options.kind == "train":
        options = replace(options, cluster=one_gpu(outputs))
    spec, code, config = described(options, outputs, program)
    if config is None:
        raise SpecError(["--kind: a check has no options to vary"])
    if spec.ranks > 1 and spec.cluster.gpus_per_node:
        Console(as_json=as_json).note(
            f"note: each trial takes {plural(spec.ranks, 'GPU')}, of which a search makes less use"
            " than of as many trials; a cluster of nodes with one GPU is used if the stack has one"
        )
    if options.submit:
        sweep = read_sweep(options.varied, config)
        return submit_trials(options, outputs, sweep, as_json=as_json, program=program)
    # Imported here because importing the SDK takes seconds.
    from jobs.extras.sweep.sdk_job import sweep_to_yaml  # noqa: PLC0415

    sweep = read_sweep(options.varied, config)
    text, console = sweep_to_yaml(spec, code, sweep, options.concurrent), Console(as_json=as_json)
    console.note(f"{plural(sweep.trials, 'trial')}, at most {options.concurrent} at a time")
    console.answer({"job": spec.run, "trials": sweep.trials, "yaml": text}, text.rstrip())
    return 0
