"""The page of a rehearsal as a browser would see it."""

import html.parser

from rehearsal.page.cycle_page import draw
from rehearsal.page.record import Cycle

EMPTY = Cycle("An empty one", 1000.0, 0.0, "here", "3.259.0")
"""A record of nothing."""


class Page(html.parser.HTMLParser):
    """The content that a browser would find: elements, and the texts of each."""

    def __init__(self, cycle):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.source = draw(cycle, "../docs/rehearse-without-azure.md")
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes nothing, at {self.getpos()}"

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def seen(self):
        return " ".join(" ".join(self.texts).split())

    def of(self, tag, name, value):
        return [a for t, a in self.elements if t == tag and value in (a.get(name) or "").split()]
