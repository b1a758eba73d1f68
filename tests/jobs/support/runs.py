"""Runs as jobs leave them, without a job that runs, and what storage holds."""

import json

from jobs.azure.storage import listed, read_small
from jobs.azure.workspace import connect

ARM = "2024-10-01"


def container(live, role="results"):
    """Client of a container of the platform: raw, prepared or results."""
    storage = connect(live.outputs).storage
    return storage.container(getattr(storage.datastores, role))


def blobs(live, to):
    """What is in a folder such as prepared/imagenet, by name."""
    role, _, folder = to.partition("/")
    return listed(container(live, role), folder)


def content(live, name):
    """Content of a blob of the results; None if it is not there."""
    return read_small(container(live), name)


def answer(capsys):
    """The document that a command has printed for a program."""
    return json.loads(capsys.readouterr().out)


def put(live, files):
    """Write files into the container of results; gives its client."""
    client = container(live)
    for name, data in files.items():
        client.upload_blob(name, data, overwrite=True)
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
