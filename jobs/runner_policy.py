"""Decide whether a command that moves data can run on a machine of GitHub. Pure.

The machines of GitHub are outside of the stack's network. A private stack would let such a command
wait for a connection that never comes.
"""

from collections.abc import Mapping

from infra.outputs import Access

HOSTED = "github-hosted"
"""Value of RUNNER_ENVIRONMENT on GitHub's own machines (GitHub, "Variables reference")."""


def refusal(command: str, access: Access, environment: Mapping[str, str]) -> str | None:
    """Return why a command that moves data cannot run here, and what to do; None if it can.

    Args:
        command: Name of the command.
        access: How the stack can be reached.
        environment: Environment variables of the process.
    """
    if environment.get("RUNNER_ENVIRONMENT") != HOSTED or "default_storage" in access.public:
        return None
    return (
        f"{command}: this machine belongs to GitHub, and the stack's storage accepts connections"
        f" only from inside its network (profile {access.profile}); nothing was sent. Run the"
        " workflow on a runner inside the network: register one, and set the repository's variable"
        " RUNNER_INSIDE to its label (docs/platform.md)"
    )
