"""Convert a sweep to YAML for `az ml job create`, with the SDK."""

from pathlib import Path
from typing import Final, cast

from azure.ai.ml import ManagedIdentityConfiguration
from azure.ai.ml.sweep import Choice, Objective, SweepJob, SweepJobLimits

from jobs.extras.sweep.sweep import Sweep
from jobs.spec.job_spec import JobSpec
from jobs.spec.sdk_job import command_job, dumped

_SCHEMA: Final = "https://azuremlschemas.azureedge.net/latest/sweepJob.schema.json"
"""Schema by which editors validate the YAML."""


def sweep_job(spec: JobSpec, code: Path, sweep: Sweep, concurrent: int) -> SweepJob:
    """Convert a job that trains to a sweep of the SDK's type, whose trials vary its options.

    Raises:
        SpecError: The job cannot be a trial.
    """
    trial = command_job(spec, code)
    trial.command = sweep.command(spec)
    tags = {key: value for key, value in spec.tags.items() if key not in ("run", "attempt")}
    return SweepJob(
        name=spec.run,
        display_name=f"{spec.run}, sweep",
        experiment_name=spec.experiment,
        description=spec.description,
        tags=tags,
        compute=spec.cluster.name,
        trial=trial,
        inputs=trial.inputs,
        outputs=trial.outputs,
        identity=cast("ManagedIdentityConfiguration", trial.identity),
        sampling_algorithm="grid",
        search_space={name: Choice(values=list(values)) for name, values in sweep.space.items()},
        objective=Objective(goal="maximize", primary_metric=sweep.metric),
        limits=SweepJobLimits(
            max_total_trials=sweep.trials,
            max_concurrent_trials=concurrent,
            trial_timeout=spec.timeout_seconds,
        ),
    )


def sweep_to_yaml(spec: JobSpec, code: Path, sweep: Sweep, concurrent: int) -> str:
    """Convert a sweep to YAML for `az ml job create --file`; see `sweep_job` for the arguments.

    Raises:
        SnapshotError: The folder does not exist.
        SpecError: The job cannot be a trial.
    """
    return dumped(sweep_job(spec, code, sweep, concurrent), code, _SCHEMA)
