"""Subnets hold every node, and overlap neither each other nor reserved ranges."""

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import subnets as addresses_of
from infra.errors import AddressError
from infra.subnets import DOCKER_BRIDGE, plan, usable

networks = st.integers(12, 29).flatmap(
    lambda length: st.integers(0, 2**length - 1).map(
        lambda number: str(IPv4Network((number << (32 - length), length)))
    )
)
nodes = st.integers(0, 3000)


def laid_out(space, training, build, *, jump=False, bastion=False):
    addresses = {"training": training, "build": build, "endpoints": addresses_of.ENDPOINT_ADDRESSES}
    more = {"jump": 11} if jump else {}
    return plan(space, addresses | more, {"bastion": 59} if bastion else None)


@given(networks, nodes, nodes, st.booleans(), st.booleans())
def test_every_node_has_an_address_and_no_subnet_overlaps_another(
    space, training, build, jump, bastion
):
    try:
        laid = laid_out(space, training, build, jump=jump, bastion=bastion).subnets
    except AddressError:
        return
    subnets = list(laid.values())
    for i, subnet in enumerate(subnets):
        assert subnet.subnet_of(IPv4Network(space))
        assert not subnet.overlaps(DOCKER_BRIDGE)
        assert not any(subnet.overlaps(other) for other in subnets[i + 1 :])
    assert usable(laid["training"]) >= training
    assert usable(laid["build"]) >= build
    assert usable(laid["endpoints"]) >= addresses_of.ENDPOINT_ADDRESSES
    assert not bastion or laid["bastion"].prefixlen == 26


@given(nodes, nodes, st.booleans())
def test_a_subnet_that_comes_last_moves_no_other(training, build, jump):
    before = laid_out("10.0.0.0/8", training, build, jump=jump).subnets
    after = laid_out("10.0.0.0/8", training, build, jump=jump, bastion=True).subnets
    assert {role: after[role] for role in before} == before


@given(nodes, nodes, st.booleans())
def test_the_space_that_a_refusal_asks_for_is_enough_and_half_of_it_is_not(training, build, jump):
    with pytest.raises(AddressError) as caught:
        laid_out("10.0.0.0/29", training, build, jump=jump)
    (problem,) = caught.value.problems
    length = int(problem.partition("use a /")[2].partition(",")[0])
    assert laid_out(f"10.0.0.0/{length}", training, build, jump=jump).subnets
    with pytest.raises(AddressError):
        laid_out(f"10.0.0.0/{length + 1}", training, build, jump=jump)


@given(st.integers(1, 100_000))
def test_a_subnet_is_the_smallest_that_holds_what_is_asked_for(count):
    length = addresses_of.prefix_length(count)
    assert usable(IPv4Network((0, length))) >= count
    smaller = length + 1
    assert smaller > addresses_of.SMALLEST_SUBNET or usable(IPv4Network((0, smaller))) < count


@pytest.mark.parametrize("space", ["172.17.0.0/16", "172.17.4.0/24", "172.16.0.0/12"])
def test_a_space_that_meets_the_containers_network_is_refused(space):
    with pytest.raises(AddressError, match=r"overlaps 172\.17\.0\.0/16, which the nodes' contain"):
        laid_out(space, 1, 1)


@pytest.mark.parametrize("space", ["10.0.0.0/33", "10.0.0.1/24", "wide", "fd00::/64"])
def test_what_is_no_range_is_refused_with_one_that_is(space):
    (problem,) = addresses_of.space_problems(space)
    assert repr(space) in problem
    assert "write it like 10.64.0.0/22" in problem


def test_a_public_space_is_refused():
    (problem,) = addresses_of.space_problems("20.0.0.0/16")
    assert "is not private" in problem


def test_a_space_that_overlaps_a_peer_is_refused_with_the_peers_range():
    problems = addresses_of.space_problems("10.64.0.0/16", ("10.1.0.0/16", "10.64.8.0/24"))
    assert problems == ["10.64.0.0/16 overlaps 10.64.8.0/24, the range of a peered network"]


def test_a_space_that_is_too_small_says_what_needs_how_much():
    with pytest.raises(AddressError, match=r"/26 has 64 addresses.*training /25 for 100"):
        laid_out("10.0.0.0/26", 100, 1)
