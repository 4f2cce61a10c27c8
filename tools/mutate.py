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
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build/mutate"
BINARY = COPY / "build/release"
PROGRAM = BINARY / "tests/assay_tests"
MEASURING = ["statistics", "results", "studies", "harness", "report"]
LISTS = ROOT / "tests/mutation"
DOCUMENT = ROOT / "docs/mutation.md"
TARGET = 90  # percent found, of each folder

HEADER = """#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>
#include <type_traits>
struct AssayMutants {
  int active = 0;
  unsigned char* reached = nullptr;
  AssayMutants() {
    if (const char* text = std::getenv("ASSAY_MUTANT")) active = std::atoi(text);
    if (const char* file = std::getenv("ASSAY_MUTANTS_REACHED")) {
      const int fd = open(file, O_RDWR);
      void* memory = fd < 0 ? MAP_FAILED : mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (memory != MAP_FAILED) reached = static_cast<unsigned char*>(memory);
      if (fd >= 0) close(fd);
    }
  }
};
inline bool assay_mutant(int number) {
  static const AssayMutants mutants;
  if (mutants.reached != nullptr) mutants.reached[number] = 1;
  return mutants.active == number;
}
"""

# ---------------------------------------------------------------------------------------------------------------- tokens

TOKEN = re.compile(r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/) | (?P<raw>R"(?P<delimiter>[^(\s]*)\(.*?\)(?P=delimiter)") | (?P<string>"(?:\\.|[^"\\\n])*")
    | (?P<char>'(?:\\.|[^'\\\n])+') | (?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*) | (?P<word>[A-Za-z_]\w*)
    | (?P<mark><=>|<<=|>>=|\.\.\.|->\*|->|::|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)""", re.X | re.S)  # fmt: skip
Token = collections.namedtuple("Token", "kind text begin end")
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}", "<": ">"}, {")", "]", "}"}
PRECEDENCE = {"*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<=>": 7, "<": 6, ">": 6, "<=": 6, ">=": 6,
              "==": 5, "!=": 5, "&": 4, "^": 3, "|": 2, "&&": 1, "||": 0}  # fmt: skip
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}


class Source:
    """A file as tokens, with the bracket that matches each one. clang-format's spaces tell a template from a comparison."""

    def __init__(self, text):
        self.text, self.tokens = text, []
        for m in TOKEN.finditer(text):
            if m.lastgroup != "space":
                self.tokens.append(Token("string" if m.lastgroup == "raw" else m.lastgroup, m[0], m.start(), m.end()))
        self.match, stack = {}, []
        for i, t in enumerate(self.tokens):
            if t.kind != "mark":
                continue
            if t.text in "([{" or (t.text == "<" and self.is_template(i)):
                stack.append(i)
            elif t.text in ")]}" or (t.text == ">" and stack and self.tokens[stack[-1]].text == "<" and not self.spaced(i)):
                while stack and OPEN[self.tokens[stack[-1]].text] != t.text:
                    stack.pop()
                if stack:
                    self.match[i] = stack[-1]
                    self.match[stack.pop()] = i

    def spaced(self, i):
        return self.text[self.tokens[i].begin - 1].isspace() and self.text[self.tokens[i].end : self.tokens[i].end + 1].isspace()

    def is_template(self, i):
        before = self.text[self.tokens[i].begin - 1]
        return not before.isspace() or self.tokens[i - 1].text == "template"

    def is_binary(self, i):
        """Of an operator; '<' of a template and unary operators have no spaces on both sides."""
        return self.tokens[i].kind == "mark" and self.tokens[i].text in PRECEDENCE and self.spaced(i) and i not in self.match

    def is_bound(self, i):
        t = self.tokens[i]
        if t.kind == "word":
            return t.text in ("return", "else", "case", "throw", "co_return", "do")
        return t.text in (",", ";", "?", ":") or (t.text in ASSIGNMENTS and self.spaced(i))

    def left(self, i, precedence):
        """The first token of the left operand of the operator at i."""
        k = i - 1
        while k >= 0:
            t = self.tokens[k]
            if k in self.match and self.match[k] < k and not (t.text == "}" and self.is_block(k)):
                k = self.match[k] - 1
                continue
            if t.text in ("(", "[", "{", "}") or self.is_bound(k) or (self.is_binary(k) and PRECEDENCE[t.text] < precedence):
                break
            k -= 1
        return k + 1

    def is_block(self, k):
        """Whether the brace that ends at k ends statements, not a list of values."""
        before = self.tokens[self.match[k] - 1]
        return before.text in (")", ";", "{", "}", "else", "const", "override", "noexcept", "mutable")

    def right(self, i, precedence):
        """The last token of the right operand; brackets are skipped."""
        k = i + 1
        while k < len(self.tokens):
            t = self.tokens[k]
            if k in self.match and self.match[k] > k:
                k = self.match[k] + 1
                continue
            if t.text in CLOSE or self.is_bound(k) or (self.is_binary(k) and PRECEDENCE[t.text] <= precedence):
                break
            k += 1
        return k - 1

    def slice(self, first, last):
        return self.text[self.tokens[first].begin : self.tokens[last].end]

    def flat(self, first, last):
        """Without comments, on one line."""
        return " ".join(t.text for t in self.tokens[first : last + 1])

    def enclosing(self):
        """For each token the innermost bracket that it stands in; -1 outside all."""
        stack, all_of = [], []
        for i in range(len(self.tokens)):
            if i in self.match and self.match[i] < i:
                stack.pop()
            all_of.append(stack[-1] if stack else -1)
            if i in self.match and self.match[i] > i:
                stack.append(i)
        return all_of


