"""A registered model for deployments."""

from tests.jobs.support.runs import put

ARM = "2024-10-01"


def register_model(live, name, version, graph="graph", store=None):
    """Register a model with a SavedModel of these bytes."""
    folder = f"models/{name}/{version}"
    put(live, {f"{folder}/saved_model/saved_model.pb": graph.encode()})
    store = store or live.outputs.datastores.results.name
    live.azure.put(f"{live.workspace}/models/{name}/versions/{version}", ARM, {"properties": {
        "modelType": "custom_model", "modelUri": f"azureml://datastores/{store}/paths/{folder}",
    }})  # fmt: skip
    return f"{name}:{version}"
