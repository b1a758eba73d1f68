"""The contract with those who train: read back as it was written, and strict about the rest."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import outputs
from infra.errors import OutputsError
from infra.outputs import PlatformOutputs

GUID = "00000000-0000-4000-8000-00000000000a"


def example() -> PlatformOutputs:
    def cluster(name, duty, size, gpus, priority):
        return outputs.Cluster(name, duty, size, gpus, gpus > 0, priority, 4, GUID)

    def store(container, account, role):
        endpoint = f"https://{account}.blob.core.windows.net/"
        return outputs.Datastore(f"data_{container}", account, endpoint, container, role)

    return PlatformOutputs(
        tenant_id=GUID,
        subscription_id=GUID,
        resource_group="hvd-dev-rg",
        region="westeurope",
        stack="dev",
        workspace="hvd-dev-ml-abcdef",
        clusters={
            "gpu": cluster("gpu-abcdef", "train", "Standard_ND40rs_v2", 8, "LowPriority"),
            "preparation": cluster("prep-abc", "prepare", "Standard_D16ads_v5", 0, "Dedicated"),
            "build": cluster("build-abcdef", "build", "Standard_D4ads_v5", 0, "Dedicated"),
        },
        datastores=outputs.Datastores(
            raw=store("raw", "hvddevdata", "read"),
            prepared=store("prepared", "hvddevdata", "read"),
            results=store("results", "hvddevstd", "write"),
        ),
        identities=outputs.Identities(GUID, GUID, GUID, GUID),
        registry_login_server="hvddevacr.azurecr.io",
        vault_uri="https://hvd-dev-kv.vault.azure.net/",
        access=outputs.Access("private", (), ()),
    )


def written(**changes):
    return json.loads(json.dumps(outputs.to_dict(example()))) | changes


def test_what_was_written_is_read_back_through_json():
    assert outputs.from_dict(written()) == example()


@given(st.integers(1, 100), st.booleans(), st.sampled_from(["private", "allowlisted"]))
def test_any_stack_is_read_back_through_json(nodes, twin, profile):
    base = example()
    gpu = dataclasses.replace(base.clusters["gpu"], max_nodes=nodes)
    clusters = {**base.clusters, "gpu": gpu} | ({"twin": gpu} if twin else {})
    access = outputs.Access(profile, ("20.103.0.0/24",), ("workspace", "default_storage"))
    changed = dataclasses.replace(base, clusters=clusters, access=access)
    assert outputs.from_dict(json.loads(json.dumps(outputs.to_dict(changed)))) == changed


def test_a_stack_without_a_duty_has_no_identity_for_it():
    data = written(identities={"workspace": GUID, "training": GUID, "build": GUID})
    assert outputs.from_dict(data).identities == outputs.Identities(GUID, GUID, None, GUID)


def test_whole_numbers_that_pulumi_hands_on_as_fractions_are_whole_again():
    data = written()
    data["clusters"]["gpu"] |= {"gpus_per_node": 8.0, "max_nodes": 4.0}
    gpu = outputs.from_dict(data | {"schema_version": 2.0}).clusters["gpu"]
    assert (type(gpu.max_nodes), gpu.max_nodes) == (int, 4)


def test_every_problem_is_told_at_once():
    data = written(tenant_id="common", vault_uri="http://vault", extra=1)
    del data["workspace"]
    data["clusters"]["gpu"]["max_nodes"] = "4"
    data["clusters"]["gpu"]["priority"] = "Spot"
    data["access"]["profile"] = "open"
    with pytest.raises(OutputsError) as caught:
        outputs.from_dict(data)
    keys = sorted(problem.partition(":")[0] for problem in caught.value.problems)
    assert keys == [
        "access.profile", "clusters.gpu.max_nodes", "clusters.gpu.priority", "extra", "tenant_id",
        "vault_uri", "workspace",
    ]  # fmt: skip


@pytest.mark.parametrize("version", [1, 3, 3.0])
def test_another_version_is_refused_with_what_to_do(version):
    with pytest.raises(
        OutputsError, match=r"exported version \S+, but this project reads version 2; use"
    ):
        outputs.from_dict(written(schema_version=version, anything="else"))


def test_outputs_without_a_version_are_refused():
    data = written()
    del data["schema_version"]
    with pytest.raises(OutputsError, match="schema_version: is missing"):
        outputs.from_dict(data)


def test_an_address_that_carries_a_signature_is_refused():
    data = written()
    data["datastores"]["raw"]["blob_endpoint"] += "?sv=2024&sig=abc"
    with pytest.raises(OutputsError, match=r"datastores\.raw\.blob_endpoint"):
        outputs.from_dict(data)


def test_no_key_could_hold_a_secret():
    def keys(data):
        for key, value in data.items():
            yield key
            if isinstance(value, dict):
                yield from keys(value)

    names = " ".join(keys(written()))
    for word in ("key", "secret", "password", "token", "sas", "connection", "credential"):
        assert word not in names


def test_what_costs_money_without_a_node_is_named():
    assert example().standing_costs == ()
    machine = outputs.JumpMachine("/subscriptions/s/x/hvd-dev-jump", "/x/bastion", "19:00 UTC")
    [line] = dataclasses.replace(example(), jump_machine=machine).standing_costs
    assert line.startswith("jump machine hvd-dev-jump: costs money while it runs, off at 19:00 UTC")
