"""Prerequisites of a stack in Azure before its first resource is made."""

from infra import prerequisites
from infra.validation import load
from tests.infra.support.configurations import GROUP, STORAGE, VAULT, configured, stack_file


def asked(*changes):
    return prerequisites.of(load(configured(*changes)))


def test_each_name_that_must_be_unique_in_azure_is_asked_for():
    needs = asked()
    settings = load(configured())
    assert {(name.kind.partition("/")[0], name.name, name.resource) for name in needs.names} == {
        ("Microsoft.Storage", settings.names.default_storage, "storage-default"),
        ("Microsoft.Storage", settings.names.data_storage, "storage-data"),
        ("Microsoft.ContainerRegistry", settings.names.registry, "registry"),
        ("Microsoft.KeyVault", settings.names.vault, "vault"),
    }


def test_what_exists_already_is_not_asked_for():
    given = [("storage.existing_data", f"{STORAGE}/data"), ("vault.existing", VAULT)]
    names = {name.resource for name in asked(*given).names}
    assert names == {"storage-default", "registry"}


def test_zones_are_asked_for_by_the_settings_that_need_them():
    assert asked().zonal == ()
    zonal = asked(("storage.data_redundancy", "ZRS"), ("registry.zone_redundant", True)).zonal
    assert zonal == ("storage.data_redundancy", "registry.zone_redundant")


def test_an_existing_group_is_one_that_must_exist():
    assert not asked().group_exists
    needs = asked(("resource_group.existing", GROUP))
    assert needs.group_exists
    assert needs.resource_group == "hub"


def test_the_sizes_of_all_clusters_are_asked_for():
    assert asked().sizes == {
        "clusters.gpu.size": ("Standard_ND40rs_v2", "LowPriority"),
        "clusters.preparation.size": ("Standard_D16ads_v5", "Dedicated"),
        "clusters.build.size": ("Standard_D4ads_v5", "Dedicated"),
    }


def test_pulumis_configuration_is_read_as_the_program_reads_it():
    values = stack_file("prod")
    stack = values.pop("stack")
    config = {f"ml-azure-horovod:{key}": value for key, value in values.items()}
    config["ml-azure-horovod:protect"] = "true"
    needs = prerequisites.read(config | {"azure-native:location": "x"}, stack)
    assert needs == prerequisites.of(load(stack_file("prod")))
