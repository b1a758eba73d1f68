"""Texts that look like a secret: on a command line, they are named without their value."""

from jobs.spec.secret_texts import options_with_secrets

SECRET = "ghp_0123456789abcdefABCD"


def test_an_option_with_a_secret_is_named_without_it():
    words = ["trainer", "train", "--a", "b", "--uri", f"https://{SECRET}@h/p", f"--x={SECRET}"]
    assert options_with_secrets(words) == ["--uri", "--x"]
    assert options_with_secrets([SECRET]) == ["a word without an option"]


def test_options_of_a_job_are_no_secrets():
    words = ["trainer", "--data.dir", "${{inputs.data}}", "--model.builder=a.b:c", "--seed", "7"]
    assert options_with_secrets(words) == []
