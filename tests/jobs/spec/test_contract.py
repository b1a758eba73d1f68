"""The contract from both sides: every kind of job is built from the outputs of every deployment."""

import json

import pytest

from infra import outputs
from jobs.options import JobOptions
from jobs.spec import kinds
from jobs.spec.sdk_job import command_job
from tests.infra.support.stacks import ran
from tests.infra.support.variants import OPTIONS, SIZES
from tests.jobs.support import samples
from tests.jobs.support.platform import FIRST, SOFTWARE

STACKS = {
    "prod": ("prod", {}),
    **{f"dev, {name}": ("dev", changed) for name, changed in (OPTIONS | SIZES).items()},
}


@pytest.fixture(params=STACKS)
def stack(request):
    """Return a stack's outputs as Pulumi's engine writes them."""
    name, changed = STACKS[request.param]
    return outputs.from_dict(json.loads(json.dumps(ran(name, **changed).platform)))


def test_every_kind_of_job_is_built_from_what_a_stack_exports(stack, tmp_path):
    specs = []
    if "prepare" in {cluster.duty for cluster in stack.clusters.values()}:
        specs += [
            samples.preparation(stack),
            samples.folder_preparation(stack),
            samples.scoring(stack),
        ]
    for key, cluster in stack.clusters.items():
        if cluster.duty == "train":
            options = JobOptions(nodes=cluster.max_nodes, cluster=key)
            specs += [
                samples.smoke(stack, cluster=key),
                *(samples.training(n, stack, cluster=key) for n in {1, cluster.max_nodes}),
                kinds.train(stack, samples.SYNTHETIC, options, FIRST, SOFTWARE, "benchmark"),
                kinds.check(stack, options, FIRST, SOFTWARE),
            ]
    for spec in specs:
        job = command_job(spec, tmp_path)
        cluster = spec.cluster
        prepares = spec.kind in ("prepare", "score")
        assert cluster.duty == ("prepare" if prepares else "train")
        assert (job.compute, job.identity.client_id) == (cluster.name, cluster.identity_client_id)
        if spec.cluster.gpus_per_node:
            assert job.distribution.process_count_per_instance == cluster.gpus_per_node
        stores = {one.name for one in vars(stack.datastores).values()}
        folders = [*spec.inputs.values(), *spec.outputs.values()]
        used = {folder.uri.split("/")[3] for folder in folders if "/" in folder.uri}
        assert used <= stores
        written = {folder.uri.split("/")[3] for folder in spec.outputs.values()}
        # Shards are written as the preparation's own identity; the training's may only read them.
        own = {stack.datastores.prepared.name} if prepares else set()
        allowed = {one.name for one in vars(stack.datastores).values() if one.role == "write"}
        assert written <= allowed | own
