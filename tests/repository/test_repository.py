"""Rules of the repository that a reader should not have to check."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import ROOT, makefile

pytest_plugins = "pytester"
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
EXTRAS_PAGES = sorted(ROOT.glob("*/extras/*/README.md"))
DOCUMENTS = [*ROOT_PAGES, *sorted((ROOT / "docs").rglob("*.md")), *EXTRAS_PAGES]


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


def test_help_lists_every_target_that_a_person_may_want():
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split()
    shown = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    targets = [line.split()[0] for line in shown.stdout.splitlines() if line.startswith("  ")]
    assert sorted(targets) == sorted(phony)
    assert [line for line in shown.stdout.splitlines() if line and not line.startswith(" ")] == [
        *("Develop:", "Train:", "Data:", "Use a model:", "Platform:", "Estimate and measure:"),
        "Try without Azure:",
    ]
    assert len(shown.stdout.partition("\nTrain:")[2].split("\n  ")) - 1 == 19


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
    ],
)
def test_a_variable_that_no_target_reads_is_an_error_that_names_it(given, unread):
    done = subprocess.run(
        ["make", "-n", *given.split()], cwd=ROOT, env=makefile.environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode != 0) == bool(unread)
    assert not unread or f"*** {unread}: not read by `make {given.split()[0]}`" in done.stderr


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
    targets = set(
        re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    )
    for target in re.findall(r"(?:^    |`)make (?:-C tools )?([a-z-]+)", text, re.MULTILINE):
        assert target in targets, target
    for link, section in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
        target = document.parent / link if link else document
        assert target.exists(), link
        assert not section or section in sections(target), f"{link}#{section}"


def test_the_documents_pass_only_variables_that_their_targets_read():
    line = r'(?:^    |`)make (?:-C tools )?([a-z-]+(?: [A-Z_]+=(?:"[^"]*"|[^\s`]+))+)'
    commands = {c for page in DOCUMENTS for c in re.findall(line, page.read_text(), re.MULTILINE)}
    assert len(commands) > 30
    for command in commands:
        target, *given = (word.partition("=")[0] for word in shlex.split(command))
        asked = {
            "targets": target,
            "given": " ".join(set(given) - {"GPU", "PYTHON"}),
            "stack": "1" if "STACK" in given else "",
        }
        options = [word for name, value in asked.items() for word in ("-v", f"{name}={value}")]
        script = ["awk", *options, "-f", "scripts/unread-variables", "Makefile"]
        unread = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True)
        assert unread.stdout == "", f"make {command}: {unread.stdout}"


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
    recipes = re.findall(r"-m pytest (.* (?:-m \w|\S*chaos).*)", (ROOT / "Makefile").read_text())
    chosen = [recipe for recipe in recipes if '-m "not' not in recipe]
    assert len(chosen) == 7
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
