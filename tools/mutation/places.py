"""Where the sources, their mutated copy and the lists are, and what share of the bugs must be found."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build/mutate"
BINARY = COPY / "build/release"
PROGRAM = BINARY / "tests/assay_tests"
MEASURING = ["statistics", "results", "studies", "harness", "report"]
LISTS = ROOT / "tests/mutation"
DOCUMENT = ROOT / "docs/mutation.md"
TARGET = 90  # percent found, of each folder
