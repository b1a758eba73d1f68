"""Names are deterministic, within Azure's rules, and told apart where Azure wants them unique."""

import re
import string
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infra import naming
from infra.errors import NamingError
from infra.leaves import LEAVES
from infra.naming import CLUSTER_KEY, DUTY_SUBNETS, GLOBAL, LIMITS, Names

LETTERS_AND_DIGITS = string.ascii_lowercase + string.digits
parts = st.text(LETTERS_AND_DIGITS, min_size=1, max_size=8).map(lambda text: "a" + text)
stacks = st.lists(parts, min_size=1, max_size=2).map("-".join)
anything = st.text(max_size=30)
short = st.text(LETTERS_AND_DIGITS, max_size=5).map(lambda text: "a" + text)
keys = (
    st.lists(parts, min_size=1, max_size=2).map("_".join).filter(re.compile(CLUSTER_KEY).fullmatch)
)
SUBSCRIPTION = "00000000-0000-4000-8000-000000000000"
RESOURCE_NAME = r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,78}[a-zA-Z0-9_]"
SUBNETS = ("training", "build", "endpoints", "jump")
IDENTITIES = ("workspace", "training", "preparation", "build", "serving", "encryption")


def named(seed="", subscription=SUBSCRIPTION):
    return Names("hvd", "dev", "westeurope", seed, subscription=subscription)


@given(anything, anything, anything, anything)
def test_for_any_text_there_are_either_legal_names_or_problems(prefix, stack, region, seed):
    problems = naming.problems(prefix, stack, region, seed)
    if problems:
        assert {text.partition(":")[0] for text in problems} <= {"prefix", "stack", "region"}
        return
    names = Names(prefix, stack, region, seed, subscription=SUBSCRIPTION)
    for kind, limit in LIMITS.items():
        assert limit.allows(getattr(names, kind)), kind


@given(parts, stacks, parts, anything)
def test_names_of_every_kind_are_within_azures_rules(prefix, stack, region, seed):
    more = [one for leaf in LEAVES for one in leaf.names]
    assume(not naming.problems(prefix, stack, region, seed, more))
    names = Names(prefix, stack, region, seed, subscription=SUBSCRIPTION)
    assert re.fullmatch(r"[a-z0-9]{3,24}", names.default_storage)
    assert re.fullmatch(r"[a-z0-9]{3,24}", names.data_storage)
    assert re.fullmatch(r"[a-zA-Z0-9]{5,50}", names.registry)
    assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]{1,22}[a-zA-Z0-9]", names.vault)
    assert "--" not in names.vault
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_-]{2,32}", names.workspace)
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9-]{2,61}[a-zA-Z0-9]", names.log_workspace)
    for one in more:
        assert one.limit.allows(one(names)), one.kind
    for role in SUBNETS:
        assert re.fullmatch(RESOURCE_NAME, names.subnet(role))
        assert re.fullmatch(RESOURCE_NAME, names.network_security_group(role))
    for role in IDENTITIES:
        assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_-]{2,127}", names.identity(role))
    for service in ("workspace", "registry", "vault", "default-blob", "default-file", "data-blob"):
        assert re.fullmatch(RESOURCE_NAME, names.private_endpoint(service))
        assert re.fullmatch(RESOURCE_NAME, names.network_interface(service))
    for container in (naming.RAW_CONTAINER, naming.PREPARED_CONTAINER, naming.RESULTS_CONTAINER):
        assert re.fullmatch(r"[a-z0-9](-?[a-z0-9])*", container)
        assert re.fullmatch(r"[a-zA-Z0-9_]{1,255}", names.datastore(container))


@given(short, short, parts, keys, st.text(max_size=40))
def test_no_cluster_name_ends_in_a_hyphen_and_digits(prefix, stack, region, key, size):
    names = Names(prefix, stack, region, subscription=SUBSCRIPTION)
    for duty in DUTY_SUBNETS:
        name = names.cluster(key, duty, size, "Dedicated")
        assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]{2,23}", name)
        assert not re.search(r"-\d+$", name)


@given(parts, parts, parts)
def test_the_prefix_and_stack_that_fit_are_those_up_to_thirteen_characters(prefix, stack, region):
    fits = len(prefix) + len(stack) <= 13
    assert (naming.problems(prefix, stack, region) == ()) == fits


@given(st.lists(st.tuples(short, short, parts), min_size=2, max_size=2, unique=True))
def test_stacks_that_differ_share_no_name_that_azure_wants_unique(two):
    first, second = (Names(*one, subscription=SUBSCRIPTION) for one in two)
    for kind in (*GLOBAL, "workspace", "build_cluster"):
        assert getattr(first, kind) != getattr(second, kind)


