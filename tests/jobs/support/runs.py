"""Runs as jobs leave them, without a job that runs."""

from jobs.azure.storage import container
from jobs.azure.workspace import connect

ARM = "2024-10-01"


def put(live, files):
    """Write files into the container of results; gives its client."""
    client = container(live.outputs.datastores.results, connect(live.outputs).credential)
    for name, content in files.items():
        client.upload_blob(name, content, overwrite=True)
    return client


def declare_job(live, name, tags, command="true"):
    """Submit a job of one command to the CPU cluster."""
    azure, workspace = live.azure, live.workspace
    azure.put(f"{workspace}/environments/plain", ARM, {"properties": {}})
    azure.put(f"{workspace}/environments/plain/versions/1", ARM, {"properties": {"image": "p"}})
    cluster = live.outputs.clusters.preparation.name
    azure.put(f"{workspace}/jobs/{name}", ARM, {"properties": {
        "jobType": "Command", "command": command, "tags": tags, "experimentName": "x",
        "environmentId": f"{workspace}/environments/plain/versions/1",
        "computeId": f"{workspace}/computes/{cluster}",
        "resources": {"instanceCount": 1}}})  # fmt: skip
