"""Whether this machine's own name leads to this machine, without which Gloo crashes the process.

Gloo (in Horovod 0.28.1) asks for the address of the machine's own name, whatever interface it was
told to use. A name that does not resolve ends in a segmentation fault, an address that is not the
machine's own in an abort; neither says what to do. The usual case is a container whose name is in
no /etc/hosts.
"""

import socket
import threading
from typing import Any

from common.errors import UserError

SECONDS = 60.0
"""A resolver whose servers do not answer gives up after 10 to 30 s by itself."""


def check_own_name(seconds: float = SECONDS) -> None:
    """Make sure that this machine's name has an address that is its own.

    Args:
        seconds: how long to wait for an answer.

    Raises:
        UserError: it has none, or there was no answer.
    """
    name = socket.gethostname()
    found: list[str] = []
    asking = threading.Thread(target=lambda: found.append(fault(name)), daemon=True)
    asking.start()
    asking.join(seconds)
    told = found[0] if found else f"is not resolved within {seconds:g} s"
    if told:
        raise UserError(
            f"this machine's own name, {name!r}, {told}; Horovod's Gloo would crash. Add the line"
            f" '127.0.0.1 {name}' to /etc/hosts (the machine's address instead of 127.0.0.1 where"
            " ranks are on several machines), or start the container with --uts host or, on one"
            " machine, --hostname localhost"
        )


def fault(name: str) -> str:
    """What is wrong with a name, as the end of a sentence; empty if nothing is."""
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return f"does not resolve ({error.strerror})"
    if any(_is_ours(family, address) for family, _, _, _, address in answers):
        return ""
    shown = ", ".join(dict.fromkeys(str(address[0]) for *_, address in answers))
    return f"resolves to {shown}, which is no address of this machine"


def _is_ours(family: int, address: Any) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True
