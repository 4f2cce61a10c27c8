#!/usr/bin/env python3
"""Checks that every folder of src/assay includes only the folders that src/CMakeLists.txt allows it."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
lines = (root / "src/CMakeLists.txt").read_text()
allowed = {m[1]: {m[1], *m[2].split()} for m in re.finditer(r"^assay_layer\((\w+)([ \w]*)\)", lines, re.M)}
bad = []
for folder in sorted(p.name for p in (root / "src/assay").iterdir() if p.is_dir()):
    if folder == "cli":  # the front end may include all; nothing includes it
        continue
    if folder not in allowed:
        bad.append(f"src/assay/{folder}: no assay_layer({folder} ...) in src/CMakeLists.txt")
        continue
    # The order of the lines is the order of the layers: a folder may only use folders declared before it.
    for lower in allowed[folder] - {folder}:
        if list(allowed).index(lower) > list(allowed).index(folder):
            bad.append(f"src/CMakeLists.txt: {folder} uses {lower}, which comes after it")
    for path in sorted((root / "src/assay" / folder).rglob("*")):
        if path.suffix not in (".h", ".cpp", ".cu"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            parts = m[1].split("/")
            if parts[0] != "assay":
                bad.append(f"{path.relative_to(root)}:{number}: include \"{m[1]}\" does not begin with assay/")
            elif len(parts) < 3 or parts[1] not in allowed[folder]:
                bad.append(f"{path.relative_to(root)}:{number}: {folder} may not include {m[1]}")
print("\n".join(bad) if bad else f"layers: {len(allowed)} folders, no forbidden include")
sys.exit(1 if bad else 0)
