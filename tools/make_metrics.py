#!/usr/bin/env python3
"""Writes the table of docs/METRICS.md from src/assay/results/metric.cpp."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENTRY = re.compile(r'\{"(\w+)",\s*"([^"]*)",\s*"([^"]*)",\s*Better::(\w+),\s*((?:"[^"]*"\s*)+)\}')


def main():
    source = (ROOT / "src/assay/results/metric.cpp").read_text()
    document = ROOT / "docs/METRICS.md"
    text = document.read_text()
    lines = [text[: text.index("| metric |")] + "| metric | unit | better | definition |", "|---|---|---|---|"]
    for tag, _title, unit, better, definition in ENTRY.findall(source):
        words = "".join(re.findall(r'"([^"]*)"', definition))
        lines.append(f"| `{tag}` | {unit or '-'} | {better} | {words} |")
    document.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
