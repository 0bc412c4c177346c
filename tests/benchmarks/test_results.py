"""Tables that cannot be stale: pages quote only numbers that their tables have, and tables whose weights are the shipped ones.

A number is quoted in as many digits as the page gives: the table must have one that rounds to it. In README.md, every row of the
table of results ends with a link to its table, one row of which must have all its results. docs/comparison.md is made from the
tables.
"""

import json
import re
from pathlib import Path

import pytest

from benchmarks import comparison
from benchmarks.provenance import source_digest, weights_digest
from benchmarks.status import RESULTS, citations, owner, why_stale

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?")
LINK = re.compile(r"results/(\w+)\.md|<!-- result: (\w+) -->")


def numbers(text: str) -> list[str]:
    """The numbers of a text as written, without signs and thousands separators."""
    text = re.sub(r"\]\([^)]*\)|<!--.*?-->", "", text)  # addresses of links have none
    return [found.lstrip("+-").replace(",", "") for found in NUMBER.findall(text)]


def has(table: str, quoted: str) -> bool:
    """Whether a table has a number that rounds to the quoted one in its digits."""
    digits = len(quoted.partition(".")[2])
    every = re.findall(r"\d[\d,]*(?:\.\d+)?", table)
    values = [float(number.rstrip(",").replace(",", "")) for number in every]
    return any(abs(value - float(quoted)) <= 0.5 * 10.0**-digits + 1e-9 for value in values)


def readme_rows() -> list[tuple[str, str]]:
    """The rows of README's results, each with the name of its table."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Results")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [(row, (LINK.search(row.rpartition("| [")[2]) or [None, ""])[1]) for row in rows]


def table(name: str) -> str:
    path = RESULTS / f"{name}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@pytest.mark.parametrize(("row", "name"), readme_rows(), ids=lambda value: value[:60])
def test_readme_quotes_what_its_tables_have(row, name):
    assert name, "the row does not end with a link to its table"
    missing = [number for number in numbers(row) if not has(table(name), number)]
    assert not missing, f"{name}.md has no {', '.join(missing)}"
    measured = numbers(" ".join(row.split("|")[3:5]))
    rows = [line for line in table(name).splitlines() if line.startswith("|")]
    assert any(all(has(line, number) for number in measured) for line in rows), f"no row of {name}.md has {', '.join(measured)}"


def test_the_comparison_is_what_the_template_and_the_tables_make():
    assert comparison.PAGE.read_text(encoding="utf-8") == comparison.page(comparison.TEMPLATE.read_text(encoding="utf-8"))


def test_a_page_has_numbers_tables_and_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "RESULTS", tmp_path)
    (tmp_path / "tea.json").write_text('{"cups": [{"liters": 0.25}]}')
    (tmp_path / "tea.md").write_text("# Tea\n\n| cup |\n|---|\n| 1 |\n\n- a note\n")
    (tmp_path / "tea.png").write_bytes(b"")
    made = comparison.page(
        "{tea[cups][0][liters]:.1f} l\n\n[[milk tea]]\n\n[[milk.png]]\n\n[[tea.png]]\n\n[[milk]]\n\n[[paper TABLE3]]\n"
    )
    assert made.startswith(
        "0.2 l\n\n| cup |\n|---|\n| 1 |\n\n[How it was made](results/tea.md)\n\n![tea](results/tea.png)\n\nNot run here.\n"
    )
    assert "| 16, KISS-Matcher | 54.55 | 60.73 |\n" in made


PAGE = comparison.PAGE.read_text(encoding="utf-8")
CITED = sorted({name for _, name in readme_rows()} | {match[1] or match[2] for match in LINK.finditer(PAGE)})


@pytest.mark.parametrize("name", CITED)
def test_cited_tables_were_made_with_the_shipped_weights(name):
    about = json.loads((RESULTS / f"{name}.json").read_text())
    assert not [reason for reason in why_stale(about) if "weights" in reason or "model" in reason]


def test_every_table_is_cited_and_every_cited_table_exists():
    tables = {path.stem for path in RESULTS.glob("*.md")}
    cited = citations()
    assert tables - set(cited) == set(), "no page cites these tables"
    assert set(cited) - tables == set(), "pages cite tables that are not there"
    plots = {path.stem for path in RESULTS.glob("*.png")}
    assert {plot for plot in plots if owner(plot, sorted(tables)) not in tables} == set(), "plots of no table"


def test_reasons_why_a_table_is_stale():
    good = {
        "command": "python -m benchmarks certificate --problems 1000", "weights": {"lidar": weights_digest("lidar")},
        "source": source_digest("certificate"),
    }  # fmt: skip
    assert why_stale(good) == []
    assert why_stale({**good, "weights": {"lidar": "0" * 16}}) == ["other weights of lidar"]
    assert why_stale({**good, "weights": {"mine": "0" * 16}}) == ["model mine is not shipped"]
    assert why_stale({**good, "source": ""}) == ["certificate has changed since"]
    assert why_stale({**good, "command": "python -m benchmarks tea"}) == ["its command no longer exists"]
    assert why_stale({**good, "command": "python -m benchmarks certificate --cups 2"}) == ["its command no longer exists"]
    assert why_stale({}) == ["no record of its weights", "no command"]
