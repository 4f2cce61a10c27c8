#!/usr/bin/env python3
"""Checks that every folder of src/assay includes only the folders that src/CMakeLists.txt allows it.

A device of backend/ is a room of its own: its headers are included by its own files and by the factory, which chooses
among devices, and by nothing else. What devices share lies in backend/ and backend/common/, which include no device.
"""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
lines = (root / "src/CMakeLists.txt").read_text()
allowed = {m[1]: {m[1], *m[2].split()} for m in re.finditer(r"^assay_layer\((\w+)([ \w]*)\)", lines, re.M)}
bad = []
DEVICES = ("cpu", "cuda")
FACTORY = "src/assay/backend/make_backend.cpp"


def check_device(path, number, included):
    """The header of a device, included from elsewhere."""
    parts, place = included.split("/"), path.relative_to(root).as_posix()
    if parts[:2] != ["assay", "backend"] or parts[2] not in DEVICES or place == FACTORY:
        return
    if not place.startswith(f"src/assay/backend/{parts[2]}/"):
        bad.append(f"{place}:{number}: {included} is the device's own; backend/backend.h and backend/devices.h are for others")  # fmt: skip


def check_kernels(path):
    """What nvcc and the emulation of the tests compile has names of its own in each (kernels/device.cuh)."""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if line == "namespace assay::cuda {" and number < len(lines) and lines[number] == "":
            continue  # around those that are
        if line.startswith("namespace") and lines[number : number + 1] != ["inline namespace ASSAY_COMPILED_FOR {"]:
            bad.append(f"{path.relative_to(root)}:{number}: expected 'inline namespace ASSAY_COMPILED_FOR {{' in the next line")


for folder in sorted(p.name for p in (root / "src/assay").iterdir() if p.is_dir()):
    is_front_end = folder == "cli"  # which may include all but devices; nothing includes it
    if folder not in allowed and not is_front_end:
        bad.append(f"src/assay/{folder}: no assay_layer({folder} ...) in src/CMakeLists.txt")
        continue
    # The order of the lines is the order of the layers: a folder may only use folders declared before it.
    for lower in allowed.get(folder, {folder}) - {folder}:
        if list(allowed).index(lower) > list(allowed).index(folder):
            bad.append(f"src/CMakeLists.txt: {folder} uses {lower}, which comes after it")
    for path in sorted((root / "src/assay" / folder).rglob("*")):
        if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
            continue
        if path.suffix == ".cuh":
            check_kernels(path)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            parts = m[1].split("/")
            if parts[0] != "assay" and path.suffix == ".cuh":  # the emulation's, of the tests
                continue
            if parts[0] != "assay":
                bad.append(f"{path.relative_to(root)}:{number}: include \"{m[1]}\" does not begin with assay/")
            elif len(parts) < 3 or (not is_front_end and parts[1] not in allowed[folder]):
                bad.append(f"{path.relative_to(root)}:{number}: {folder} may not include {m[1]}")
            else:
                check_device(path, number, m[1])
print("\n".join(bad) if bad else f"layers: {len(allowed)} folders, no forbidden include")
sys.exit(1 if bad else 0)
