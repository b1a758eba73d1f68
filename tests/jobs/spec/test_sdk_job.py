"""The result of the SDK for a spec: the files that `az ml job create` takes, and the body on the
wire.

`python -m tests.jobs.spec.test_sdk_job` writes the golden files anew; look at their differences.
"""

import tempfile
from pathlib import Path

import pytest

from tests.jobs.support import samples
from tests.jobs.support.platform import platform

pytest.importorskip("azure.ai.ml")

from azure.ai.ml import load_job

from jobs.errors import SnapshotError
from jobs.spec.sdk_job import command_job, to_yaml
from tests.jobs.support.wire import wire_body

GOLDEN = Path(__file__).parent / "golden"
CODE = Path("/snapshot")
"""Placeholder for the path of the code folder, which differs between machines."""
KINDS = samples.every_kind()


def golden(name):
    return GOLDEN / f"{name}.yml"


def written(spec):
    with tempfile.TemporaryDirectory() as folder:
        return to_yaml(spec, Path(folder)).replace(folder, str(CODE))


def body(job):
    """Return the request body, with local references resolved as the SDK does."""
    job.code, job.environment, job.compute = "/codes/1", "/environments/1", "/computes/1"
    for each in job.inputs.values():
        # A file's reference to a data asset loses its prefix, and gets it back on its way.
        if not each.path.startswith("azureml:"):
            each.path = f"azureml:{each.path}"
    return wire_body(job)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_job_is_as_its_golden_file_holds_it(name):
    assert written(KINDS[name]) == golden(name).read_text()


def test_there_is_no_golden_file_of_a_job_that_is_no_more():
    assert {path.stem for path in GOLDEN.iterdir()} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_the_file_is_loaded_as_the_same_job(name, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    file = tmp_path / "job.yml"
    file.write_text(to_yaml(KINDS[name], code))
    # `load_job` checks the file by the schema that the command line uses, unknown keys included.
    loaded = load_job(file)._to_job()
    assert body(loaded) == body(command_job(KINDS[name], code))


def test_the_body_says_what_the_spec_says():
    spec = samples.tuned(platform(profile="allowlisted", dedicated=True))
    sent = body(command_job(spec, CODE))
    assert sent["command"] == spec.command
    assert sent["environmentVariables"] == spec.variables
    assert sent["tags"] == spec.tags
    assert sent["identity"] == {
        "identityType": "Managed", "clientId": spec.cluster.identity_client_id
    }  # fmt: skip
    assert sent["distribution"] == {"distributionType": "Mpi", "processCountPerInstance": 8}
    assert sent["limits"] == {"jobLimitsType": "Command", "timeout": "PT12H30M"}
    resources = sent["resources"]
    assert (resources["instanceCount"], resources["shmSize"], resources["dockerArgs"]) == (
        2, "128g", "--ulimit memlock=-1"
    )  # fmt: skip
    assert sent["inputs"]["data"] == {
        "jobInputType": "uri_folder", "mode": "ReadOnlyMount", "uri": spec.inputs["data"].uri
    }  # fmt: skip
    assert sent["outputs"]["run"] == {
        "jobOutputType": "uri_folder", "mode": "ReadWriteMount", "uri": spec.outputs["run"].uri
    }  # fmt: skip
    assert {kind["jobServiceType"] for kind in sent["services"].values()} == {
        "SSH", "VSCode", "JupyterLab"
    }  # fmt: skip


def test_a_file_without_its_code_is_not_written(tmp_path):
    with pytest.raises(SnapshotError, match="is not a folder"):
        to_yaml(KINDS["smoke"], tmp_path / "missing")


def test_no_job_turns_to_a_queue_that_would_override_its_cluster():
    assert not any("queue_settings" in golden(name).read_text() for name in KINDS)


if __name__ == "__main__":
    for each, made in KINDS.items():
        golden(each).write_text(written(made))
