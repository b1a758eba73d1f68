"""Rules of the repository that a reader should not have to check."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from infra.naming import CLUSTER_KEY
from tests import ROOT, makefile

pytest_plugins = "pytester"
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
EXTRAS_PAGES = sorted(ROOT.glob("*/extras/*/README.md"))
DOCUMENTS = [*ROOT_PAGES, *sorted((ROOT / "docs").rglob("*.md")), *EXTRAS_PAGES]
REFERENCE = ROOT / "docs" / "reference"
MOST_WORDS = 60_000


def test_all_pages_but_the_generated_reference_have_at_most_60_000_words():
    pages = [page for page in DOCUMENTS if REFERENCE not in page.parents]
    words = {page.relative_to(ROOT).as_posix(): len(page.read_text().split()) for page in pages}
    assert {"README.md", "CONTRIBUTING.md", "docs/data.md"} < words.keys()
    longest = sorted(words, key=lambda name: -words[name])[:5]
    assert sum(words.values()) <= MOST_WORDS, f"the longest pages are {', '.join(longest)}"


ONE_CLUSTER = re.compile(r"(?:--cluster[ =]|\bCLUSTER=|\bclusters\.)([a-z0-9_-]+)")
_KEY = "[a-z][a-z0-9_-]*"
CLUSTERS = re.compile(rf'(?:--clusters[ =]|\bSERIES=)"?({_KEY}(?:[ ,]+{_KEY})*)')


def clusters_named(text):
    """Keys of clusters in the commands and settings of a page; names in capitals are the
    reader's.
    """
    several = (key for keys in CLUSTERS.findall(text) for key in re.split("[ ,]+", keys))
    return [*ONE_CLUSTER.findall(text), *several]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("`--cluster gpu` or CLUSTER=a-b YES=1, `clusters.preparation.priority`",
         ["gpu", "a-b", "preparation"]),
        ('SERIES="gpu gpu-dedicated" REPEAT=5', ["gpu", "gpu-dedicated"]),
        ("`--clusters gpu,gpu-a100` adds `--clusters a b --name c`",
         ["gpu", "gpu-a100", "a", "b"]),
        ("`--cluster NAME`, `CLUSTER=NAME`, --cluster-size big", []),
    ],
)  # fmt: skip
def test_the_clusters_of_a_page_are_found(text, keys):
    assert clusters_named(text) == keys


@pytest.mark.parametrize(
    "page",
    [*DOCUMENTS, *(ROOT / file for file in makefile.MAKEFILES.values())],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_a_cluster_in_a_documented_command_has_a_name_that_the_settings_accept(page):
    wrong = [key for key in clusters_named(page.read_text()) if not re.fullmatch(CLUSTER_KEY, key)]
    assert wrong == []


WORLDS = ("common", "environments", "infra", "jobs", "rehearsal", "serving", "tools", "trainer")
NAMED_FILE = re.compile(
    r"(?<![\w./<{~-])((?:[a-z][\w.-]*/)+[a-z_][\w-]*\.(?:py|json|md|csv|toml|ya?ml))(?![\w/])"
)
"""Capitals in the place of a name are the reader's."""
ELSEWHERE = {
    # Of a run or its export.
    *("data/manifest.json", "export/export.json"),
    # Of NVIDIA's ResNet in MXNet, and of in-toto.
    *("common/fit.py", "spec/v1/statement.md"),
}
"""Files with the name of a folder of the repository that are not in it."""


