"""The entry of a program with several commands: which command runs, and the contents of the
help."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from common import program
from common.errors import INTERRUPTED, PIPE_CLOSED, ConfigError, UserError
from common.program import Command, Program, UnknownCommandError, report
from tests import ROOT

PROGRAM = Program(
    "tools",
    (
        Command("copy", "files", "copy a file " * 12, "shutil:copy", "common.text:str"),
        Command("prepare folder", "data", "write images", "os:listdir", "os:PathLike"),
        Command(
            "prepare tars",
            "data",
            "write tars",
            "tarfile:open",
            "os:PathLike",
            former={"pack": ("--with", "tar")},
        ),
    ),
    ("data", "files"),
    "COMMAND [OPTIONS]",
    "Exit status: 0 is success.",
    gone={"move": "version 1 was the last with it; use copy", "prepare zip": "use tars"},
)


def run(*args):
    """The command that runs, and the arguments after it."""
    ran = []
    PROGRAM.run(args, lambda command, rest: ran.append((command.name, rest)) or 0)
    return ran[0]


def test_a_command_has_one_word_or_two_and_its_arguments_follow():
    assert run("copy", "a", "--help") == ("copy", ["a", "--help"])
    assert run("prepare", "folder", "--input", "x") == ("prepare folder", ["--input", "x"])


def test_a_former_name_still_works_and_is_told(capsys):
    assert run("pack", "x") == ("prepare tars", ["--with", "tar", "x"])
    said = "note: pack is now `python -m tools prepare tars --with tar`\n"
    assert capsys.readouterr().err == said


def test_a_command_that_is_gone_is_refused_with_what_to_use():
    with pytest.raises(UnknownCommandError, match=r"^move: version 1 was the last.*; use copy$"):
        run("move", "x")
    with pytest.raises(UnknownCommandError, match=r"^prepare zip: use tars$"):
        run("prepare", "zip", "x")


def test_the_help_lists_the_commands_by_group(capsys):
    assert PROGRAM.run(["--help"], lambda *_: 7) == 0
    shown = capsys.readouterr().out
    start = textwrap.dedent("""\
        usage: python -m tools COMMAND [OPTIONS]

        data:
          prepare folder  write images
          prepare tars    write tars

        files:
          copy            copy a file""")
    assert shown.startswith(start)
    assert all(len(line) < 100 for line in shown.splitlines())
    assert shown.endswith("Exit status: 0 is success.\n")
    assert "pack" not in shown
    assert PROGRAM.run(["prepare", "-h"], lambda *_: 7) == 0


def test_without_a_command_the_help_is_an_error(capsys):
    assert PROGRAM.run([], lambda *_: 7) == ConfigError.exit_code
    assert capsys.readouterr().err == PROGRAM.usage


def test_the_first_of_two_words_alone_lists_the_second(capsys):
    assert PROGRAM.run(["prepare"], lambda *_: 7) == ConfigError.exit_code
    listed = capsys.readouterr().err
    assert "prepare folder  write images" in listed
    assert "copy" not in listed


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["coppy"], "unknown command 'coppy'; did you mean copy?"),
        (["prepare", "foldr"], "unknown command 'prepare foldr'; did you mean prepare folder?"),
        (["xyz"], "unknown command 'xyz'\n`python -m tools --help` lists the commands"),
    ],
)
def test_an_unknown_command_is_told_with_the_nearest(args, said):
    with pytest.raises(UnknownCommandError) as caught:
        PROGRAM.run(args, lambda *_: 7)
    assert str(caught.value).startswith(said)


def test_a_command_is_imported_when_it_runs():
    import shutil

    assert PROGRAM.commands[0].load_run() is shutil.copy


def test_an_error_is_one_line_with_the_status_of_its_class(capsys):
    assert report(ConfigError(["a: is wrong"])) == ConfigError.exit_code
    assert report(OSError("no space")) == UserError.exit_code
    assert report(KeyboardInterrupt()) == INTERRUPTED
    assert capsys.readouterr().err.splitlines()[-2:] == ["error: no space", "interrupted"]


def test_a_reader_that_goes_away_ends_a_program_without_a_word(capsys):
    end, start = os.pipe()
    os.close(end)
    with os.fdopen(start, "w") as unread, contextlib.redirect_stdout(unread):
        assert PROGRAM.main(["--help"], lambda *_: 7) == PIPE_CLOSED
        print("discarded", flush=True)
    assert capsys.readouterr().err == ""


def test_a_database_that_cannot_be_written_is_an_error_of_one_line(tmp_path):
    code = f"""
        import resource, sqlite3
        from tests.common.test_program import PROGRAM

        def fill(*_):
            database = sqlite3.connect({str(tmp_path / "listing.sqlite")!r})
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
            database.executescript("CREATE TABLE image (name TEXT)")

        raise SystemExit(PROGRAM.main(["copy"], fill))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == UserError.exit_code
    [line] = done.stderr.splitlines()
    assert line.startswith("error: a database for this command cannot be written or read (")
    assert line.endswith("or set TMPDIR to another one")


