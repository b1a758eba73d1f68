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
    Job,
    JobResourceConfiguration,
    JobService,
    JupyterLabJobService,
    ManagedIdentityConfiguration,
    SshJobService,
    TensorBoardJobService,
    VsCodeJobService,
)

from jobs.errors import SnapshotError
from jobs.options import ServiceOptions
from jobs.spec.job_spec import JobSpec

_Service: TypeAlias = (
    JobService | JupyterLabJobService | SshJobService | TensorBoardJobService | VsCodeJobService
)
"""The SDK's types of services."""

SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
"""Schema by which editors validate the YAML."""


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


def to_yaml(spec: JobSpec, code: Path) -> str:
    """Convert a job to YAML for `az ml job create --file`; see `command_job` for the arguments.

    Raises:
        SnapshotError: The folder does not exist; the SDK would take it for the name of an asset.
    """
    return dumped(command_job(spec, code), code, SCHEMA)


def dumped(job: Job, code: Path, schema: str) -> str:
    """Write a job of the SDK as YAML; see `to_yaml` for the errors."""
    if not code.is_dir():
        raise SnapshotError(f"{code}: is not a folder, so there is no code to run")
    text = io.StringIO()
    job.dump(text)
    return f"$schema: {schema}\n{text.getvalue().rstrip()}\n"


def _services(asked: ServiceOptions) -> dict[str, _Service] | None:
    services: dict[str, _Service] = {}
    if asked.ssh_public_key is not None:
        services["ssh"] = SshJobService(ssh_public_keys=asked.ssh_public_key, nodes="all")
    if asked.vs_code:
        services["vs_code"] = VsCodeJobService(nodes="all")
    if asked.jupyter_lab:
        services["jupyter_lab"] = JupyterLabJobService(nodes="all")
    return services or None
