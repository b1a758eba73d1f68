"""Machines and Bastion: what Azure refuses of them."""

import pytest

from tests.rehearsal.support.small_platform import PROVIDERS, error

NETWORK = f"{PROVIDERS}/Microsoft.Network"
VNET = f"{NETWORK}/virtualNetworks/vnet"
INTERFACE = f"{NETWORK}/networkInterfaces/nic"
MACHINE = f"{PROVIDERS}/Microsoft.Compute/virtualMachines/jump"
SCHEDULES = f"{PROVIDERS}/Microsoft.DevTestLab/schedules"
BASTION = f"{NETWORK}/bastionHosts/bastion"


def machine(name="one", keys=("ssh-ed25519 AAAA",)):
    return {
        "location": "westeurope",
        "identity": {"type": "SystemAssigned"},
        "properties": {
            "networkProfile": {"networkInterfaces": [{"id": INTERFACE}]},
            "osProfile": {
                "computerName": name,
                "linuxConfiguration": {
                    "disablePasswordAuthentication": True,
                    "ssh": {"publicKeys": [{"keyData": key} for key in keys]},
                },
            },
        },
    }


def schedule(target):
    return {"location": "westeurope", "properties": {"targetResourceId": target}}


def bastion(subnet):
    address = {"name": "public", "properties": {"subnet": {"id": f"{VNET}/subnets/{subnet}"}}}
    return {"location": "westeurope", "properties": {"ipConfigurations": [address]}}


@pytest.fixture
def made(client):
    """A machine in a network that has room for a Bastion."""
    subnets = [
        {"name": name, "properties": {"addressPrefix": prefix}}
        for name, prefix in {"jump": "10.0.1.0/28", "AzureBastionSubnet": "10.0.0.0/26"}.items()
    ]
    body = {"location": "westeurope", "properties": {"subnets": subnets}}
    assert client.put(VNET, body).ok
    assert error(client.put(MACHINE, machine())) == (400, "InvalidResourceReference")
    assert client.put(INTERFACE, {"location": "westeurope", "properties": {}}).ok
    assert client.put(MACHINE, machine()).ok
    yield client
    for identifier in (MACHINE, INTERFACE, VNET):
        assert client.ask("DELETE", identifier).status_code in {200, 202, 204}


def test_a_machine_keeps_its_identity_and_its_profile(made):
    before = made.get(MACHINE).json()
    assert made.put(MACHINE, machine()).ok
    assert made.get(MACHINE).json()["identity"] == before["identity"]
    assert error(made.put(MACHINE, machine("two"))) == (409, "PropertyChangeNotAllowed")


def test_a_machine_without_a_password_needs_a_key(made):
    assert error(made.put(f"{MACHINE}-2", machine(keys=()))) == (400, "InvalidParameter")


def test_a_schedule_belongs_to_the_machine_that_it_is_named_after(made):
    other = made.put(f"{SCHEDULES}/at-night", schedule(MACHINE))
    assert error(other) == (400, "InvalidScheduleId")
    right = f"{SCHEDULES}/shutdown-computevm-jump"
    assert error(made.put(right, schedule(f"{MACHINE}-2"))) == (400, "InvalidResourceReference")
    assert made.put(right, schedule(MACHINE)).ok


def test_a_bastion_is_in_its_own_subnet_alone(made):
    assert error(made.put(BASTION, bastion("jump"))) == (400, "BastionHostSubnetNotAllowed")
    assert made.put(BASTION, bastion("AzureBastionSubnet")).ok
    assert made.ask("DELETE", BASTION).ok
