"""Stacks as files."""

import pytest

from infra.render.render import main, run
from infra.resources import read, to_json
from tests.infra.support.stacks import file_of, only


def test_a_rendered_file_reads_back_and_two_runs_are_equal(tmp_path):
    first, second = (to_json(run("dev", {}, file_of("dev")).resources) for _ in range(2))
    assert first == second
    file = tmp_path / "dev.json"
    file.write_text(first, encoding="utf-8")
    assert to_json(read(file)) == first


def test_a_file_without_resources_is_refused_by_name(tmp_path):
    file = tmp_path / "no.json"
    file.write_text('[{"type": "x"}]', encoding="utf-8")
    with pytest.raises(ValueError, match=r"no\.json is not a rendered stack"):
        read(file)


def test_the_command_writes_the_stack_with_its_changes(tmp_path):
    file = tmp_path / "dev.json"
    assert main(["dev", "--set", "network.jump_subnet=true", "--output", str(file)]) == 0
    subnets = only(read(file), "network:VirtualNetwork").inputs["subnets"]
    assert "snet-jump" in [subnet["name"] for subnet in subnets]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dev", "--set", "profile=open"], "profile: 'open' is not one of private, allowlisted"),
        (["dev", "--set", "profile"], "write KEY=VALUE"),
        (["test"], "unknown stack 'test'; choose one of dev, dev-prep, prod"),
    ],
)
def test_a_mistake_ends_the_command_with_a_message(arguments, message, tmp_path, capsys):
    assert main([*arguments, "--output", str(tmp_path / "x.json")]) == 2
    assert message in capsys.readouterr().err
