"""Act as a user of the real SDK, with nothing but environment variables to find Azure."""

import json
import sys
import time
from pathlib import Path

from azure.ai.ml import Input, MLClient, MpiDistribution, Output, command
from azure.ai.ml.constants import AssetTypes
from azure.ai.ml.entities import Data, Environment, Model
from azure.core.exceptions import ResourceNotFoundError
from azure.identity import EnvironmentCredential
from azure.storage.blob import ContainerClient

facts = json.loads(sys.argv[1])
folder = Path(sys.argv[2])
credential = EnvironmentCredential(disable_instance_discovery=True)
ml = MLClient(credential, facts["subscription"], facts["group"], facts["workspace"])
said = {}

said["workspace"] = ml.workspaces.get(facts["workspace"]).name
compute = ml.compute.get(facts["cluster"])
said["compute"] = [compute.size, compute.tier, compute.max_instances]
try:
    ml.compute.get("nobody")
except ResourceNotFoundError as error:
    said["missing"] = error.status_code
said["usage"] = sum(1 for _ in ml.compute.list_usage())

ml.environments.create_or_update(Environment(name="image", version="1", image="x:1"))
said["image"] = ml.environments.get("image", "1").image
results = f"azureml://datastores/{facts['datastore']}/paths"
data = Data(name="digits", version="1", type=AssetTypes.URI_FOLDER, path=f"{results}/digits/")
ml.data.create_or_update(data)
said["data"] = ml.data.get("digits", version="1").path
said["latest"] = ml.data.get("digits", label="latest").version
model = Model(name="resnet", version="3", type=AssetTypes.CUSTOM_MODEL, path=f"{results}/model/")
ml.models.create_or_update(model)
said["model"] = ml.models.get("resnet", version="3").version

container = ContainerClient(
    facts["endpoint"], facts["container"], credential=EnvironmentCredential(
        disable_instance_discovery=True
    )
)  # fmt: skip
container.upload_blob("digits/one.txt", b"1", overwrite=True)
said["blobs"] = [blob.name for blob in container.list_blobs()]

code = folder / "code"
code.mkdir()
(code / "say.sh").write_text("echo hello $(cat $1/one.txt) $2\n")


def job(name, line):
    return command(
        name=name,
        code=str(code),
        command=line,
        environment="azureml:image:1",
        compute=facts["cluster"],
        instance_count=facts["nodes"],
        distribution=MpiDistribution(process_count_per_instance=1),
        inputs={"data": Input(type="uri_folder", path="azureml:digits:1", mode="ro_mount")},
        outputs={"run": Output(type="uri_folder", path=f"{results}/runs/x", mode="rw_mount")},
    )


def ended(name):
    while (status := ml.jobs.get(name).status) not in {"Completed", "Failed", "Canceled"}:
        time.sleep(0.1)
    return status


first = job("first", "sh say.sh ${{inputs.data}} ${{outputs.run}}")
said["submitted"] = ml.jobs.create_or_update(first).status
said["got"] = ml.jobs.get("first").name
said["listed"] = [job.name for job in ml.jobs.list()]
said["ended"] = ended("first")
ml.jobs.create_or_update(job("endless", "sleep 600"))
ml.jobs.begin_cancel("endless").wait()
said["cancelled"] = ended("endless")
print(json.dumps(said))