def test_a_mistake_in_a_query_is_an_error_of_the_program_with_its_traceback():
    with pytest.raises(sqlite3.OperationalError, match="syntax error"):
        PROGRAM.main(["copy"], lambda *_: sqlite3.connect("").execute("SELEC 1"))


def test_an_error_that_no_database_has_reported_keeps_its_traceback():
    def fails(*_):
        raise sqlite3.OperationalError("made here")

    with pytest.raises(sqlite3.OperationalError, match="made here"):
        PROGRAM.main(["copy"], fails)


def test_another_pipe_that_breaks_is_an_error(capsys):
    def loses_a_peer(*_):
        raise BrokenPipeError(32, "Broken pipe")

    assert PROGRAM.main(["copy"], loses_a_peer) == UserError.exit_code
    assert capsys.readouterr().err == "error: [Errno 32] Broken pipe\n"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with an environment that another Python than this one would be run in."""
    (tmp_path / "Makefile").touch()
    (tmp_path / "tools").mkdir()
    python = tmp_path / ".venv-tools" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lacks(package):
    """End a program of this environment, as a command does that imports a package."""

    def run(*_):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    own = replace(PROGRAM, environment=".venv-tools", setup="setup-tools")
    return own.main(["copy"], run)


def test_another_python_without_the_packages_is_told_which_one_has_them(repository, capsys):
    assert lacks("xxhash.core") == UserError.exit_code
    assert capsys.readouterr().err == (
        f"error: {sys.executable}: this Python lacks the package xxhash; run the command with"
        " .venv-tools/bin/python\n"
    )


def test_a_clone_without_an_environment_is_told_how_to_make_it(repository, capsys, monkeypatch):
    (repository / ".venv-tools" / "bin" / "python").unlink()
    monkeypatch.chdir("tools")
    assert lacks("xxhash") == UserError.exit_code
    assert capsys.readouterr().err.endswith(
        "lacks the package xxhash; run `make setup-tools` once; afterwards run the command with"
        f" {repository}/.venv-tools/bin/python\n"
    )


@pytest.mark.parametrize("case", ["own module", "own environment", "image"])
def test_another_missing_module_is_an_error_of_the_code(repository, monkeypatch, case):
    if case == "own environment":
        monkeypatch.setattr(sys, "prefix", str(repository / ".venv-tools"))
    if case == "image":
        (repository / "Makefile").unlink()
    with pytest.raises(ModuleNotFoundError):
        lacks("tools.copy" if case == "own module" else "xxhash")


def test_a_printed_command_names_the_script_that_can_be_run(tmp_path, monkeypatch):
    script = tmp_path / ".venv" / "bin" / "tool"
    script.parent.mkdir(parents=True)
    for path in (script, tmp_path / "tool"):
        path.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.installed("tool") == ".venv/bin/tool"
    monkeypatch.chdir(".venv")
    assert program.installed("tool") == "bin/tool"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert program.installed("tool") == str(script)
    monkeypatch.setenv("PATH", f"{script.parent}:{tmp_path}")
    assert program.installed("tool") == "tool"
    # An image has the code and not the script.
    script.unlink()
    assert program.installed("tool") == "tool"
