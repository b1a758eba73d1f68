"""The command line: valid arguments, and errors for invalid ones."""

import json
import re
import subprocess
import sys

import pytest

from common.errors import ConfigError
from infra.outputs import to_dict
from jobs import cli, gone
from jobs.cli import COMMANDS, GROUPS, main, read_options
from jobs.console import PLATFORM, next_command
from jobs.errors import PulumiMissingError, SignInError
from tests import ROOT
from tests.jobs.support.platform import platform


@pytest.fixture(autouse=True)
def outputs(tmp_path, monkeypatch):
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(to_dict(platform())))
    monkeypatch.setenv("JOBS_OUTPUTS", str(file))
    return file


def test_help_names_every_command_and_every_exit_status(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n  {command} " in text
    for status in ("20 cancelled", "21 interrupted", "22 Azure", "23 the cluster check", "130"):
        assert status in text


def test_every_command_stands_in_a_group_of_the_help():
    assert {command.group for command in COMMANDS.values()} <= set(GROUPS)


def test_a_command_of_the_first_day_names_the_stack_if_it_reads_no_other():
    page = (ROOT / "docs" / "first-day-on-azure.md").read_text()
    lines = re.findall(r"^    \.venv/bin/python -m jobs (\S+)(.*)", page, re.MULTILINE)
    reads = {verb: "--stack " in rest for verb, rest in lines if COMMANDS[verb].outputs == "named"}
    assert reads == {"plan": True}


@pytest.mark.parametrize(
    ("former", "now"),
    [
        (["list"], "status"),
        (["endpoints"], "status"),
        (["spec", "--sweep", "seed=1,2"], "sweep"),
    ],
)
def test_a_former_command_still_works(former, now, capsys):
    with pytest.raises(SystemExit):
        main([*former, "--help"])
    assert f"python -m jobs {now}" in capsys.readouterr().out


def test_no_command_at_all_is_refused_with_the_list(capsys):
    assert main([]) == 2
    assert "usage: python -m jobs COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"),
    [("sumbit", "; did you mean submit?\n"), ("qqqq", "unknown command 'qqqq'\n")],
)
def test_a_mistyped_command_is_told_in_two_lines(typed, said, capsys):
    assert main([typed]) == 2
    text = capsys.readouterr().err
    assert said in text
    assert text.splitlines()[1:] == ["`python -m jobs --help` lists the commands"]


def test_a_kind_that_there_is_not_is_refused(capsys):
    assert main(["list", "--kind", "nosuch"]) == 2
    assert "--kind: 'nosuch'" in capsys.readouterr().err


def test_what_comes_next_names_the_platform_as_it_was_given(monkeypatch):
    for args, said in (
        (["--stack", "prod"], "python -m jobs follow night --stack prod"),
        (["--outputs=my file.json"], "python -m jobs follow night --outputs 'my file.json'"),
        ([], "python -m jobs follow night"),
    ):
        token = PLATFORM.set(cli.read_options("status", args).given)
        assert next_command("follow", "night") == said
        PLATFORM.reset(token)


def test_a_command_leaves_no_platform_to_the_next_one(tmp_path, capsys):
    assert main(["status", "--outputs", str(tmp_path / "missing.json")]) != 0
    assert "missing.json" in capsys.readouterr().err
    assert PLATFORM.get() == ()


