"""Compiles the mutated copy of the project, and drops the mutants that do not compile."""
import collections
import json
import os
import re
import subprocess
import sys

from .mutants import key_of
from .places import BINARY, COPY, ROOT
from .schemata import HEADER, render


def write(path, text):
    """Keeps the time of a file that does not change."""
    if not path.exists() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def copy_sources(mutated):
    """The project in build/mutate/, at the same place relative to its build folder, so that a compiler cache serves both."""
    for name in ("CMakeLists.txt", "CMakePresets.json", "cmake", "src", "tests", "docs", "examples", "models", "tools",
                 "CHANGELOG.md", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LICENSE", "bench"):  # fmt: skip
        top = ROOT / name
        wanted = set()
        for path in [top] if top.is_file() else sorted(p for p in top.rglob("*") if p.is_file()):
            relative = path.relative_to(ROOT)
            wanted.add(relative)
            if str(relative) not in mutated:
                write(COPY / relative, path.read_bytes())
                os.chmod(COPY / relative, path.stat().st_mode & 0o777)
        for path in [] if top.is_file() else [p for p in (COPY / name).rglob("*") if p.is_file()]:
            if path.relative_to(COPY) not in wanted and path.name != "mutants.h":
                path.unlink()
    for relative, text in mutated.items():
        write(COPY / relative, text.encode())


def compile_all(jobs, launcher):
    if not (BINARY / "build.ninja").exists():
        options = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"] if launcher else []
        subprocess.run(["cmake", "--preset", "release", "-DASSAY_BENCH=OFF", *options], cwd=COPY, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    done = subprocess.run(["cmake", "--build", str(BINARY), "--target", "assay_tests", f"-j{jobs}", "--", "-k", "0"], cwd=COPY,
                          capture_output=True, text=True)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def errors_of(output):
    """(file, line) of every place that the compiler complains about or comes through."""
    return {(m[1], int(m[2])) for m in re.finditer(r"src/assay/([\w/]+\.cpp):(\d+):\d+: (?:error|note|  required)", output)}, \
           {(m[1], int(m[2])) for m in re.finditer(r"src/assay/([\w/]+\.cpp):(\d+):\d+: error", output)}  # fmt: skip


def build(numbered, folders, args):
    """Compiles all mutants but those that do not compile. Returns the numbers of those that are in the program."""
    known = COPY / "dropped.json"
    dropped = set(json.loads(known.read_text())) if known.exists() else set()
    numbered = {n: m for n, m in numbered.items() if f"{key_of(m)} {m.line}" not in dropped}
    header = HEADER.replace("SIZE", str(1 << 16)).encode()
    while True:
        mutated, compiled = {}, set()
        by_file = collections.defaultdict(list)
        for number, m in numbered.items():
            by_file[m.file].append((number, m))
        for file, mutants in by_file.items():
            text, kept = render((ROOT / "src/assay" / file).read_text(), mutants)
            mutated[f"src/assay/{file}"] = f'#include "assay/base/mutants.h"\n#line 1 "src/assay/{file}"\n' + text
            compiled |= kept
        lists = (ROOT / "src/CMakeLists.txt").read_text()
        mutated["src/CMakeLists.txt"] = lists + "".join(f"target_compile_options(assay_{f} PRIVATE -w)\n" for f in sorted(folders))
        write(COPY / "src/assay/base/mutants.h", header)
        copy_sources(mutated)
        code, output = compile_all(args.jobs, args.launcher)
        if code == 0:
            (COPY / "compiled.json").write_text(json.dumps(sorted(compiled)))
            return compiled
        through, direct = errors_of(output)
        bad = spoiled(numbered, direct) or spoiled(numbered, through)
        if not bad:
            sys.exit(output[-6000:] + "\nthe mutated sources do not compile, at no mutant's line")
        print(f"  {len(bad)} mutants do not compile and are dropped", flush=True)
        dropped |= {f"{key_of(numbered[number])} {numbered[number].line}" for number in bad}
        known.write_text(json.dumps(sorted(dropped)))
        for number in bad:
            del numbered[number]


def spoiled(numbered, places):
    bad = set()
    for number, m in numbered.items():
        last = m.line + (ROOT / "src/assay" / m.file).read_text()[m.begin : m.end].count("\n")
        if any(file == m.file and m.line <= line <= last for file, line in places):
            bad.add(number)
    # For several on the line, those of the sample are more likely to be at fault.
    return {n for n in bad if not numbered[n].kind.startswith("planted: ")} or bad
