"""Leftovers of the owner of a rehearsal are removed, and nothing else."""

from rehearsal import lifetime
from tests.rehearsal.support.programs import only_programs


def test_containers_of_an_owner_are_removed_and_no_others(tmp_path, monkeypatch):
    calls = tmp_path / "calls"
    listed = f"echo {lifetime.container_name('0f', 'x')}; echo {lifetime.container_name('0f', 'y')}"
    body = f'echo "$*" >>{calls}; [ "$1" != ps ] || {{ {listed}; }}'
    only_programs(tmp_path, monkeypatch, docker=body)
    lifetime.remove_containers("docker", "0f")
    assert calls.read_text().splitlines() == [
        "ps --all --format={{.Names}} --filter=name=rehearsal-0f-",
        "rm --force --volumes rehearsal-0f-x",
        "rm --force --volumes rehearsal-0f-y",
    ]