@pytest.mark.parametrize("world", WORLDS)
def test_a_file_that_the_code_names_exists(world):
    folders = {path.name for name in WORLDS for path in (ROOT / name).rglob("*") if path.is_dir()}
    missing = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted((ROOT / world).rglob("*.py"))
        for name in NAMED_FILE.findall(file.read_text(encoding="utf-8"))
        if name.split("/")[0] in {*folders, *WORLDS}
        and name not in ELSEWHERE
        and not any((base / name).exists() for base in (ROOT, ROOT / world, file.parent))
    ]
    assert missing == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_locks_pin_with_hashes_and_name_no_index(lock):
    text = lock.read_text()
    assert not re.search(r"https?://|--index|--extra-index|--find-links", text)
    requirements = re.split(r"\n(?=[a-z0-9])", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    assert requirements
    for requirement in requirements:
        assert re.match(r"[a-z0-9._-]+==\S+ ", requirement), requirement[:80]
        assert "--hash=sha256:" in requirement, requirement[:80]


def test_horovod_is_compiled_against_the_tensorflow_that_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pin = next(p for p in project["dependency-groups"]["trainer"] if p.startswith("tensorflow-cpu"))
    build = project["tool"]["uv"]["extra-build-dependencies"]["horovod"]
    assert pin in build
    locked = (ROOT / "locks" / "trainer.txt").read_text()
    for requirement in build:
        name, version = requirement.split("==")
        lock = re.search(rf"^{name}==(\S+)", locked, re.MULTILINE)
        assert lock is None or lock[1] == version, requirement


def ran(command, *args, env=None):
    """Run make apart from the one that may have started the tests."""
    return subprocess.run(
        [*shlex.split(command), *args], cwd=ROOT, env={**makefile.environment(), **(env or {})},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", makefile.MAKEFILES)
def test_help_lists_every_target(command):
    shown = ran(command, "-s", "help").stdout
    targets = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    assert sorted(targets) == sorted(makefile.reads(command))
    rules = re.findall(
        r"^([a-z-]+):.* ## ", (ROOT / makefile.MAKEFILES[command]).read_text(), re.MULTILINE
    )
    assert sorted(targets) == sorted(rules)


def test_targets_of_users_come_in_the_order_of_their_day():
    shown = ran("make -s help").stdout
    assert [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "] == [
        *("Start:", "Data:", "Train:", "Use a model:", "Platform:", "Try without Azure:"),
        "Develop:",
    ]
    assert len(makefile.reads()) <= 36


def test_the_two_files_share_no_target_but_help():
    assert {*makefile.reads("make")} & {*makefile.reads("make -C tools")} == {"help"}


def test_a_target_of_tools_is_refused_at_the_top_with_its_command():
    for target in {*makefile.reads("make -C tools")} - {"help"}:
        done = ran("make", target, "SEED=3")
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: make {target}: run `make -C tools {target}`\n")


def test_a_target_that_does_not_exist_is_named():
    assert ran("make trian").stderr.startswith("error: make trian: no such target or file; `make h")


VALUES = {"STACK": "prod", "NODES": "7", "DATA": "other/images", "RUN": "runs/other"}
"""Values that differ from the defaults of variables which have one."""


@pytest.mark.parametrize(
    ("command", "target"),
    [(command, target) for command in makefile.MAKEFILES for target in makefile.reads(command)],
)
def test_a_target_reads_the_variables_that_it_declares(command, target):
    declared = makefile.reads(command)[target]
    for stack in (["STACK=dev"], []) if "NAMED_STACK" in declared else ([],):
        plain = ran(command, "-n", target, *stack).stdout
        for name in set(re.findall(r"[A-Z_]{2,}", declared)) - {"NAMED_STACK", "STACK"}:
            given = f"{name}={VALUES.get(name, 'something')}"
            done = ran(command, "-n", target, *stack, given)
            refused = "not read by" in done.stderr
            assert refused if done.returncode else done.stdout != plain, given


@pytest.mark.parametrize(
    ("given", "shell", "program"),
    [
        (["STACK=dev"], {}, "-m jobs submit --stack dev"),
        (["STACK=prod", "PRESET=digits", "NODES=2", "CLUSTER=t4", "ARGS=--epochs 2"], {},
         "-m jobs submit --stack prod --preset digits --nodes 2 --cluster t4 -- --epochs 2"),
        (["STACK=dev", "NAME=first", "DATA_SET=imagenet:3", "BUDGET=50", "JOB_ARGS=--no-follow"],
         {},
         "-m jobs submit --stack dev --name first --data.asset imagenet:3 --budget 50 --no-follow"),
        (["NAME=first", "ARGS=--epochs 2"], {}, "-m trainer train --name first --epochs 2"),
        (["PRESET=images", "DATA=my photos"], {},
         '-m trainer train --preset images --data.source tfrecords --data.dir "my photos"'),
        ([], {}, "-m trainer train"),
        # What some shell has exported must not rent a cluster, or be trained on.
        ([], {"STACK": "prod", "DATA": "/data"}, "-m trainer train"),
    ],
)  # fmt: skip
def test_a_training_is_sent_away_only_by_a_stack_on_the_command_line(given, shell, program):
    done = subprocess.run(
        ["make", "-n", "train", *given], cwd=ROOT, env={**makefile.environment(), **shell},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    last = " ".join(done.stdout.splitlines()[-1].split())
    assert last.endswith(program)


@pytest.mark.parametrize(
    ("given", "unread"),
    [
        ("train NAME=first EPOCHS=3 MODEL=resnet101", "EPOCHS, MODEL"),
        ("train NODES=2 BUDGET=50", "BUDGET, NODES"),
        ("train DATA=data/photos", ""),
        ("train STACK=dev DATA=data/photos", "DATA"),
        ("train STACK=dev NODES=2 SERIES=gpu", "SERIES"),
        ("evaluate RUN=runs/first PRESET=digits", "PRESET"),
        ("prepare train INPUT=photos PRESET=images GPU=0", ""),
        ("test ARGS=-x AGAIN=1", ""),
        ("plan STACK=dev DEADLINE=2h NAME=first", "NAME"),
        ("-C tools chaos SEED=3 KILS=4", "KILS"),
        ("-C tools scaling NODES=2", "NODES"),
        ("-C tools scaling STACK=dev NODES=2", ""),
        ("-C tools lock-check LOCK_PYTHONS=3.12", ""),
    ],
)
def test_a_variable_that_no_target_reads_is_an_error_that_names_it(given, unread):
    done = subprocess.run(
        ["make", "-n", *given.split()], cwd=ROOT, env=makefile.environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode != 0) == bool(unread)
    goals = " ".join(word for word in given.split() if "=" not in word)
    assert not unread or f"*** {unread}: not read by `make {goals}`" in done.stderr


def test_options_of_the_job_are_not_taken_for_the_trainers():
    done = subprocess.run(
        ["make", "-n", "train", "STACK=dev", "ARGS=--nodes 2 -- --epochs 3"], cwd=ROOT,
        env=makefile.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "give options of the job in JOB_ARGS" in done.stderr


@pytest.mark.parametrize("target", ["prepare", "verify", "inspect"])
def test_the_folder_of_a_data_set_may_have_a_space_in_its_name(target):
    done = subprocess.run(
        ["make", "-n", target, "DATA=my data"], cwd=ROOT, env=makefile.environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert '"my data"' in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("installed", "told"),
    [([], "az: not found on the PATH; install"), (["az"], "pulumi: not found on the PATH")],
)
def test_pinning_a_stack_names_the_program_that_is_not_installed(tmp_path, installed, told):
    for program in ("make", "sh", "awk", "nproc"):
        (tmp_path / program).symlink_to(shutil.which(program) or "missing")
    for program in installed:
        (tmp_path / program).touch(mode=0o755)
    done = subprocess.run(
        ["make", "configure", "STACK=newcomer"], cwd=ROOT,
        env={**makefile.environment(), "PATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.startswith(f"error: {told}"), done.stderr


@pytest.mark.parametrize(
    ("given", "options"),
    [([], ""), (["IMAGE=cpu", "KEEP=1"], " --image localhost/trainer-cpu:latest --keep")],
)
def test_a_rehearsal_runs_its_jobs_in_the_image_that_is_named(given, options):
    done = subprocess.run(
        ["make", "-n", "rehearse", *given], cwd=ROOT, env=makefile.environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    last = " ".join(done.stdout.splitlines()[-1].split())
    assert last.endswith(f"-m rehearsal cycle{options}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_only_targets_files_and_sections_that_exist(document):
    text = document.read_text()
    for command, target in re.findall(
        r"(?:^    |`)(make(?: -s)?(?: -C tools)?) ([a-z-]+)", text, re.MULTILINE
    ):
        assert target in makefile.reads(command.replace(" -s", "")), f"{command} {target}"
    for link, section in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
        target = document.parent / link if link else document
        assert target.exists(), link
        assert not section or section in sections(target), f"{link}#{section}"


def test_the_documents_pass_only_variables_that_their_targets_read():
    line = r'(?:^    |`)(make(?: -C tools)? [a-z-]+(?: [A-Z_]+=(?:"[^"]*"|[^\s`]+))+)'
    commands = {c for page in DOCUMENTS for c in re.findall(line, page.read_text(), re.MULTILINE)}
    assert len(commands) > 30
    for command in commands:
        done = ran(command, "-n")
        assert done.returncode == 0, f"{command}: {done.stderr}"


PAGE = r"\b(?:docs/[\w-]+|\w+/extras/\w+/README)\.md"


def test_code_names_only_documents_that_exist():
    listed = subprocess.run(
        ["git", "ls-files", ":!tests", ":!docs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for path in filter(Path.is_file, (ROOT / name for name in listed.stdout.splitlines())):
        for document in re.findall(PAGE, path.read_text(errors="replace")):
            assert (ROOT / document).exists(), f"{path}: {document}"


def sections(document):
    """Return the anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_a_machine_that_lacks_something_is_told_what_to_do():
    done = subprocess.run(
        [ROOT / "scripts" / "check-machine", "python-that-is-not-there"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "python-that-is-not-there is not installed" in done.stderr
    assert "needed is Python 3.11, 3.12 or 3.13" in done.stderr
    assert "apt install python3-venv python3-dev" in done.stderr


def pretended(folder, version, *, complete):
    """Write a python of a version that says so, and has headers or not."""
    python = folder / f"python{version}"
    sensible = 'case "$2" in *print*) echo %s;; *Python.h*) exit %d;; esac'
    python.write_text("#!/bin/sh\n" + sensible % (version, not complete) + "\n")
    python.chmod(0o755)


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({"3.11": True, "3.12": True, "3.13": True}, "python3.12"),
        ({"3.11": True, "3.13": True}, "python3.13"),
        ({"3.11": True, "3.12": False}, "python3.11"),
        ({"3.13": False}, "python3.13"),
        ({"3.14": True}, "python3"),
    ],
)
def test_setup_takes_the_first_python_that_can_compile_horovod(there, taken, tmp_path):
    (tmp_path / "sh").symlink_to("/bin/sh")
    for version, complete in there.items():
        pretended(tmp_path, version, complete=complete)
    done = subprocess.run(
        [ROOT / "scripts" / "find-python"], env={"PATH": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{taken}\n"


def test_another_python_is_refused_with_the_versions_that_can_be_used(tmp_path):
    pretended(tmp_path, "3.14", complete=True)
    done = subprocess.run(
        [ROOT / "scripts" / "check-machine", tmp_path / "python3.14"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "is Python 3.14; needed is Python 3.11, 3.12 or 3.13" in done.stderr


def test_a_machine_without_a_compiler_is_told_what_to_do(tmp_path):
    for tool in ("sh", "uname", "make"):
        (tmp_path / tool).symlink_to(Path("/usr/bin") / tool)
    done = subprocess.run(
        [ROOT / "scripts" / "check-machine", sys.executable],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no C++ compiler" in done.stderr
    assert "apt install g++" in done.stderr


@pytest.mark.parametrize(
    ("skipped", "status"),
    [((True, True), pytest.ExitCode.NO_TESTS_COLLECTED), ((True, False), pytest.ExitCode.OK)],
)
def test_a_target_whose_tests_are_all_skipped_fails(pytester, skipped, status):
    pytester.makepyfile(
        "import pytest\n"
        f"@pytest.mark.parametrize('skipped', {skipped})\n"
        "def test_what_needs_an_engine(skipped):\n"
        "    if skipped: pytest.skip('there is none')\n"
    )
    done = pytester.runpytest_inprocess("-p", "tests.must_run")
    assert done.ret == status
    assert ("error: every test was skipped" in done.stdout.str()) == bool(status)


def test_every_target_for_tests_that_may_be_skipped_must_run_one():
    text = (ROOT / "tools" / "Makefile").read_text()
    recipes = re.findall(r'-m pytest (.* (?:-m "?\w|\S*chaos).*)', text)
    chosen = [recipe for recipe in recipes if '-m "not' not in recipe]
    assert len(chosen) == 8
    assert all(recipe.startswith("$(MUST_RUN)") for recipe in chosen)


@pytest.mark.parametrize("name", ["ml-trainer", "ml-jobs"])
def test_the_installed_commands_are_those_of_the_modules(name):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts[name].partition(":")
    code = f"import sys; sys.argv[1:] = ['--help']; from {module} import {function} as run; run()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    name = module.removesuffix(".__main__")
    assert f"usage: {'ml-trainer' if name == 'trainer' else f'python -m {name}'}" in done.stdout
