#!/usr/bin/env python3
"""Plants bugs in the sources and tells which ones the tests find.

    tools/mutate.py                                  # the five folders of the measuring layer
    tools/mutate.py --count 80 --seed 2 results      # another sample of one folder
    tools/mutate.py --only report/plot.cpp           # every mutant of one file
    tools/mutate.py --survivors                      # again what survived the last run, after new tests

All mutants are compiled at once, into a copy of the sources in build/mutate/: a mutated expression becomes a choice at run
time, `(assay_mutant(17) ? (a <= b) : (a < b))` (mutant schemata: Untch, Offutt and Harrold, 1993). The variable
ASSAY_MUTANT chooses one, in processes that the tests start too. A first run of each test, without any mutant, records which
mutants it reaches; a mutant is then given to the tests that reach it, the fastest first. One that no test reaches survives.
A failed test, a crash and a run that takes far longer than without the mutant count as found.

tests/mutation/planted.txt holds bugs planted by hand; they are always tried. tests/mutation/equivalent.txt holds mutants that
cannot be found, each with its reason. Mutants that do not compile are dropped. docs/mutation.md holds the last result of the
whole (--write-docs).
"""
import argparse
import concurrent.futures
import json
import os
import sys

from mutation.building import build
from mutation.choosing import choose, first_of
from mutation.mutants import key_of, listed
from mutation.places import COPY, MEASURING
from mutation.reporting import document, survivors_of, table
from mutation.running import coverage, suites_in, try_mutant


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="of src/assay [the measuring layer]")
    parser.add_argument("--count", type=int, default=50, help="mutants a folder [50]")
    parser.add_argument("--seed", type=int, default=1, help="of the sample [1]")
    parser.add_argument("--only", metavar="FILE", help="every mutant of one file, such as report/plot.cpp")
    parser.add_argument("--survivors", action="store_true", help="again those that survived the last run")
    parser.add_argument("--tests", nargs="*", metavar="FOLDER", help="folders of tests/ that are run [those mutated and the measuring layer's]")
    parser.add_argument("--slowest", type=int, default=10, help="seconds of a test; slower ones are left out [10]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at once [all cores]")
    parser.add_argument("--launcher", help="of the compiler, such as ccache")
    parser.add_argument("--no-build", action="store_true", help="with the program of the last run of the same mutants")
    parser.add_argument("--keep-going", action="store_true", help="leave out tests that fail without any mutant")
    parser.add_argument("--write-docs", action="store_true", help="write docs/mutation.md")
    args = parser.parse_args()

    folders, numbered, wanted = choose(args)
    print(f"{len(numbered)} mutants in {len(folders)} folders; compiling", flush=True)
    compiled = set(json.loads((COPY / "compiled.json").read_text())) if args.no_build else build(numbered, folders, args)
    chosen = first_of(numbered, compiled, None if args.only else args.count)
    if wanted:
        chosen = {n: m for n, m in chosen.items() if key_of(m) in wanted}
    names = suites_in(args.tests or list(dict.fromkeys(folders + MEASURING)))
    print(f"{len(chosen)} mutants compiled; {len(names)} tests without any", flush=True)
    tests, seconds = coverage(names, max(numbered), args.jobs, args.slowest, args.keep_going)

    equivalent = {" | ".join(entry[:4]) for entry in listed("equivalent.txt")}
    results = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        outcomes = pool.map(lambda n: try_mutant(n, tests.get(n, []), seconds), chosen)
        for (number, m), outcome in zip(chosen.items(), outcomes):
            results.append((m, outcome))
            if outcome != "found" and key_of(m) not in equivalent:
                print(f"{outcome}: src/assay/{m.file}:{m.line}: {m.kind}: {m.before}  ->  {m.after}", flush=True)
    lines, fine = table(folders, results, equivalent)
    print("\n".join(lines))
    if not args.survivors and not args.only:
        left = [key_of(m) for m, _ in survivors_of(results, equivalent)]
        (COPY / "last.json").write_text(json.dumps(
            {"folders": folders, "count": args.count, "seed": args.seed, "survivors": left}))  # fmt: skip
    if args.write_docs:
        document(args, folders, results, equivalent, names, seconds)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
