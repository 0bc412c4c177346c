"""Print the notes of a release: the section of its version in CHANGELOG.md.

    python .github/release_notes.py v0.1.0

Fails if the tag does not match the version in pyproject.toml, `poli.__version__` and CITATION.cff, or if the changelog has no dated
section of it.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def versions(root: Path = ROOT) -> dict[str, str]:
    """Return the version by file."""
    package = (root / "src/poli/__init__.py").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    return {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "src/poli/__init__.py": _found(r'^__version__ = "(.+)"$', package),
        "CITATION.cff": _found(r"^version: (.+)$", citation),
    }


def notes(version: str, changelog: str) -> str:
    """Return the section of a version, without its heading. Its date must be set."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, body = section.partition("\n")
        name, _, date = heading.partition(" ")
        if name == version:
            if not re.fullmatch(r"\(\d{4}-\d{2}-\d{2}\)", date):
                raise SystemExit(
                    f"CHANGELOG.md: the heading of {version} ends in {date or 'nothing'}; write the date, as (2026-01-31)"
                )
            return body.strip() + "\n"
    raise SystemExit(f"CHANGELOG.md: no section of {version}")


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, flags=re.MULTILINE)
    return match[1] if match else "none"


def main(tag: str) -> None:
    version = tag.removeprefix("v")
    for file, found in versions().items():
        if found != version:
            raise SystemExit(f"{file}: the version is {found}, the tag {tag}")
    print(notes(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