def test_names_stay_what_they_are():
    """A changed name is a new resource, and the data in the old one are gone."""
    names = named()
    assert {kind: getattr(names, kind) for kind in (*GLOBAL, "workspace", "build_cluster")} == {
        "default_storage": "hvddevstdirswle",
        "data_storage": "hvddevdatairswle",
        "registry": "hvddevacrirswle",
        "vault": "hvd-dev-kv-irswle",
        "workspace": "hvd-dev-ml-ipcuiv",
        "build_cluster": "build-ybkiaf",
    }
    nd40, d16 = "Standard_ND40rs_v2", "Standard_D16ads_v5"
    assert names.cluster("gpu", "train", nd40, "LowPriority") == "gpu-lfbtce"
    assert names.cluster("gpu_dedicated", "train", nd40, "Dedicated") == "gpu-ded-aonctt"
    assert names.cluster("preparation", "prepare", d16, "Dedicated") == "prep-lwstce"


def test_two_subscriptions_with_the_same_settings_share_no_globally_unique_name():
    names, other = named(), named(subscription=SUBSCRIPTION.replace("4", "5"))
    for kind in GLOBAL:
        assert getattr(names, kind) != getattr(other, kind)
    # A subscription moves neither names that are unique in a group nor resources without data.
    for kind in ("workspace", "build_cluster", "log_workspace", "resource_group"):
        assert getattr(names, kind) == getattr(other, kind)
    assert named(subscription="AB").vault == named(subscription="ab").vault


def test_an_existing_group_keeps_its_name():
    names = Names("hvd", "dev", "westeurope", subscription=SUBSCRIPTION, group="landing-zone")
    assert names.resource_group == "landing-zone"
    assert replace(names, group="") == named()


def test_another_seed_gives_other_names_where_one_may_be_taken():
    names, other = named(), named("2")
    for kind in (*GLOBAL, "workspace", "log_workspace"):
        assert getattr(names, kind) != getattr(other, kind)
    # No cluster that exists is made anew.
    for kind in ("resource_group", "build_cluster"):
        assert getattr(names, kind) == getattr(other, kind)
    gpu = "gpu", "train", "Standard_ND40rs_v2", "LowPriority"
    assert names.cluster(*gpu) == other.cluster(*gpu)


def test_another_size_or_priority_is_another_cluster_but_for_builds():
    names = named()
    gpu = names.cluster("gpu", "train", "Standard_ND40rs_v2", "LowPriority")
    assert gpu != names.cluster("gpu", "train", "Standard_ND96asr_v4", "LowPriority")
    assert gpu != names.cluster("gpu", "train", "Standard_ND40rs_v2", "Dedicated")
    assert gpu != names.cluster("gpu2", "train", "Standard_ND40rs_v2", "LowPriority")
    small = names.cluster("build", "build", "Standard_D4ads_v5", "Dedicated")
    assert (
        small
        == names.cluster("build", "build", "Standard_D8ads_v5", "Dedicated")
        == names.build_cluster
    )


def test_role_assignments_have_stable_names_of_their_own():
    names = named()
    name = names.role_assignment("vault", "training", "reader")
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name)
    assert name == names.role_assignment("vault", "training", "reader")
    others = {
        names.role_assignment("registry", "training", "reader"),
        names.role_assignment("vault", "build", "reader"),
        names.role_assignment("vault", "training", "writer"),
        Names("hvd", "prod", "westeurope", subscription=SUBSCRIPTION).role_assignment(
            "vault", "training", "reader"
        ),
    }
    assert len(others | {name}) == 5


def test_a_prefix_that_is_too_long_says_what_would_fit():
    with pytest.raises(NamingError) as caught:
        Names("imagenettraining", "dev", "westeurope", subscription=SUBSCRIPTION)
    (problem,) = caught.value.problems
    assert "'imagenettraining'" in problem
    assert "use a prefix of at most 10" in problem
    assert naming.problems("imagenettr", "dev", "westeurope") == ()


def test_every_part_of_another_form_is_told_at_once():
    problems = naming.problems("Horovod", "my_stack", "West Europe")
    assert [problem.partition(":")[0] for problem in problems] == ["prefix", "stack", "region"]
    assert "lower-case letters and digits" in problems[0]


@pytest.mark.parametrize(
    ("prefix", "stack", "problem"),
    [
        ("login", "dev", "prefix: 'login' begins with 'login', which Azure reserves"),
        ("amicrosoft", "dev", "prefix: with 'amicrosoft' and 'dev', names of resources contain"),
        ("win", "dows", "prefix: with 'win' and 'dows', names of resources contain 'windows'"),
        ("hvd", "a-windows", "stack: with 'hvd' and 'a-windows', names of resources contain"),
    ],
)
def test_words_that_azure_reserves_are_refused(prefix, stack, problem):
    (refusal,) = naming.problems(prefix, stack, "westeurope")
    assert refusal.startswith(problem)
    assert naming.problems("ourlogin", "dev", "westeurope") == ()
