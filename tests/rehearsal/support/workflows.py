"""The steps of the workflows in .github/, run on this machine as GitHub would."""

import re

import yaml

from tests import ROOT

SIGN_IN = ("ARM_", "AZURE_")
"""Beginnings of the variables of a sign-in, which the simulator has its own of."""
_EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")


def commands(name, context):
    """The commands of a workflow's only job, each with its variables.

    Actions of others are left out: the checkout is there, and so are the tools and the sign-in.

    Args:
        name: Name of the workflow.
        context: Values of GitHub's contexts by their full names, such as `vars.STACK`; others are
            empty.
    """
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
    (job,) = yaml.safe_load(text)["jobs"].values()
    return [
        (
            step["run"],
            {
                key: resolved(str(value), context)
                for key, value in {**job.get("env", {}), **step.get("env", {})}.items()
                if not key.startswith(SIGN_IN)
            },
        )
        for step in job["steps"]
        if "run" in step
    ]


def runs_on(name, context):
    """The label of the machine that a workflow's only job runs on."""
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
    (job,) = yaml.safe_load(text)["jobs"].values()
    return resolved(job["runs-on"], context)


def resolved(text, context):
    """A text with GitHub's expressions replaced: names, and alternatives of them."""

    def value(match):
        parts = (part.strip() for part in match[1].split("||"))
        found = (part[1:-1] if part[0] == "'" else context.get(part, "") for part in parts)
        return next((one for one in found if one), "")

    return _EXPRESSION.sub(value, text)
