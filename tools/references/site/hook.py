"""What MkDocs does with pages that GitHub shows as they are; `mkdocs.yml` names this file.

Pages of the root folder, and the README.md of each extra, become part of the site. Links to other
files of the repository lead to the repository if its address is known, otherwise to a page with the
file. Admonitions are written as GitHub writes them. Scripts come from this machine: the site loads
nothing from the internet.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[3]
MODULES: Final = ROOT / ".tools" / "docs" / "node_modules"
SCRIPTS: Final = {
    "assets/mermaid.js": MODULES / "mermaid" / "dist" / "mermaid.min.js",
    "assets/iframe-worker.js": MODULES / "iframe-worker" / "shim" / "index.js",
}
"""Scripts of the site, and where npm has installed them."""
EXTRAS: Final = tuple(
    sorted(page.relative_to(ROOT).as_posix() for page in ROOT.glob("*/extras/*/README.md"))
)
"""Pages of the extras, each in the folder of its code."""
PAGES: Final = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", *EXTRAS)
"""Pages outside of docs/ that the site contains, each at the path that it has in the repository."""
SAME: Final = {"README.md": "index.md", "LICENSE": "LICENSE"}
"""Files of the root folder with a page of another name."""
LANGUAGES: Final = {
    ".py": "python",
    ".sh": "bash",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".json": "json",
}

_LINK: Final = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
_ALERT: Final = re.compile(r"^> \[!(\w+)\]\n((?:^>.*\n?)+)", re.MULTILINE)


def linked(text: str, folder: Path) -> list[Path]:
    """Return the files of the repository that a page links to.

    Args:
        text: Markdown of the page.
        folder: Folder of the page, relative to the root of the repository.
    """
    paths = (_inside(folder, link) for link, _ in _LINK.findall(text))
    return [path for path in paths if path is not None]


def place(path: Path) -> str | None:
    """Return the path in the site of a file of the repository, or None if the site lacks it."""
    name = path.as_posix()
    if name in SAME:
        return SAME[name]
    if name in PAGES:
        return name
    return name.removeprefix("docs/") if name.startswith("docs/") else None


def source_page(path: Path) -> str:
    """Return the path in the site of the page that shows a file or folder of the repository."""
    return f"source/{path.as_posix()}.md"


def relinked(text: str, folder: Path, page: str, repository: str) -> str:
    """Return a page with links that lead somewhere in the site.

    Args:
        text: Markdown of the page.
        folder: Folder of the page, relative to the root of the repository.
        page: Path of the page in the site.
        repository: Address of the repository on the web; empty if it is not known.
    """
    up = "../" * page.count("/")

    def replaced(match: re.Match[str]) -> str:
        path = _inside(folder, match[1])
        if path is None:
            return match[0]
        inside = place(path)
        if inside is None and repository:
            return f"]({repository.rstrip('/')}/blob/main/{path.as_posix()}{match[2] or ''})"
        return f"]({up}{inside or source_page(path)}{match[2] or ''})"

    return _LINK.sub(replaced, text)


def admonished(text: str) -> str:
    """Return a page with GitHub's alerts as admonitions."""

    def replaced(match: re.Match[str]) -> str:
        lines = [line.removeprefix(">").strip() for line in match[2].splitlines()]
        return "\n".join([f"!!! {match[1].lower()}", "", *(f"    {line}" for line in lines), ""])

    return _ALERT.sub(replaced, text)


def shown(path: Path) -> str:
    """Return the Markdown of a page that shows a file, or lists a folder, of the repository."""
    if path.is_dir():
        names = sorted(
            f"{entry.name}/" if entry.is_dir() else entry.name for entry in path.iterdir()
        )
        content = "\n".join(f"- `{name}`" for name in names if not name.startswith((".", "__")))
    else:
        language = LANGUAGES.get(path.suffix, "text")
        content = f"````{language}\n{path.read_text()}````\n"
    title = path.relative_to(ROOT).as_posix()
    return f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {title}\n\n{content}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, the files that pages link to, and the scripts."""
    # MkDocs is in the environment of the site alone.
    from mkdocs.structure.files import File, InclusionLevel  # noqa: PLC0415

    texts = {name: (ROOT / name).read_text() for name in PAGES}
    paths = [path for name, text in texts.items() for path in linked(text, Path(name).parent)]
    for file in files.documentation_pages():
        paths += linked(file.content_string, Path("docs", file.src_uri).parent)
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "LICENSE", abs_src_path=str(ROOT / "LICENSE")))
    for path in sorted({path for path in paths if place(path) is None}):
        if not config.repo_url:
            files.append(File.generated(config, source_page(path), content=shown(ROOT / path)))
    for name, script in SCRIPTS.items():
        files.append(File.generated(config, name, abs_src_path=str(script)))
    for file in files:
        if file.src_uri.startswith("source/"):
            file.inclusion = InclusionLevel.NOT_IN_NAV
    return files


def on_page_markdown(text: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Turn what only GitHub knows into what MkDocs knows."""
    uri = page.file.src_uri
    if uri.startswith("source/"):
        return text
    folder = Path(uri if uri in PAGES else f"docs/{uri}").parent
    return admonished(relinked(text, folder, uri, config.repo_url or ""))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Load the script for drawings into pages that have some."""
    if 'class="mermaid"' not in output:
        return output
    up = "../" * page.file.dest_uri.count("/")
    return output.replace("</head>", f'<script src="{up}assets/mermaid.js"></script></head>', 1)


def _inside(folder: Path, link: str) -> Path | None:
    """Return the file of the repository that a relative link names, or None if there is none."""
    if urlsplit(link).scheme:
        return None
    path = (ROOT / folder / link).resolve()
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) and path.exists() else None