# --------------------------------------------------------------------------------------------------------------- mutants

Mutant = collections.namedtuple("Mutant", "file line kind begin end before after text column")
# begin, end: the region of the source that `text` replaces, with HERE for the number and ORIGINAL for what was there.
SWAPS = {"min": "max", "max": "min", "min_element": "max_element", "max_element": "min_element", "mean": "median",
         "median": "mean"}  # fmt: skip
RELATIONS = {"<": ("<=", ">"), "<=": ("<", ">"), ">": (">=", "<"), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
SUMS = {"+": "-", "-": "+", "*": "/", "/": "*"}
SYMMETRIC = {"min", "max", "abs", "hypot", "swap", "pair", "minmax"}
NO_CALL = {"if", "while", "for", "switch", "return", "sizeof", "catch", "decltype", "static_assert", "assert", "alignas",
           "noexcept", "throw", "operator"}  # fmt: skip


class Finder:
    def __init__(self, name, text):
        self.name, self.source, self.found = name, Source(text), []
        self.tokens = self.source.tokens
        self.inside = self.source.enclosing()

    def add(self, kind, first, last, mutated, before=None, after=None, void=False):
        source, t = self.source, self.tokens[first]
        choice = "(assay_mutant(HERE) ? (void)({}) : (void)(ORIGINAL))" if void else "(assay_mutant(HERE) ? ({}) : (ORIGINAL))"
        line = source.text.count("\n", 0, t.begin)
        self.found.append(Mutant(self.name, line + 1, kind, t.begin, self.tokens[last].end,
                                 before or source.flat(first, last), after or mutated, choice.format(mutated),
                                 t.begin))  # fmt: skip

    def skipped(self):
        """Tokens of statements whose values the compiler needs, and of directives."""
        skip = set()
        for i, t in enumerate(self.tokens):
            if t.text in ("constexpr", "static_assert", "template", "using", "enum", "consteval"):
                k = i
                while k < len(self.tokens) and self.tokens[k].text not in (";", "{"):
                    skip.add(k)
                    k = self.source.match[k] + 1 if k in self.source.match and self.source.match[k] > k else k + 1
                if t.text == "enum" and k in self.source.match:
                    skip.update(range(k, self.source.match[k]))
                for at in [a for a in skip if a >= i and a in self.source.match and self.source.match[a] > a]:
                    skip.update(range(at, self.source.match[at]))
            if t.text == "#":
                end = self.source.text.find("\n", t.begin)
                skip.update(k for k in range(i, min(i + 40, len(self.tokens))) if self.tokens[k].begin < end)
            if t.text == "<" and i in self.source.match:
                skip.update(range(i, self.source.match[i]))
            if t.text == "case":
                skip.update(range(i, i + 4))
        return skip

    def run(self):
        skip = self.skipped()
        for i, t in enumerate(self.tokens):
            if i in skip or self.inside[i] < 0:
                continue
            self.binary(i, t)
            self.literal(i, t)
            self.condition(i, t)
            self.call(i, t)
            self.statement(i, t)
            self.returned(i, t)
        return self.found

    def binary(self, i, t):
        if not self.source.is_binary(i):
            return
        first, last = self.source.left(i, PRECEDENCE[t.text]), self.source.right(i, PRECEDENCE[t.text])
        if first >= i or last <= i:
            return
        a, b = self.source.flat(first, i - 1), self.source.flat(i + 1, last)
        others = RELATIONS.get(t.text, ()) or ((SUMS[t.text],) if t.text in SUMS else ()) or {"&&": ("||",), "||": ("&&",)}.get(t.text, ())
        kind = "relation" if t.text in RELATIONS else "arithmetic" if t.text in SUMS else "logic"
        if kind == "arithmetic" and '"' in self.tokens[i - 1].text + self.tokens[i + 1].text:
            return  # texts are joined
        for other in others:
            self.add(kind, first, last, f"({a}) {other} ({b})", after=f"{a} {other} {b}")

    def literal(self, i, t):
        if t.kind == "number" and re.fullmatch(r"\d+[uUlL]*", t.text):
            digits, suffix = re.fullmatch(r"(\d+)(\w*)", t.text).groups()
            self.add("off by one", i, i, f"{int(digits) + 1}{suffix}", after=f"{int(digits) + 1}", before=self.around(i))

    def around(self, i):
        """A literal says nothing without what stands beside it."""
        first, last = max(0, i - 4), min(len(self.tokens) - 1, i + 2)
        return " ".join(("[" + x.text + "]") if k == i else x.text for k, x in enumerate(self.tokens[first : last + 1], first))

    def condition(self, i, t):
        if t.text == "if" and self.tokens[i + 1].text == "(":
            first, last = i + 2, self.source.match[i + 1] - 1
            semicolons = [k for k in range(first, last) if self.tokens[k].text == ";" and self.inside[k] == i + 1]
            first = semicolons[-1] + 1 if semicolons else first
            if not any(self.tokens[k].text == "=" for k in range(first, last)):
                self.add("negated", first, last, f"!({self.source.flat(first, last)})", after="not")
        if t.text == "?" and self.source.spaced(i):
            first = self.source.left(i, -1)
            if first < i:
                self.add("negated", first, i - 1, f"!({self.source.flat(first, i - 1)})", after="not")

    def chain(self, i):
        """The first token of `a.b(c)->d` where d is at i."""
        k = i
        while k > 0 and self.tokens[k - 1].text in (".", "->", "::"):
            k -= 2
            while k in self.source.match and self.source.match[k] < k:  # calls and subscripts
                k = self.source.match[k] - 1
            if k < 0 or self.tokens[k].kind not in ("word",):
                return k + 1
        return k

    def call(self, i, t):
        if t.kind != "word" or t.text in NO_CALL:
            return
        at = i + 1
        if at in self.source.match and self.tokens[at].text == "<":
            at = self.source.match[at] + 1
        if at >= len(self.tokens) or self.tokens[at].text != "(" or at not in self.source.match:
            return
        first, last = self.chain(i), self.source.match[at]
        before = self.tokens[first - 1] if first else None
        if before and (before.kind == "word" and before.text not in ("return", "else", "case") or before.text in (">", "~") and not self.source.spaced(first - 1)):
            return  # a declaration
        if t.text in SWAPS and last > at + 1:
            mutated = self.source.flat(first, i - 1) + f" {SWAPS[t.text]} " + self.source.flat(i + 1, last)
            self.add("min and max" if t.text[:3] in ("min", "max") else "mean and median", first, last, mutated)
        commas = [k for k in range(at, last) if self.tokens[k].text == "," and self.inside[k] == at]
        if len(commas) == 1 and t.text not in SYMMETRIC:
            a, b = self.source.flat(at + 1, commas[0] - 1), self.source.flat(commas[0] + 1, last - 1)
            if a != b:
                self.add("swapped", first, last, f"{self.source.flat(first, at)} {b} , {a} )")

    def statement(self, i, t):
        """Statements that begin at i: a call whose result is not used, or an assignment to what stands elsewhere."""
        before = self.tokens[i - 1].text if i else ";"
        if before not in (";", "{", "}", ")", "else", ":") or t.text in NO_CALL | {"case", "default", "break", "continue", "else", "do", "using", "namespace", "const", "auto", "struct", "static", "try", "constexpr"}:
            return
        if before == ")" and (i - 1 not in self.source.match or self.tokens[self.source.match[i - 1] - 1].text not in ("if", "for", "while")):
            return
        if self.inside[i] >= 0 and self.tokens[self.inside[i]].text != "{":
            return
        end, k, assignment = None, i, None
        while k < len(self.tokens):
            if k in self.source.match and self.source.match[k] > k:
                k = self.source.match[k] + 1
                continue
            x = self.tokens[k]
            if x.text == ";":
                end = k
                break
            if x.text in CLOSE or x.text in ("?", ":", ","):
                return
            if x.text in ASSIGNMENTS and assignment is None:
                assignment = k
            if assignment is None and k > i and x.kind == "word" and self.tokens[k - 1].kind == "word":
                return  # a declaration
            k += 1
        if end is None or end <= i:
            return
        flat = self.source.flat(i, end - 1)
        if assignment is not None:
            left = self.source.flat(i, assignment - 1)
            op = self.tokens[assignment].text
            if op in ("+=", "-=", "*=", "/="):
                other = SUMS[op[0]] + "="
                self.add("arithmetic", i, end - 1, f"{left} {other} {self.source.flat(assignment + 1, end - 1)}", void=True)
            if op != "=" or re.search(r"\.|->|\[|_$", left):
                if not re.search(r"[\w>&*] \w+$", left):
                    self.add("removed", i, end - 1, "0", after="nothing", void=True)
        elif re.match(r"\*?\w", flat) and flat.endswith(")") and "(" in flat:
            self.add("removed", i, end - 1, "0", after="nothing", void=True)

    def returned(self, i, t):
        if t.text != "return" or self.tokens[i + 1].text in (";", "{"):
            return
        last = i + 1
        while self.tokens[last].text != ";":
            last = self.source.match[last] + 1 if last in self.source.match and self.source.match[last] > last else last + 1
        last -= 1
        flat = self.source.flat(i + 1, last)
        if flat in ("false", "true"):
            self.add("returned", i + 1, last, "true" if flat == "false" else "false")
        elif flat not in ('""', "0", "nullptr", "std :: nullopt", "* this") and not flat.endswith("{ }"):
            self.add("returned", i + 1, last, f"std::decay_t<decltype({flat})>{{}}", after="a constant")


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


def sample(mutants, count, seed, folder):
    """Spread over files by the root of their sizes, and over kinds within a file."""
    chance = random.Random(f"{seed} {folder}")
    by_file = collections.defaultdict(lambda: collections.defaultdict(list))
    for m in mutants:
        by_file[m.file][m.kind].append(m)
    queues = {}
    for file, kinds in sorted(by_file.items()):
        queue = []
        lists = [chance.sample(kinds[k], len(kinds[k])) for k in sorted(kinds)]
        while lists:
            chance.shuffle(lists)
            queue += [one.pop() for one in lists]
            lists = [one for one in lists if one]
        queues[file] = queue
    weights = {file: len(queue) ** 0.5 for file, queue in queues.items()}
    taken, chosen = collections.Counter(), []
    while len(chosen) < count and any(queues.values()):
        file = min((f for f in queues if queues[f]), key=lambda f: ((taken[f] + 0.5) / weights[f], f))
        chosen.append(queues[file].pop(0))
        taken[file] += 1
    return chosen


def render(text, mutants):
    """The source with all mutants, numbered: [(number, mutant)]. Of regions that overlap in part, the later one is left out;
    returns the text and the numbers that are in it."""
    kept = []
    for number, m in mutants:
        if all(o.end <= m.begin or m.end <= o.begin or (o.begin <= m.begin and m.end <= o.end) or (m.begin <= o.begin and o.end <= m.end)
               for _, o in kept):  # fmt: skip
            kept.append((number, m))
    kept.sort(key=lambda pair: (pair[1].begin, -pair[1].end, pair[0]))

    def part(begin, end, of):
        out, at = [], begin
        while of:
            number, m = of[0]
            inner = [p for p in of[1:] if p[1].end <= m.end and p[1].begin >= m.begin]
            of = of[1 + len(inner) :]
            out.append(text[at : m.begin])
            original = part(m.begin, m.end, inner)
            # A comment at the end of a line must not swallow the bracket.
            out.append(m.text.replace("HERE", str(number)).replace("ORIGINAL", original.rstrip()))
            at = m.end
        return "".join(out) + text[at:end]

    return part(0, len(text), kept), {number for number, _ in kept}


# ----------------------------------------------------------------------------------------------------------------- build


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
    # Of several on the line, those of the sample are more likely to be at fault.
    return {n for n in bad if not numbered[n].kind.startswith("planted: ")} or bad


# ------------------------------------------------------------------------------------------------------------------- run


def suites_in(folders):
    """Names of the tests in these folders of tests/, as --gtest_list_tests gives them."""
    words = set()
    for folder in folders:
        for path in sorted((ROOT / "tests" / folder).glob("*_test.cpp")):
            words |= set(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),", path.read_text(), re.M))
    text = subprocess.run([PROGRAM, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    names, suite = [], ""
    for line in text.splitlines():
        line = line.split("#")[0].rstrip()
        if line and not line.startswith(" "):
            suite = line
        elif line and any(part in words for part in re.split(r"[/.]", suite)):
            names.append(suite + line.strip())
    return names


def run_tests(names, limit, extra=None):
    """(exit status, seconds); a negative status is a signal, or a limit of `limit` seconds of the processor."""
    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 2, int(limit) + 4))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = {**os.environ, "ASSAY_MODELS": str(ROOT / "models"), **(extra or {})}
    command = [str(PROGRAM), "--gtest_fail_fast", "--gtest_brief=1", "--gtest_filter=" + ":".join(names)]
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=COPY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=limits)  # fmt: skip
    try:
        status = process.wait(4 * limit)
    except subprocess.TimeoutExpired:
        status = -9
    finally:
        try:
            os.killpg(process.pid, 9)  # the session of this process alone: workers that a crash has left
        except ProcessLookupError:
            pass
        process.wait()
    return status, time.monotonic() - begin


