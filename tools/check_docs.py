#!/usr/bin/env python3
"""Checks that the documents name only what exists.

In README.md, ARCHITECTURE.md, CONTRIBUTING.md and docs/ every path and every identifier in backticks must exist: paths
from the root of the repository, src/, src/assay/ or src/assay/backend/cpu/; identifiers anywhere in the sources. Links
must lead to a file, and to a heading of it where they name one. The table of folders in ARCHITECTURE.md must be that of src/CMakeLists.txt. Words in
capitals stand for a name of the reader's: `model/families/NAME.cpp` needs a folder model/families/.
"""
import itertools
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
ROOTS = [root, root / "src", root / "src/assay", root / "src/assay/backend/cpu"]
SOURCES = [p for folder in ("src", "tests", "tools", "bench", "examples", "cmake") for p in (root / folder).rglob("*")
           if p.suffix in (".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".txt", ".in", ".cmake") and p.resolve() != pathlib.Path(__file__).resolve()]  # fmt: skip
WORDS = set(itertools.chain.from_iterable(re.findall(r"\w+", p.read_text(errors="replace")) for p in SOURCES))
BASENAMES = {p.name for p in SOURCES}
SUFFIXES = r"\.(?:h|cpp|cu|py|sh|cmake|md|txt|in)"


def braces(text):
    """`a/{b,c}.h` -> a/b.h, a/c.h"""
    m = re.search(r"\{([^{}]*)\}", text)
    return [text] if not m else [t for part in m[1].split(",") for t in braces(text[: m.start()] + part + text[m.end() :])]


def has_path(path):
    name = re.search(r"\b[A-Z]{2,}(?:_[A-Z]+)*\b", path)  # the reader's own name
    if name and not any((r / path).exists() for r in ROOTS):
        path = path[: name.start()].rpartition("/")[0]
    return any((r / path).exists() for r in ROOTS)


def problem_of(text):
    """What is wrong with a text in backticks; None where nothing is, or where it names neither path nor identifier."""
    if re.fullmatch(rf"[\w.+{{}},-]+(?:/[\w.+{{}},-]+)*(?:/|{SUFFIXES})|[a-z_]+(?:/[a-z_]+)+", text):
        if "/" in text:
            missing = [path for path in braces(text) if not has_path(path)]
            return f"no such path: {', '.join(missing)}" if missing else None
        return None if text in BASENAMES or has_path(text) or text.endswith(".txt") else f"no such file: {text}"
    if re.fullmatch(r"[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*(?:\(\))?", text) and re.search(r"::|_|[a-z][A-Z]", text):
        missing = [word for word in re.findall(r"\w+", text) if word not in WORDS and not re.fullmatch(r"[A-Z_]+", word)]
        return f"no source mentions: {', '.join(missing)}" if missing else None
    return None


def headings_of(document):
    """As a link names them: "## A, b and `c`" is a-b-and-c."""
    titles = re.findall(r"^#+ +(.*)$", document.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def folder_table(bad):
    """The rows of ARCHITECTURE.md against the assay_layer lines."""
    lines = re.findall(r"^assay_layer\((\w+)([ \w]*)\)", (root / "src/CMakeLists.txt").read_text(), re.M)
    declared = {name: set(allowed.split()) for name, allowed in lines if name != "name"}
    told = {}
    for name, allowed in re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", (root / "ARCHITECTURE.md").read_text(), re.M):
        above = re.match(r"all above(?: but (.*))?$", allowed)
        told[name] = (set(told) - set((above[1] or "").split())) if above else set(allowed.split()) - {"-"}
    told.pop("cli", None)
    for name in sorted(declared.keys() | told.keys()):
        want, found = declared.get(name), told.get(name)
        if want != found:
            text = [" ".join(sorted(x)) or "-" if x is not None else "no such folder" for x in (want, found)]
            bad.append(f"ARCHITECTURE.md: folder {name}: src/CMakeLists.txt has '{text[0]}', the table '{text[1]}'")


def main():
    bad, count = [], 0
    documents = [root / "README.md", root / "ARCHITECTURE.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    for document in documents:
        is_code = False
        for number, line in enumerate(document.read_text().splitlines(), 1):
            where = f"{document.relative_to(root)}:{number}"
            is_code = is_code != line.startswith("```")
            if is_code:
                continue
            for link, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", line):
                target = document.parent / link if link else document
                if not target.exists():
                    bad.append(f"{where}: link to {link}, which does not exist")
                elif heading and heading not in headings_of(target):
                    bad.append(f"{where}: link to {link}#{heading}: no such heading")
            for text in re.findall(r"`([^`]+)`", line):
                count += 1
                if problem := problem_of(text):
                    bad.append(f"{where}: {problem}")
    folder_table(bad)
    print("\n".join(bad) if bad else f"documents: {len(documents)} files, {count} names, all of them exist")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
