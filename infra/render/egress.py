"""Print what nodes must reach, for the owner of an existing network or of a firewall:
`python -m infra.render.egress STACK`.

The traffic is that of the security groups which the stack declares in a network of its own.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from infra.catalog import network_rules
from infra.catalog.network_rules import Surroundings
from infra.errors import PlatformError
from infra.settings import Settings
from infra.stack_config import configuration, with_subscription
from infra.validation import load

_PLACES = Surroundings("its own subnet", ("the private endpoints",), ("the DNS servers",))


def table(settings: Settings) -> str:
    """Return the outbound traffic of both subnets of nodes as a Markdown table."""
    lines = ["| to | protocol | ports | from | why |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *_rows(settings)]) + "\n"


def _rows(settings: Settings) -> Iterator[str]:
    region, service = settings.location, settings.network.service_traffic
    of = {
        "training": network_rules.training(region, _PLACES, service),
        "build": network_rules.build(region, _PLACES, service),
    }
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for subnet, rules in of.items():
        for rule in rules:
            if rule.direction == "Outbound" and rule.access == "Allow":
                protocol = "any" if rule.protocol == "*" else rule.protocol.upper()
                ports = "any" if rule.ports == ("*",) else ", ".join(rule.ports)
                key = (", ".join(rule.destinations), protocol, ports, rule.why)
                found.setdefault(key, []).append(subnet)
    for (to, protocol, ports, why), subnets in found.items():
        yield f"| {to} | {protocol} | {ports} | {' and '.join(subnets)} | {why} |"


def main(arguments: Sequence[str]) -> int:
    """Print the table of a stack; return 2 if its configuration is wrong."""
    parser = argparse.ArgumentParser(prog="python -m infra.render.egress", description=__doc__)
    parser.add_argument("stack", help="name of the stack, configured in Pulumi.STACK.yaml")
    parser.add_argument("--file", type=Path, help="file of the settings, if not the stack's own")
    options = parser.parse_args(arguments)
    try:
        _, values = configuration(options.stack, options.file)
        settings = load(with_subscription(values) | {"stack": options.stack})
    except (PlatformError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(table(settings), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
