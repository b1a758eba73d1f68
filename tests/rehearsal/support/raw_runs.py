"""Jobs of a line of shell in a deployed workspace, by raw requests."""

from rehearsal.machine_learning.run_history import ENDED
from tests.rehearsal.support.small_platform import Client
from tests.rehearsal.support.waiting import until


class Runs:
    """Submits jobs of a line of shell, as the clusters' own identities."""

    def __init__(self, azure, deployed):
        self._client, self._deployed, self._number = Client(azure), deployed, 0

    def job(self, cluster, line, **folders):
        """Run a job to its end; its record.

        Args:
            cluster: such as `gpu`.
            line: to run.
            folders: datastore by name; read by `reads_...` and written by `writes_...`.
        """
        self._number += 1
        name = f"{cluster}-{self._number}"
        where = self._deployed.workspace
        node_cluster = self._deployed.outputs.clusters[cluster]
        body = {
            "jobType": "Command",
            "command": line,
            "computeId": f"{where}/computes/{node_cluster.name}",
            "environmentId": f"{where}/environments/image/versions/1",
            "identity": {"identityType": "Managed", "clientId": node_cluster.identity_client_id},
            "inputs": {
                name: self._folder("Input", "in", store)
                for name, store in folders.items()
                if name.startswith("reads_")
            },
            "outputs": {
                name: self._folder("Output", "runs/out", store)
                for name, store in folders.items()
                if name.startswith("writes_")
            },
        }
        path = f"{where}/jobs/{name}"
        assert self._client.put(path, {"properties": body}).status_code == 201
        return self._wait(path)

    def _folder(self, kind, path, store):
        datastore = getattr(self._deployed.outputs.datastores, store).name
        uri = f"azureml://datastores/{datastore}/paths/{path}"
        return {f"job{kind}Type": "uri_folder", "mode": "Mount", "uri": uri}

    def _wait(self, path):
        workspace, _, name = path.rpartition("/jobs/")
        details = f"/history/v1.0{workspace}/runs/{name}/details"
        until(lambda: self._client.get(details).json()["status"] in ENDED)
        return self._client.get(details).json()


def failure(ended):
    assert ended["status"] == "Failed"
    assert ended["logFiles"] == {}, "its program was started"
    return ended["error"]["error"]["message"]