def reached_by(name, size, slowest):
    file = COPY / f"reached.{os.getpid()}.{abs(hash(name))}"
    file.write_bytes(bytes(1 << 16))
    status, seconds = run_tests([name], slowest, {"ASSAY_MUTANTS_REACHED": str(file)})
    data = file.read_bytes()
    file.unlink()
    return name, status, seconds, [i for i in range(size + 1) if data[i]]


def coverage(names, size, jobs, slowest, keeps_going):
    """For each mutant the tests that reach it, fastest first; and the time of each test. Slow ones are left out."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        all_of = list(pool.map(lambda n: reached_by(n, size, slowest), names))
    slow = [name for name, status, _, _ in all_of if status < 0]
    if slow:
        print(f"left out, since they take more than {slowest} s: {' '.join(slow)}", flush=True)
    all_of = [one for one in all_of if one[0] not in slow]
    red = [name for name, status, _, _ in all_of if status != 0]
    if red:
        print("These tests fail without any mutant: " + " ".join(red), flush=True)
        if not keeps_going:
            sys.exit(1)
        all_of = [one for one in all_of if one[0] not in red]
    seconds = {name: s for name, _, s, _ in all_of}
    tests = collections.defaultdict(list)
    for name, _, s, reached in sorted(all_of, key=lambda one: one[2]):
        for number in reached:
            tests[number].append(name)
    return tests, seconds


def try_mutant(number, tests, seconds):
    """'not reached', 'survived' or 'found'."""
    if not tests:
        return "not reached"
    # In two steps: most are found by tests that take no time.
    fast = [t for t in tests if seconds[t] < 0.3]
    for names in (fast, [t for t in tests if seconds[t] >= 0.3]):
        if names and run_tests(names, 5 + 5 * sum(seconds[t] for t in names), {"ASSAY_MUTANT": str(number)})[0] != 0:
            return "found"
    return "survived"


# ---------------------------------------------------------------------------------------------------------------- report


def shorten(text, most=110):
    return text if len(text) <= most else text[: most - 3] + "..."


def table(folders, results, equivalent):
    lines = ["| folder | planted | found | survived | equivalent | found of those that can be |", "|---|---|---|---|---|---|"]
    fine = True
    for folder in folders:
        own = [(m, r) for m, r in results if m.file.split("/")[0] == folder]
        same = [m for m, _ in own if key_of(m) in equivalent]
        found = sum(r == "found" for m, r in own if key_of(m) not in equivalent)
        left = len(own) - len(same) - found
        share = 100 * found / max(1, found + left)
        fine = fine and share >= TARGET
        lines.append(f"| `{folder}` | {len(own)} | {found} | {left} | {len(same)} | {share:.0f} % |")
    return lines, fine


def survivors_of(results, equivalent):
    return [(m, r) for m, r in results if r != "found" and key_of(m) not in equivalent]


def document(args, folders, results, equivalent, names, seconds):
    lines, _ = table(folders, results, equivalent)
    by_hand = [(m, r) for m, r in results if m.kind.startswith("planted: ")]
    left = survivors_of(results, equivalent)
    text = [
        "# Planted bugs that the tests find", "",
        "Written by `tools/mutate.py --write-docs`, which plants bugs in the measuring layer, one at a time, and runs the tests of",
        "the same folders; its first lines say how. A bug is found when a test fails, crashes or runs far too long.", "",
        f"Sample: {args.count} bugs a folder, seed {args.seed}, beside those planted by hand; {len(names)} tests.", "",
        *lines, "",
        "Equivalent are bugs that change nothing that anyone could see; `tests/mutation/equivalent.txt` gives the reason of each.",
        "", "## Planted by hand", "", f"Of {len(by_hand)} bugs in `tests/mutation/planted.txt`, "
        f"{sum(r == 'found' for _, r in by_hand)} are found.", "", "| file | bug | |", "|---|---|---|",
        *[f"| `{m.file}` | {m.kind[9:]} | {r} |" for m, r in by_hand], "",
        "## Survivors", "",
    ]  # fmt: skip
    if left:
        text += ["| place | kind | before | after | |", "|---|---|---|---|---|"]
        for m, r in left:
            cells = [shorten(s, 70).replace("|", "\\|").replace("`", "'") for s in (m.before, m.after)]
            text.append(f"| {m.file}:{m.line} | {m.kind} | {cells[0]} | {cells[1]} | {r} |")
    else:
        text.append("None.")
    DOCUMENT.write_text("\n".join(text) + "\n")


def choose(args):
    """The mutants of this run, by number, and the folders they are in."""
    last = COPY / "last.json"
    wanted = set()
    if args.survivors:
        kept = json.loads(last.read_text())
        args.folders = kept["folders"]
        args.count, args.seed = kept["count"], kept["seed"]
        wanted = set(kept["survivors"])
    folders = args.folders or ([args.only.split("/")[0]] if args.only else MEASURING)
    numbered, number = {}, 0
    for folder in folders:
        mutants, by_hand = [], []
        for path in sorted((ROOT / "src/assay" / folder).rglob("*.cpp")):
            name = str(path.relative_to(ROOT / "src/assay"))
            if args.only and name != args.only:
                continue
            text = path.read_text()
            mutants += Finder(name, text).run()
            by_hand += planted(name, text)
        # A quarter more than asked for stands in for those that do not compile.
        chosen = mutants if args.only else sample(mutants, args.count + args.count // 3, args.seed, folder)
        for m in by_hand + chosen:
            number += 1
            numbered[number] = m
    return folders, numbered, wanted


def first_of(numbered, compiled, count):
    """Those that count: all planted by hand, and of each folder the first that compile."""
    taken, chosen = collections.Counter(), {}
    for number, m in numbered.items():
        folder = m.file.split("/")[0]
        if number not in compiled:
            if m.kind.startswith("planted: "):
                print(f"planted.txt: does not compile and is left out: {m.before} -> {m.after}", flush=True)
            continue
        if m.kind.startswith("planted: "):
            chosen[number] = m
        elif count is None or taken[folder] < count:
            taken[folder] += 1
            chosen[number] = m
    return chosen


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