def test_a_reader_that_goes_away_ends_it_without_a_word():
    line = f"{sys.executable} -m jobs --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_ctrl_c_while_modules_are_imported_gives_no_traceback():
    program = (
        "import runpy, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'jobs.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "runpy.run_module('jobs', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_with_its_options(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert f"python -m jobs {command}" in text
    for option in ("--stack", "--outputs", "--json"):
        assert f" {option} " in text


def test_unknown_options_are_all_told_at_once_with_what_was_meant(capsys):
    assert main(["submit", "--preset", "digits", "--node", "4", "--nmae", "x"]) == 2
    text = capsys.readouterr().err
    assert "--node: unknown option; did you mean --nodes?" in text
    assert "--nmae: unknown option; did you mean --name?" in text


@pytest.mark.parametrize(
    ("args", "now"),
    [
        (["follow", "a", "--patience-minutes", "3"], "--retry-timeout-minutes"),
        (["submit", "--patience-minutes=3"], "--retry-timeout-minutes"),
        (["spec", "--data.blocks-ahead", "3"], "--data.prefetch-blocks"),
    ],
)
def test_an_option_that_was_renamed_is_told_with_its_new_name(args, now, capsys):
    assert main(args) == 2
    assert f": is now called {now}\n" in capsys.readouterr().err


@pytest.mark.parametrize("name", gone.COMMANDS)
def test_a_command_of_an_earlier_version_is_refused_with_what_to_use(name, capsys):
    assert main([name, "imagenet:3", "--stack", "dev"]) == 2
    assert f"error: {name}: version 0.1.0 was the last with it; " in capsys.readouterr().err
    assert name not in COMMANDS


def test_a_name_given_as_an_option_is_told_to_be_an_argument(capsys):
    assert main(["follow", "--name", "night"]) == 2
    assert "--name: is now called NAME, without an option" in capsys.readouterr().err


def test_an_option_without_its_value_is_told_with_all_other_problems(capsys):
    assert main(["status", "--stack", "--node", "4", "--runs", "x"]) == 2
    text = capsys.readouterr().err
    assert "--stack: needs a value" in text
    assert "--node: unknown option" in text
    assert "--runs: 'x' is not a whole number" in text


@pytest.mark.parametrize("option", ["--stack", "--outputs"])
def test_no_command_takes_an_empty_choice_of_the_platform_for_the_usual_one(option, capsys):
    for name in COMMANDS:
        with pytest.raises(ConfigError) as refused:
            read_options(name, [option, ""])
        assert any(
            text.startswith(f"{option}: '' must be a name, or omitted")
            for text in refused.value.problems
        )
    assert main(["up", option, "", "--yes", "True"]) == 2
    assert f"{option}: '' must be a name" in capsys.readouterr().err


def test_a_preparation_refuses_the_options_that_it_would_ignore(capsys):
    with pytest.raises(SystemExit):
        main(["prepare", "--help"])
    text = capsys.readouterr().out
    ignored = ("--nodes", "--cpu-processes", "--shm-size", "--data.asset")
    for option in ignored:
        assert option not in text
        assert main(["prepare", "folder", "--raw", "a", "--prepared", "b", option, "1"]) == 2
        assert f"{option}: unknown option" in capsys.readouterr().err
    read = ("--cluster", "--experiment", "--timeout-hours", "--variables", "--resubmit.attempts")
    for option in read:
        assert option in text


def test_options_of_the_trainer_stand_after_two_dashes(capsys):
    assert main(["submit", "--preset", "digits", "--", "--epoch", "4"]) == 2
    assert "--epoch: unknown option; did you mean --epochs?" in capsys.readouterr().err
    assert main(["status", "--", "--epochs", "4"]) == 2
    assert "this command accepts no trainer options" in capsys.readouterr().err


WRONG = [
    ("submit", "--preset: is missing; choose from digits"),
    ("submit --preset imagenet", "did you mean imagenet-ndv2?"),
    ("submit --preset digits --epochs 5", "--epochs: is an option of the trainer; put it after"),
    (
        "plan --preset imagenet-ndv2 --batch-size 8",
        "--batch-size: is an option of the trainer; put",
    ),
    ("submit --preset digits -- --nodes 2", "--nodes: is an option of the job; put it before"),
    ("spec --kind check -- --epochs 3", "a check has no options of the trainer"),
    *((f"{name}", "NAME: is missing") for name in ("follow", "logs", "cancel", "tensorboard")),
    *((f"{name}", "NAME: is missing") for name in ("stacks", "profile", "debug", "download")),
    *((f"{name}", "NAME: is missing") for name in ("register", "place")),
    ("compare", "RUN...: is missing"),
    ("logs night --rank first", "--rank: 'first' must be all, or numbers"),
    ("submit --preset digits --rank first", "--rank: 'first' must be all, or numbers"),
    ("download a/b", "a/b"),
    ("upload", "FOLDER: is missing"),
    ("upload photos", "--to: is missing; name DATASTORE/PATH"),
    ("prepare --raw a --prepared b", "must be folder or imagenet, not ''"),
    ("prepare photos --raw a --prepared b", "must be folder or imagenet, not 'photos'"),
    ("prepare folder", "--raw: '' is not a folder"),
    ("deploy digits:1", "--endpoint: is missing"),
    ("deploy digits --endpoint e", "MODEL: 'digits' must be NAME:VERSION"),
    ("score --endpoint e", "IMAGE...: is missing"),
    ("traffic --endpoint e", "needs either --to DEPLOYMENT or --back"),
    ("undeploy", "--endpoint: is missing"),
    ("score-batch digits:1 --input photos", "--input: 'photos' must be raw/FOLDER"),
    ("scaling --data imagenet", "--data: 'imagenet' must be NAME:VERSION"),
    ("supervise", "pass either --once or --watch"),
    ("place night --on a --free", "exclude each other"),
    ("sweep --preset digits", "OPTION=VALUE,VALUE...: is missing"),
    ("comment page.md", "--pull-request: is missing"),
    ("backend --deployers me", "--deployers: 'me' must be a GUID"),
]
"""Command lines that are wrong in themselves, each with a part of its message."""


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_arguments_are_checked_before_pulumi_and_azure_are_asked(line, said, monkeypatch, capsys):
    monkeypatch.delenv("JOBS_OUTPUTS")
    monkeypatch.setenv("PATH", "")
    assert main(line.split()) == 2
    assert said in capsys.readouterr().err


def test_a_dry_run_works_without_a_sign_in(monkeypatch, capsys):
    def refuse(*_):
        raise SignInError("not signed in; run `az login`")

    monkeypatch.setattr("jobs.azure.submission.look_up", refuse)
    assert main(["submit", "--preset", "digits", "--dry-run"]) == 0
    told = capsys.readouterr()
    assert "digits" in told.out
    assert told.out.endswith("nothing was submitted\n")
    assert "note: not signed in; run `az login`; the cluster, the data set" in told.err


def test_common_options_are_read_from_anywhere_before_the_trainers():
    for args in (
        ["a", "--stack", "prod", "--json", "--rank", "3"],
        ["--json", "--rank=3", "--stack=prod", "a"],
        ["--rank", "3", "--json", "True", "a", "--stack", "prod"],
    ):
        options = cli.read_options("follow", args)
        assert (options.name, options.rank) == ("a", "3")
        assert (options.stack, options.outputs, options.json) == ("prod", None, True)
    assert cli.read_options("status", ["--outputs=x.json"]).outputs == "x.json"


@pytest.mark.parametrize("named", [[], ["--stack", "dev"], ["--stack", "organization/ml/dev"]])
def test_the_file_of_the_variable_is_read_for_its_own_stack(named, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert cli.read_options("status", named).read() == platform()


def test_pulumi_is_asked_about_another_stack_than_that_of_the_variables_file(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PulumiMissingError):
        cli.read_options("status", ["--stack", "prod"]).read()


def test_a_file_of_outputs_that_is_missing_is_told(capsys):
    assert main(["status", "--outputs", "nowhere.json"]) == 4
    assert "nowhere.json" in capsys.readouterr().err


def test_all_problems_of_a_job_are_told_before_anyone_is_asked(capsys):
    assert main(["submit", "--preset", "imagenet-ndv2", "--nodes", "99"]) == 2
    text = capsys.readouterr().err
    assert "--data.asset: is missing; pass the data set" in text
    assert "--nodes: 99, but cluster" in text


def test_a_spec_is_printed_and_can_be_loaded_again(capsys):
    import io

    from azure.ai.ml import load_job

    assert main(["spec", "--preset", "imagenet-ndv2", "--nodes", "4", "--name", "night",
                 "--data.asset", "imagenet:3", "--", "--epochs", "30"]) == 0  # fmt: skip
    text = capsys.readouterr().out
    job = load_job(io.StringIO(text))
    assert job.name == "night-r1"
    assert "--epochs 30" in text


def test_a_spec_for_a_program_is_one_document(capsys):
    assert main(["spec", "--kind", "smoke", "--name", "s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["job"] == "s-r1"
    assert "type: command" in found["yaml"]
