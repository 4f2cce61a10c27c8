"""What a mutant is, and those that are listed by hand in tests/mutation."""
import collections
import re
import sys

from .places import LISTS

Mutant = collections.namedtuple("Mutant", "file line kind begin end before after text column")
# begin, end: the region of the source that `text` replaces, with HERE for the number and ORIGINAL for what was there.


def key_of(mutant):
    """What tells a mutant from others whatever the line: equivalent ones are listed so."""
    return f"{mutant.file} | {mutant.kind} | {mutant.before} | {mutant.after}"


def listed(name):
    """The entries of a list in tests/mutation: lines 'file | kind | before | after | reason', '#' for comments."""
    path = LISTS / name
    lines = path.read_text().splitlines() if path.exists() else []
    return [[part.strip() for part in re.split(r" \| ", line)] for line in lines if line.strip() and line[0] != "#"]


def planted(file, text):
    """Bugs planted by hand in a file: an expression and what replaces it."""
    found = []
    for where, what, before, after in listed("planted.txt"):
        if where != file:
            continue
        pattern = r"\s+".join(re.escape(word) for word in before.split())
        places = list(re.finditer(pattern, text))
        if len(places) != 1:
            sys.exit(f"tests/mutation/planted.txt: '{before}' is {len(places)} times in src/assay/{file}, expected once")
        m = places[0]
        choice = f"(assay_mutant(HERE) ? ({after}) : (ORIGINAL))"
        found.append(Mutant(file, text.count("\n", 0, m.start()) + 1, "planted: " + what, m.start(), m.end(), before, after,
                            choice, m.start()))  # fmt: skip
    return found
