#!/usr/bin/env python3
"""Writes the table of docs/METRICS.md from the catalogue in src/assay/results/metric.cpp."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = re.compile(r"constexpr Metric kCatalogue\[\] = \{\n(.*?)\n\};", re.S)
ENTRY = re.compile(r"\{(\.tag = .*?\.definition =\s*(?:\"(?:[^\"\\]|\\.)*\"\s*)+)\}", re.S)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def field(entry, name):
    """The text of a field; adjacent literals are one."""
    found = re.search(rf'\.{name} =\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', entry)
    return "".join(STRING.findall(found[1])) if found else ""


def main():
    source = (ROOT / "src/assay/results/metric.cpp").read_text()
    document = ROOT / "docs/METRICS.md"
    text = document.read_text()
    lines = [text[: text.index("| metric |")] + "| metric | title | unit | better | definition |", "|---|---|---|---|---|"]
    for entry in ENTRY.findall(CATALOGUE.search(source)[1]):
        better = re.search(r"\.better = Better::(\w+)", entry)
        lines.append(
            f"| `{field(entry, 'tag')}` | {field(entry, 'title')} | {field(entry, 'unit') or '-'} "
            f"| {better[1] if better else 'neither'} | {field(entry, 'definition')} |"
        )
    document.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
