"""Convert a JobSpec to YAML for `az ml job create`, with the SDK.

The job is built as a `CommandJob` and not with `command()`, which creates a pipeline step: that
accepts unknown arguments, ignores inputs that are set later, and is written as YAML that cannot be
loaded again.
"""

import io
from pathlib import Path
from typing import TypeAlias

from azure.ai.ml import Input, MpiDistribution, Output
from azure.ai.ml.entities import (
    CommandJob,
    CommandJobLimits,
    JobResourceConfiguration,
    JobService,
    JupyterLabJobService,
    ManagedIdentityConfiguration,
    SshJobService,
    TensorBoardJobService,
    VsCodeJobService,
)
from azure.ai.ml.sweep import Choice, Objective, SweepJob, SweepJobLimits

from jobs.errors import SnapshotError
from jobs.spec.job_spec import JobSpec, Services
from jobs.sweep.sweep import Sweep

_Service: TypeAlias = (
    JobService | JupyterLabJobService | SshJobService | TensorBoardJobService | VsCodeJobService
)
"""The SDK's types of services."""

SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
"""Schema by which editors validate the YAML."""
SWEEP_SCHEMA = "https://azuremlschemas.azureedge.net/latest/sweepJob.schema.json"
"""Schema of sweeps."""


def command_job(spec: JobSpec, code: Path) -> CommandJob:
    """Convert a job to the SDK's type.

    Args:
        spec: Job to run.
        code: Folder of the code snapshot, which is uploaded when the job is submitted.
    """
    return CommandJob(
        name=spec.name,
        display_name=spec.display_name,
        experiment_name=spec.experiment,
        description=spec.description,
        tags=dict(spec.tags),
        code=str(code.absolute()),
        command=spec.command,
        environment=f"azureml:{spec.environment}",
        environment_variables=dict(spec.variables),
        compute=spec.cluster.name,
        resources=JobResourceConfiguration(
            instance_count=spec.nodes, shm_size=spec.shm_size, docker_args=spec.docker_args
        ),
        distribution=(
            None
            if spec.processes_per_node is None
            else MpiDistribution(process_count_per_instance=spec.processes_per_node)
        ),
        inputs={
            name: Input(type="uri_folder", path=folder.uri, mode=folder.mode)
            for name, folder in spec.inputs.items()
        },
        outputs={
            name: Output(type="uri_folder", path=folder.uri, mode=folder.mode)
            for name, folder in spec.outputs.items()
        },
        limits=CommandJobLimits(timeout=spec.timeout_seconds),
        identity=ManagedIdentityConfiguration(client_id=spec.cluster.identity_client_id),
        services=_services(spec.services),
    )


def sweep_job(spec: JobSpec, code: Path, sweep: Sweep, concurrent: int) -> SweepJob:
    """Convert a training to a sweep of the SDK's type, whose trials vary its options.

    Args:
        spec: Job of one trial.
        code: Folder of the code snapshot.
        sweep: What varies.
        concurrent: Maximum number of trials at the same time.

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
        identity=ManagedIdentityConfiguration(client_id=spec.cluster.identity_client_id),
        sampling_algorithm="grid",
        search_space={name: Choice(values=list(values)) for name, values in sweep.space.items()},
        objective=Objective(goal="maximize", primary_metric=sweep.metric),
        limits=SweepJobLimits(
            max_total_trials=sweep.trials,
            max_concurrent_trials=concurrent,
            trial_timeout=spec.timeout_seconds,
        ),
    )


def to_yaml(spec: JobSpec, code: Path) -> str:
    """Convert a job to YAML for `az ml job create --file`; see `command_job` for the arguments.

    Raises:
        SnapshotError: The folder does not exist; the SDK would take it for the name of an asset.
    """
    return _dumped(command_job(spec, code), code, SCHEMA)


def sweep_to_yaml(spec: JobSpec, code: Path, sweep: Sweep, concurrent: int) -> str:
    """Convert a sweep to YAML for `az ml job create --file`; see `sweep_job` for the arguments.

    Raises:
        SnapshotError: The folder does not exist.
        SpecError: The job cannot be a trial.
    """
    return _dumped(sweep_job(spec, code, sweep, concurrent), code, SWEEP_SCHEMA)


def _dumped(job: CommandJob | SweepJob, code: Path, schema: str) -> str:
    if not code.is_dir():
        raise SnapshotError(f"{code}: is not a folder, so there is no code to run")
    text = io.StringIO()
    job.dump(text)
    return f"$schema: {schema}\n{text.getvalue().rstrip()}\n"


def _services(asked: Services) -> dict[str, _Service] | None:
    services: dict[str, _Service] = {}
    if asked.ssh_public_key is not None:
        services["ssh"] = SshJobService(ssh_public_keys=asked.ssh_public_key, nodes="all")
    if asked.vs_code:
        services["vs_code"] = VsCodeJobService(nodes="all")
    if asked.jupyter_lab:
        services["jupyter_lab"] = JupyterLabJobService(nodes="all")
    return services or None
