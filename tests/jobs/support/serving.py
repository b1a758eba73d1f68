"""Registered models for deployments, and their endpoints."""

from tests.jobs.support.runs import put

ARM = "2024-10-01"
KIND = "Microsoft.MachineLearningServices/workspaces/onlineEndpoints"


def register_model(live, name, version, graph="graph", store=None):
    """Register a model with a SavedModel of these bytes."""
    put(live, {f"models/{name}/{version}/saved_model/saved_model.pb": graph.encode()})
    return register_version(live, name, version, store or live.outputs.datastores.results.name)


def register_version(live, name, version, store):
    """Register a model whose files are in a datastore."""
    uri = f"azureml://datastores/{store}/paths/models/{name}/{version}"
    body = {"properties": {"modelType": "custom_model", "modelUri": uri}}
    live.azure.put(f"{live.workspace}/models/{name}/versions/{version}", ARM, body)
    return f"{name}:{version}"


def delete_endpoints(live):
    """Delete the leftovers of a test: names are unique in the region."""
    live.azure.admin.clear_faults()
    for endpoint in live.azure.resources.of_kind(KIND):
        for one in live.azure.resources.of_kind(f"{KIND}/deployments", endpoint["id"]):
            live.azure.servers.stop(one["id"])
        live.azure.resources.discard(endpoint["id"])
