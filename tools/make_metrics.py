#!/usr/bin/env python3
"""Writes the table of docs/METRICS.md from the catalogue: src/assay/results/metric.cpp, then NAME_metrics.cpp there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = re.compile(r"constexpr Metric k\w+\[\] = \{\n(.*?)\n\};", re.S)
ENTRY = re.compile(r"\{(\.tag = .*?\.definition =\s*(?:\"(?:[^\"\\]|\\.)*\"\s*)+)\}", re.S)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def field(entry, name):
    """The text of a field; adjacent literals are one."""
    found = re.search(rf'\.{name} =\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', entry)
    return "".join(STRING.findall(found[1])) if found else ""


def main():
    folder = ROOT / "src/assay/results"
    sources = [path.read_text() for path in [folder / "metric.cpp", *sorted(folder.glob("*_metrics.cpp"))]]
    document = ROOT / "docs/METRICS.md"
    text = document.read_text()
    lines = [text[: text.index("| metric |")] + "| metric | title | unit | better | definition |", "|---|---|---|---|---|"]
    for entry in (entry for source in sources for entry in ENTRY.findall(CATALOGUE.search(source)[1])):
        better = re.search(r"\.better = Better::(\w+)", entry)
        lines.append(
            f"| `{field(entry, 'tag')}` | {field(entry, 'title')} | {field(entry, 'unit') or '-'} "
            f"| {better[1] if better else 'neither'} | {field(entry, 'definition')} |"
        )
    document.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
