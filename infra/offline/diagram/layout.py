"""Layout of the picture: the outside on the left, the network in the middle, the services that its
private endpoints connect to on the right, and monitoring below.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from infra.offline.diagram import svg
from infra.offline.diagram.svg import FAINT, Area
from infra.offline.diagram.view import Card, Service, Subnet, View

MARGIN, GAP, PAD = 28.0, 16.0, 14.0
BETWEEN = 40.0
"""Room for the arrows from the nodes to the endpoints."""
OUTSIDE, NODES, ENDPOINTS, SERVICES = 120.0, 444.0, 312.0, 396.0
"""Widths of the columns from left to right."""
LINE, SMALL = 18.0, 12.0
"""Line spacing, and size of the smaller text."""

NETWORK_FILL, NETWORK_EDGE = "#eef4fb", "#5b8fc7"
SUBNET_EDGE = "#a9c4e2"
PRIVATE, PUBLIC = "#2f6db0", "#b4552d"
ACCENTS = {
    "machinelearningservices:Workspace": "#6d4bb5",
    "machinelearningservices:Compute": "#2f8f5b",
    "compute:VirtualMachine": "#2f8f5b",
    "network:BastionHost": "#b4552d",
    "containerregistry:Registry": "#2f6db0",
    "keyvault:Vault": "#b8860b",
    "storage:StorageAccount": "#1d8a8a",
    "monitor:PrivateLinkScope": "#8a4a7a",
}


@dataclass(frozen=True)
class Drawn:
    """Shapes, and the height that they take up."""

    shapes: tuple[str, ...]
    height: float


def draw(view: View) -> str:
    """Return the picture of a view as an SVG document."""
    top = MARGIN + 46
    network_x = MARGIN + OUTSIDE + GAP * 2
    inner = NODES + BETWEEN + ENDPOINTS + PAD * 2
    services_x = network_x + inner + GAP * 4
    width = services_x + SERVICES + MARGIN

    header = 34 + LINE * len(view.network.lines)
    body = top + header
    pills, services, end_services = _services(view, body, network_x, services_x)
    nodes, exits, end_nodes = _nodes(view, body, network_x)
    bottom = max(end_services, end_nodes) + PAD

    frame = Area(network_x, top, inner, bottom - top)
    shapes = [
        svg.text(MARGIN, MARGIN + 20, view.title, size=20, bold=True),
        svg.box(frame, NETWORK_FILL, NETWORK_EDGE, radius=12, weight=1.5),
        *_network_title(view.network, frame),
        *_endpoint_subnet(view, Area(frame.right - PAD - ENDPOINTS, body, ENDPOINTS, 0), bottom),
        *pills,
        *nodes,
        *services,
        *_outside(frame, exits),
    ]
    below = bottom + GAP * 1.5
    zones = _zones(view, Area(MARGIN, below, width - 2 * MARGIN, 0))
    below += zones.height
    grants = _grants(view, Area(MARGIN, below, width - 2 * MARGIN, 0))
    below += grants.height
    operations = _operations(view.operations, Area(MARGIN, below, width - 2 * MARGIN, 0))
    below += operations.height
    return svg.page(
        width,
        below + MARGIN - GAP,
        view.title,
        [*shapes, *zones.shapes, *grants.shapes, *operations.shapes],
    )


def _network_title(card: Card, frame: Area) -> list[str]:
    y = frame.y + 25
    shapes = [svg.text(frame.x + PAD, y, card.title, size=15, bold=True, color=NETWORK_EDGE)]
    for line in card.lines:
        y += LINE
        shapes.append(svg.text(frame.x + PAD, y, line, size=SMALL, color=FAINT))
    return shapes


def _services(
    view: View, top: float, network_x: float, services_x: float
) -> tuple[list[str], list[str], float]:
    """Draw endpoints and the services they connect to, aligned with each other."""
    pills: list[str] = []
    shapes: list[str] = []
    x = network_x + PAD + NODES + BETWEEN + PAD
    pill_width = ENDPOINTS - 2 * PAD
    subnet = next((subnet for subnet in view.subnets if subnet.has_endpoints), None)
    y = top + 40 + LINE * (_wrapped_lines(subnet, pill_width) if subnet else 0)
    for service in view.services:
        lines = _lines(service.card, SERVICES - 2 * PAD)
        height = max(34 + LINE * len(lines), 40.0 * len(service.endpoints))
        area = Area(services_x, y, SERVICES, height)
        shapes += _card(service.card, area, lines)
        step = height / max(len(service.endpoints), 1)
        for number, endpoint in enumerate(service.endpoints):
            pill = Area(x, y + step * number + (step - 34) / 2, pill_width, 34)
            pills += _pill(endpoint, pill)
            pills.append(svg.arrow([(pill.right, pill.middle), (area.x, pill.middle)], PRIVATE))
        shapes += _doorplate(service, area)
        y += height + GAP + (LINE if service.reached_from else 0)
    return pills, shapes, y


def _doorplate(service: Service, area: Area) -> list[str]:
    """Draw below a service who can reach it from outside the network."""
    if not service.reached_from:
        return []
    words = svg.fitted("open to " + ", ".join(service.reached_from), area.width, SMALL)
    return [svg.text(area.x + 2, area.bottom + 15, words, size=SMALL, color=PUBLIC, bold=True)]


def _card(card: Card, area: Area, lines: Sequence[str]) -> list[str]:
    accent = ACCENTS.get(card.kind, FAINT)
    band = Area(area.x, area.y, 6, area.height)
    shapes = [
        svg.box(area, "#ffffff", accent, dashed=not card.kind),
        svg.box(band, accent, accent, radius=3) if card.kind else "",
        svg.text(
            area.x + PAD + 4,
            area.y + 22,
            svg.fitted(card.title, area.width - 2 * PAD - 8, 13.5, bold=True),
            size=13.5,
            bold=True,
        ),
    ]
    for number, line in enumerate(lines):
        y = area.y + 41 + LINE * number
        shapes.append(svg.text(area.x + PAD + 4, y, line, size=SMALL, color=FAINT))
    return [shape for shape in shapes if shape]


def _pill(card: Card, area: Area) -> list[str]:
    group = " ".join(card.lines)
    room = area.width - 3 * PAD - svg.width_of(group, SMALL)
    return [
        svg.box(area, "#ffffff", PRIVATE, radius=17),
        svg.text(area.x + PAD, area.middle + 4.5, svg.fitted(card.title, room, 12.5), size=12.5),
        svg.text(
            area.right - PAD, area.middle + 4.5, group, size=SMALL, color=PRIVATE, anchor="end"
        ),
    ]


def _endpoint_subnet(view: View, area: Area, bottom: float) -> list[str]:
    shapes: list[str] = []
    for subnet in (subnet for subnet in view.subnets if subnet.has_endpoints):
        frame = Area(area.x, area.y, area.width, bottom - PAD - area.y)
        shapes += [svg.box(frame, "#ffffff", SUBNET_EDGE), *_subnet_title(subnet, frame)]
    return shapes


def _nodes(view: View, top: float, network_x: float) -> tuple[list[str], list[float], float]:
    """Draw the other subnets with their clusters, then the outbound gateways; return their
    positions too.
    """
    shapes: list[str] = []
    y = top
    for subnet in (subnet for subnet in view.subnets if not subnet.has_endpoints):
        width = (NODES - 2 * PAD - GAP) / 2
        head = 40 + LINE * _wrapped_lines(subnet, NODES - 2 * PAD)
        cards = [(card, _lines(card, width - 2 * PAD)) for card in subnet.clusters]
        rows = [cards[start : start + 2] for start in range(0, len(cards), 2)]
        heights = [max(36 + LINE * len(lines) for _, lines in row) for row in rows]
        frame = Area(network_x + PAD, y, NODES, head + sum(heights) + PAD * len(rows))
        shapes += [svg.box(frame, "#ffffff", SUBNET_EDGE), *_subnet_title(subnet, frame)]
        row_y = y + head
        for row, height in zip(rows, heights, strict=True):
            for number, (card, lines) in enumerate(row):
                x = frame.x + PAD + number * (width + GAP)
                shapes += _card(card, Area(x, row_y, width, height), lines)
            row_y += height + PAD
        if subnet.reaches_endpoints and any(other.has_endpoints for other in view.subnets):
            start = (frame.right, frame.middle)
            shapes.append(svg.arrow([start, (frame.right + BETWEEN, frame.middle)], PRIVATE))
        y = frame.bottom + GAP
    exits = []
    for gateway in view.ways_out:
        lines = _lines(gateway, NODES - 2 * PAD)
        area = Area(network_x + PAD, y, NODES, 34 + LINE * len(lines))
        shapes += _card(gateway, area, lines)
        exits.append(area.middle)
        y = area.bottom + GAP
    return shapes, exits, y


def _subnet_title(subnet: Subnet, frame: Area) -> list[str]:
    shapes = [svg.text(frame.x + PAD, frame.y + 24, f"Subnet {subnet.name}", bold=True, size=13.5)]
    y = frame.y + 24
    for line in _subnet_lines(subnet, frame.width - 2 * PAD):
        y += LINE
        shapes.append(svg.text(frame.x + PAD, y, line, size=SMALL, color=FAINT))
    return shapes


def _subnet_lines(subnet: Subnet, width: float) -> list[str]:
    parts = (*subnet.lines, subnet.way_out) if subnet.way_out else subnet.lines
    return svg.wrapped(" · ".join(parts), width, SMALL)


def _wrapped_lines(subnet: Subnet, width: float) -> int:
    return len(_subnet_lines(subnet, width))


def _lines(card: Card, width: float) -> list[str]:
    return [part for line in card.lines for part in svg.wrapped(line, width - 8, SMALL)]


def _outside(frame: Area, exits: Sequence[float]) -> list[str]:
    """Draw the outside, where outbound traffic goes."""
    shapes: list[str] = []
    for y in exits:
        area = Area(MARGIN, y - 24, OUTSIDE, 48)
        shapes += [
            svg.box(area, "#ffffff", FAINT, radius=24, dashed=True),
            svg.text(area.x + area.width / 2, area.middle + 4.5, "Internet", anchor="middle"),
            svg.arrow([(frame.x + PAD, y), (area.right, y)], PUBLIC),
        ]
    return shapes


def _zones(view: View, area: Area) -> Drawn:
    if not view.zones:
        return Drawn((), 0)
    title = "Existing private DNS zones" if view.zones_exist else "Private DNS zones"
    shapes = [svg.text(area.x, area.y + 14, title, bold=True, size=13.5)]
    x, y = area.x, area.y + 26
    for zone in view.zones:
        width = svg.width_of(zone, SMALL) + 2 * PAD
        if x + width > area.right:
            x, y = area.x, y + 34
        chip = Area(x, y, width, 26)
        shapes += [
            svg.box(chip, NETWORK_FILL, SUBNET_EDGE, radius=13),
            svg.text(chip.x + width / 2, chip.middle + 4, zone, size=SMALL, anchor="middle"),
        ]
        x += width + 8
    return Drawn(tuple(shapes), y + 26 + GAP * 1.5 - area.y)


def _grants(view: View, area: Area) -> Drawn:
    """Draw a table of role assignments: principals in rows, scopes in columns."""
    if not view.grants:
        return Drawn((), 0)
    shapes = [svg.text(area.x, area.y + 14, "Role assignments", bold=True, size=13.5)]
    first = 210.0
    width = (area.width - first) / len(view.columns)
    y = area.y + 26
    for number, column in enumerate(view.columns):
        name = svg.fitted(column, width - 8, SMALL, bold=True)
        shapes.append(
            svg.text(area.x + first + width * number, y + 12, name, size=SMALL, bold=True)
        )
    y += 20
    for grant in view.grants:
        cells = [
            [line for role in held for line in svg.wrapped(_brief(role), width - 8, SMALL)]
            for held in grant.roles
        ]
        shapes.append(svg.rule(area.x, area.right, y, SUBNET_EDGE))
        who = svg.fitted(grant.who, first - 8, SMALL, bold=True)
        shapes.append(svg.text(area.x, y + 16, who, size=SMALL, bold=True))
        for number, cell in enumerate(cells):
            x = area.x + first + width * number
            for line, words in enumerate(cell):
                shapes.append(svg.text(x, y + 16 + 15 * line, words, size=SMALL, color=FAINT))
        y += 24 + 15 * (max(1, *map(len, cells)) - 1)
    return Drawn(tuple(shapes), y + GAP * 1.5 - area.y)


def _brief(role: str) -> str:
    """Return a role without the service name that its column shows anyway."""
    for service in ("Storage ", "Key Vault ", "AzureML ", "Monitoring "):
        role = role.removeprefix(service)
    return role


def _operations(cards: Sequence[Card], area: Area) -> Drawn:
    if not cards:
        return Drawn((), 0)
    shapes = [svg.text(area.x, area.y + 14, "Monitoring and budget", bold=True, size=13.5)]
    width = (area.width - GAP * (len(cards) - 1)) / len(cards)
    lines = [_lines(card, width - 2 * PAD) for card in cards]
    height = 34 + LINE * max(map(len, lines))
    for number, (card, own) in enumerate(zip(cards, lines, strict=True)):
        x = area.x + number * (width + GAP)
        shapes += _card(card, Area(x, area.y + 26, width, height), own)
    return Drawn(tuple(shapes), 26 + height + GAP)
