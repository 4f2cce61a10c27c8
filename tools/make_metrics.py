#!/usr/bin/env python3
"""Writes the table of docs/METRICS.md from the catalogue in src/assay/results/metric.cpp and quality_metrics.cpp."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = re.compile(r"constexpr Metric k(?:Catalogue|Quality)\[\] = \{\n(.*?)\n\};", re.S)
ENTRY = re.compile(r"\{(\.tag = .*?\.definition =\s*(?:\"(?:[^\"\\]|\\.)*\"\s*)+)\}", re.S)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def field(entry, name):
    """The text of a field; adjacent literals are one."""
    found = re.search(rf'\.{name} =\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', entry)
    return "".join(STRING.findall(found[1])) if found else ""


def main():
    source = (ROOT / "src/assay/results/metric.cpp").read_text()
    quality = (ROOT / "src/assay/results/quality_metrics.cpp").read_text()
    document = ROOT / "docs/METRICS.md"
    text = document.read_text()
    lines = [text[: text.index("| metric |")] + "| metric | title | unit | better | definition |", "|---|---|---|---|---|"]
    entries = []
    for entry in ENTRY.findall(CATALOGUE.search(source)[1]):
        entries.append(entry)
        if field(entry, "tag") == "perplexity_ratio":
            entries += ENTRY.findall(CATALOGUE.search(quality)[1])
    for entry in entries:
        better = re.search(r"\.better = Better::(\w+)", entry)
        lines.append(
            f"| `{field(entry, 'tag')}` | {field(entry, 'title')} | {field(entry, 'unit') or '-'} "
            f"| {better[1] if better else 'neither'} | {field(entry, 'definition')} |"
        )
    document.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
