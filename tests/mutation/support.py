"""Puts tools on the path, and makes mutants for the tests."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from mutation.mutants import Mutant  # noqa: E402
from mutation.operators import Finder  # noqa: E402


def in_function(line):
    """A source whose second line, in a function, is `line`."""
    return f"void f() {{\n  {line}\n}}\n"


def found_in(text):
    return Finder("results/fake.cpp", text).run()


def a_mutant(before, file="results/fake.cpp", begin=0, end=1, kind="relation"):
    return Mutant(file, 1, kind, begin, end, before, "after", "(assay_mutant(HERE) ? (0) : (ORIGINAL))", begin)
