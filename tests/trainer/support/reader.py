"""Pages as a browser reads them."""

import re
from html.parser import HTMLParser


class Reader(HTMLParser):
    """The content of a page in a browser: elements, texts and headings."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.texts, self.headings, self.open = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag):
        # Elements without an end tag, such as meta, end with the one around them.
        if tag in self.open:
            last = len(self.open) - 1 - self.open[::-1].index(tag)
            del self.open[last:]

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def loaded(page):
    """Elements that would load something, or the whole page if it does not forbid that."""
    reader = Reader(page)
    found = [
        (tag, attrs)
        for tag, attrs in reader.elements
        for name in ("src", "href", "data", "action", "poster", "srcset")
        if not attrs.get(name, "#").startswith(("#", "data:image/"))
    ]
    policy = [attrs["content"] for attrs in reader.all("meta") if "http-equiv" in attrs]
    forbidden = policy and policy[0].startswith("default-src 'none';")
    return found + reader.all("link") + ([] if forbidden else [page])
