"""Recognize texts that look like a secret, by their form. Pure.

Everyone with access to a job reads its variables, its command line and its properties.
"""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

_SIGNS: Final = (
    # Signed URLs and connection strings.
    r"(?<![a-zA-Z])(?i:sig|AccountKey|SharedAccessKey|SharedAccessSignature|Password|Pwd)=",
    r"(?i:[?&](?:access_?|id_?|private_?|auth_?)?(?:token|key|secret|password)=)",
    # A password in a URL, or a user name in one of HTTP, which is a token. The URLs of Azure's data
    # lakes have the container instead, and SSH's a user name without a password.
    r"(?i:[a-z][a-z0-9+.-]*://[^/@\s]*:[^/@\s]+@)",
    r"(?i:https?://[^/@\s]+@)",
    # Tokens of GitHub, GitLab, Azure, AWS, Google, Slack, Hugging Face, OpenAI, npm, PyPI, Docker.
    r"\b(?:gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|hf_|sk-|npm_|pypi-|dckr_pat_)[\w-]{16,}",
    r"\b[\w.~-]{3}[78]Q~[\w.~-]{31,}",
    r"\bAZDO\w{4,}\b|\b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{35}",
    # A JSON web token, a private key, a header, and keys of 32 and 64 bytes as Azure writes them.
    r"\beyJ[\w-]{8,}\.|-----BEGIN [A-Z ]*PRIVATE KEY",
    r"(?i:\b(?:bearer|basic) [a-z0-9._~+/-]{16,})",
    r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{43}=|[A-Za-z0-9+/]{86}==)(?![A-Za-z0-9+/=])",
)
_SECRET: Final = re.compile("|".join(_SIGNS))
_SSH_USER: Final = "git"
"""User of the SSH servers of all Git hosts, which is not a secret."""


def is_secret(text: str) -> bool:
    """Return whether a text contains what looks like a secret."""
    return _SECRET.search(text) is not None


def options_with_secrets(words: Sequence[str]) -> list[str]:
    """Return the options of a command line whose values look like a secret, without the values."""
    options = []
    for before, word in zip(("", *words), words, strict=False):
        name = word.partition("=")[0] if word.startswith("--") else before
        if is_secret(word.removeprefix(f"{name}=")):
            options.append(name if name.startswith("--") else "a word without an option")
    return options


def public_address(address: str) -> str | None:
    """Return the address of a Git repository without user, password, query and fragment; None if
    the rest looks like a secret, or if it cannot be read.
    """
    try:
        urlsplit(address)
    except ValueError:
        return None
    scheme, separator, rest = address.rpartition("://")
    where, slash, path = re.split(r"[?#]", rest)[0].partition("/")
    user, _, host = where.rpartition("@")
    keeps_user = user == _SSH_USER and scheme in ("", "ssh", "git+ssh")
    shown = f"{scheme}{separator}{'git@' if keeps_user else ''}{host}{slash}{path}"
    return None if "@" in path or is_secret(shown) else shown
