"""Pages that mkdocs shows in addition to those in docs/: files of the repository, the commands, and the tables in docs/results.

These pages are generated at build time, so they cannot be out of date. Links work both in the repository and on the site: a link
to a file that has become a page is rewritten to point to that page.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from command_pages import command_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
MODELS = "src/poli/estimation/models"
_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
_RESULT = re.compile(r"<!-- result: (\w+) -->")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the menus whose entries are discovered rather than listed."""
    found = {
        "Models": [uri for uri in _shown().values() if uri.startswith("models/")],
        "Examples": [uri for uri in _shown().values() if uri.startswith("examples/")],
        "Tables": ["results/index.md", *({_name(path).replace("_", " "): f"results/{_name(path)}.md"} for path in _tables())],
    }
    config.nav = _filled(config.nav, found)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, uri in _shown().items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=_script(source, text) if source.endswith(".py") else text))
    files.append(File.generated(config, "reference/cli.md", content=command_page()))
    files.append(File.generated(config, "results/index.md", content=_list_of_tables()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    if uri.startswith("results/") and uri != "results/index.md":
        markdown += _beside(uri.removeprefix("results/").removesuffix(".md"))
    markdown = _RESULT.sub(lambda match: _result(match[1]), markdown)
    return _LINK.sub(lambda match: f"]({_on_site(match[1], uri)}{match[2] or ''})", markdown)


# --- files of the repository


def _shown() -> dict[str, str]:
    """Files outside docs/ that are pages of the site, and their addresses there."""
    pages = {f"{name}.md": f"{name.lower()}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")}
    pages |= {f"{MODELS}/{path.name}": f"models/{path.name}" for path in sorted((ROOT / MODELS).glob("*.md"))}
    return pages | {f"examples/{path.name}": f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))}


def _script(source: str, text: str) -> str:
    """Render an example as a page: its docstring as the introduction, the rest as code."""
    found = re.match(r'"""(.*?)"""\n', text, re.DOTALL)
    intro, code = (found[1].strip(), text[found.end() :].strip()) if found else ("", text)
    return f"# {Path(source).stem.replace('_', ' ').capitalize()}\n\n{intro}\n\n`{source}`:\n\n```python\n{code}\n```\n"


def _on_site(link: str, uri: str) -> str:
    """Rewrite a link of page `uri`, which is relative to its source file in the repository, as a link within the site."""
    if re.match(r"[a-z]+:", link):
        return link
    pages = _shown()
    homes = {page: source for source, page in pages.items()}
    target = posixpath.normpath(posixpath.join(posixpath.dirname(homes.get(uri, f"docs/{uri}")), link))
    pages |= {"README.md": "index.md", "docs/results": "results/index.md"}
    there = pages.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
    return link if there is None else posixpath.relpath(there, posixpath.dirname(uri) or ".")


# --- docs/results


def _tables() -> list[Path]:
    """All tables. Those in subfolders of docs/results, which repeat a table under other conditions, come last."""
    found = (path for path in RESULTS.rglob("*.md") if path.name != "index.md")
    return sorted(found, key=lambda path: (path.parent != RESULTS, path))


def _name(path: Path) -> str:
    """Return a name such as `augmentation` or `dense_sensor/augmentation`."""
    return path.relative_to(RESULTS).with_suffix("").as_posix()


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def _list_of_tables() -> str:
    lines = [
        "# All tables",
        "The command above each table generated it, with the machine and the versions; run the commands in a clone. "
        "[Compared with the paper](../comparison.md) lists the corresponding figures of the paper.",
        "| table | of |\n|---|---|\n" + "\n".join(f"| [{_name(path)}]({_name(path)}.md) | {_title(path)} |" for path in _tables()),
    ]
    return "\n\n".join(lines) + "\n"


def _beside(name: str) -> str:
    """Link the plots and the JSON file that belong to a table, relative to the table's folder."""
    folder, stem = (RESULTS / name).parent, posixpath.basename(name)
    tables = [path.stem for path in folder.glob("*.md")]
    plots = [path for path in sorted(folder.glob(f"{stem}*.png")) if _owner(path.stem, tables) == stem]
    text = "".join(f"\n\n![{path.stem.replace('_', ' ')}]({path.name})" for path in plots)
    return text + (f"\n\n[All figures as JSON]({stem}.json)\n" if (folder / f"{stem}.json").is_file() else "\n")


def _owner(plot: str, names: list[str]) -> str | None:
    """Return the table a plot belongs to: `odometry_drives_x` belongs to `odometry_drives`, not to `odometry`."""
    return max((name for name in names if plot == name or plot.startswith(f"{name}_")), key=len, default=None)


def _result(name: str) -> str:
    """Replace `<!-- result: NAME -->` in a page by the table of docs/results/NAME.md, or by a note that it is missing."""
    path = RESULTS / f"{name}.md"
    if not path.is_file():
        return f"*Not measured yet: `python -m benchmarks {name}` writes this table.*"
    rows = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return "\n".join(rows) + f"\n\n[{_title(path)}: the whole page](results/{name}.md)"


# --- the menu


def _filled(nav: Any, found: dict[str, list[str]]) -> Any:
    """The menu of mkdocs.yml with each `Title: found` replaced by the discovered pages."""
    if isinstance(nav, list):
        return [_filled(entry, found) for entry in nav]
    if isinstance(nav, dict):
        return {title: found[title] if entry == "found" else _filled(entry, found) for title, entry in nav.items()}
    return nav
