"""Create the results of runs in storage without running jobs, and read storage."""

import json

from jobs.azure.storage import listed, read_small
from jobs.azure.workspace import connect

ARM = "2024-10-01"


def container(live, role="results"):
    """Create a client of a container of the platform: raw, prepared or results."""
    storage = connect(live.outputs).storage
    return storage.container(getattr(storage.datastores, role))


def blobs(live, to):
    """List the blobs in a folder such as prepared/imagenet, by name."""
    role, _, folder = to.partition("/")
    return listed(container(live, role), folder)


def content(live, name):
    """Read a blob in the container of results; None if it does not exist."""
    return read_small(container(live), name)


def answer(capsys):
    """Parse the JSON document that a command printed."""
    return json.loads(capsys.readouterr().out)


def put(live, files):
    """Write files to the container of results; return its client."""
    client = container(live)
    for name, data in files.items():
        client.upload_blob(name, data, overwrite=True)
    return client


def declare_job(live, name, tags, command="true"):
    """Submit a job of one command to the CPU cluster."""
    azure, workspace = live.azure, live.workspace
    azure.put(f"{workspace}/environments/plain", ARM, {"properties": {}})
    azure.put(f"{workspace}/environments/plain/versions/1", ARM, {"properties": {"image": "p"}})
    cluster = live.outputs.clusters["preparation"].name
    azure.put(f"{workspace}/jobs/{name}", ARM, {"properties": {
        "jobType": "Command", "command": command, "tags": tags, "experimentName": "x",
        "environmentId": f"{workspace}/environments/plain/versions/1",
        "computeId": f"{workspace}/computes/{cluster}",
        "resources": {"instanceCount": 1}}})  # fmt: skip
