"""How resources are read."""

from hypothesis import given
from hypothesis import strategies as st

from infra.resources import Resource, of_kind, value_at

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)


@given(inputs=JSON, path=st.text("ab.", max_size=6))
def test_any_path_of_any_inputs_has_a_value_or_none(inputs, path):
    value = value_at(inputs, path)
    assert value is None or isinstance(inputs, dict)


def test_a_kind_is_the_type_without_its_provider_and_version():
    gateway = Resource("azure-native:network/v20240501:NatGateway", "nat", {}, {}, "")
    component = Resource("platform:index:Network", "network", {}, {}, "")
    assert gateway.kind == "network:NatGateway"
    assert of_kind([gateway, component], "network:NatGateway") == [gateway]
