"""The settings of the jump machine: its prerequisites, and settings without effect."""

import pytest

from infra.extras.jump_machine.leaf import AccessSettings
from infra.validation import load
from tests.infra.support.configurations import GROUP, NETWORK, configured, problem, problems

USERS, ADMINISTRATORS = (f"33333333-3333-3333-3333-33333333333{n}" for n in (4, 5))
ON = (
    ("access.jump_machine", True),
    ("access.users", USERS),
    ("access.public_key", f"ssh-ed25519 {'A' * 68} nobody"),
)
BASTION = f"{GROUP}/providers/Microsoft.Network/bastionHosts/hub"
BEHIND_HUB = (
    ("access.existing_bastion", BASTION),
    ("network.jump_access", ["10.0.1.0/26"]),
    ("network.peer_with", [NETWORK]),
    ("network.peer_address_spaces", ["10.0.0.0/16"]),
)


def test_it_is_off_by_default_and_takes_no_address():
    settings = load(configured())
    assert not settings.of(AccessSettings).jump_machine
    assert set(settings.address_plan.subnets) == {"training", "build", "endpoints"}


def test_it_brings_its_subnet_and_that_of_bastion():
    subnets = load(configured(*ON)).address_plan.subnets
    assert list(subnets)[3:] == ["jump", "bastion"]
    assert subnets["bastion"].prefixlen == 26


def test_a_hubs_bastion_needs_no_subnet():
    subnets = load(configured(*ON, *BEHIND_HUB, ("network.jump_subnet", True))).address_plan.subnets
    assert list(subnets)[3:] == ["jump"]


def test_it_needs_people_and_a_key():
    users, key = problems(("access.jump_machine", True))
    assert users.startswith("access.users: is missing")
    assert "ssh-keygen -q -t ed25519" in key


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((("access.users", USERS),), "access.users: has no effect; set access.jump_machine"),
        ((*ON, ("access.administrators", USERS)), "access.administrators: is the same group"),
        ((*ON, ("access.size", "Standard_ND40rs_v2")), "access.size"),
        ((*ON, ("access.off_at", "7 pm")), "access.off_at"),
        ((*ON, ("access.public_key", "AAAA")), "access.public_key"),
        ((*ON, ("access.time_zone", "CEST")), "access.time_zone: 'CEST' is not a time zone by"),
        (
            (*ON, ("access.time_zone", "W Europe Standard Time")),
            "did you mean 'W. Europe Standard Time'?",
        ),
        ((*ON, ("access.repository", "https://me:secret@example.com/x")), "access.repository"),
        (
            (*ON, ("access.bastion_allowed_addresses", ["10.0.0.0/8"])),
            "access.bastion_allowed_addresses[0]: 10.0.0.0/8 is not a public address",
        ),
        (
            (*ON, *BEHIND_HUB, ("access.bastion_allowed_addresses", ["52.174.12.7"])),
            "cannot be combined with access.existing_bastion",
        ),
        ((*ON, ("network.address_space", "10.64.0.0/24")), "network.address_space"),
    ],
)
def test_what_would_fail_or_have_no_effect_is_refused(changes, words):
    assert words in problem(*changes)


def test_a_hubs_bastion_must_reach_the_machine():
    access, peer = problems(*ON, ("access.existing_bastion", BASTION))
    assert access.startswith("network.jump_access: is empty")
    assert peer.startswith("network.peer_with: is empty")


def test_it_is_refused_in_a_network_that_the_stack_does_not_change():
    existing = {
        "virtual_network": NETWORK,
        **{
            f"{one}_subnet": f"{NETWORK}/subnets/{one}"
            for one in ("training", "build", "endpoints")
        },
    }
    assert "access.jump_machine: cannot be combined with network.existing" in problem(
        *ON, ("network.existing", existing)
    )


def test_different_people_may_be_administrators():
    settings = load(configured(*ON, ("access.administrators", ADMINISTRATORS)))
    assert settings.of(AccessSettings).administrators == ADMINISTRATORS
