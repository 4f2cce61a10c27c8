#!/usr/bin/env python3
"""Checks how long functions and files are, and that comments have a subject.

A function has at most 60 lines, a file 400, a header 200; a header of code to be included (`*-inl.h`, `*.cuh`) counts as
a file. A comment does not begin with "of": it names what it speaks about. tools/check_sizes_known.txt lists the
exceptions, one `path: kind: name count` a line. It may only shrink: a line that no longer holds is an error as well.

usage: tools/check_sizes.py            names what is new, and the lines of the list that no longer hold
       tools/check_sizes.py --write    writes the list anew
"""
import ast
import pathlib
import re
import sys
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parent.parent
KNOWN = "tools/check_sizes_known.txt"
FOLDERS = ("src", "tests", "bench", "examples", "tools")
CPP = (".cpp", ".h", ".cu", ".cuh")
MAX_LINES = {"function": 60, "file": 400, "header": 200}

# A comment, or a literal, in which // and braces mean nothing.
TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|(?<![0-9A-Fa-f])\'(?:[^\'\\\n]|\\.)+\'',
    re.S,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


def blank(text):
    """Spaces in its place, on as many lines."""
    return re.sub(r"[^\n]", " ", text)


def split_comments(text):
    """The code without comments, literals and directives, and the comments alone; every line keeps its number."""
    code = TOKEN.sub(lambda m: blank(m[0]) if m["comment"] else f'"{blank(m[0][2:])}"', text)
    comments, end = [], 0
    for m in TOKEN.finditer(text):
        comments += [blank(text[end : m.start()]), m[0] if m["comment"] else blank(m[0])]
        end = m.end()
    return DIRECTIVE.sub(lambda m: blank(m[0]), code), "".join(comments) + blank(text[end:])


def name_of(header):
    """`void Linear::run(Args args) const` -> Linear::run; `TEST(Suite, Name)` -> Suite.Name."""
    if test := re.match(r"(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+)\s*,\s*(\w+)", header):
        return f"{test[1]}.{test[2]}"
    named = re.search(r"(operator\s*(?:\(\)|[^\s\w(]+)|~?\w[\w:~]*)\s*\(", header)
    return re.sub(r"\s", "", named[1]) if named else "?"


def kind_of_block(header):
    """What a brace outside of functions opens, by what stands before it: a scope, a function or a value. The layout is that of
    clang-format, which puts a blank before every brace but that of an initializer."""
    if not header.endswith((" ", "\n")) or header.rstrip().endswith(("=", ",", "(", "return")):
        return "value"
    if re.match(r"(?:inline\s+)?namespace\b|extern\s*\"|(?:template\s*<.*>\s*)?(?:class|struct|union|enum)\b", header.lstrip(), re.S):
        return "scope"
    is_lambda = re.search(r"=\s*\[", header)
    return "function" if "(" in header and not is_lambda else "value"


def functions_of_cpp(code):
    """(name, lines) of every function; what is defined in its body is part of it."""
    found, blocks, start, parentheses = [], [], 0, 0
    for place in re.finditer(r"[{}();]|\b(?:public|private|protected):(?!:)", code):
        at, sign = place.start(), place[0]
        is_outside = parentheses == 0 and all(kind == "scope" for kind, _, _ in blocks)
        if sign == "{":
            kind = kind_of_block(code[start:at]) if is_outside else "value"
            blocks.append((kind, start, parentheses))
            parentheses = 0
            if kind == "scope":
                start = at + 1
        elif sign == "}" and blocks:
            kind, begin, parentheses = blocks.pop()
            if kind == "function":
                header = code[begin:at].lstrip()
                found.append((name_of(header), header.count("\n") + 1))
            if kind != "value":
                start = at + 1
        elif sign in "()":
            parentheses += 1 if sign == "(" else -1
        elif is_outside:  # ; or public:
            start = place.end()
    return found


def functions_of_python(text):
    nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return [(node.name, node.end_lineno - node.lineno + 1) for node in nodes]


def comments_without_subject(comments, code):
    """How many comments begin with "of": lines of a comment, and comments that follow it line by line, are one."""
    count, is_going_on = 0, False
    for comment, rest in zip(comments.splitlines(), code.splitlines()):
        text = comment.strip()
        is_start = text and not (is_going_on and not rest.strip())
        count += bool(is_start and re.match(r"(?://+|/\*+|#)\s*of\b", text, re.I))
        is_going_on = bool(text)
    return count


def split_python_comments(text):
    """As split_comments: a # in a string is none, as far as its line alone tells."""
    lines = [re.match(r"((?:[^#\"']|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')*)(#.*)?", line) for line in text.splitlines()]
    return "\n".join(m[1] for m in lines), "\n".join(m[2] or "" for m in lines)


def kind_of_file(path):
    return "header" if path.endswith(".h") and not path.endswith("-inl.h") else "file"


def findings_of(path, text):
    """{(kind, name): count} of what breaks a rule in a file."""
    is_python = path.endswith(".py")
    code, comments = split_python_comments(text) if is_python else split_comments(text)
    found = Counter()
    kind = kind_of_file(path)
    found[kind, "lines"] = text.count("\n")
    for name, lines in functions_of_python(text) if is_python else functions_of_cpp(code):
        found["function", name] = max(found["function", name], lines)
    findings = {key: count for key, count in found.items() if count > MAX_LINES[key[0]]}
    if count := comments_without_subject(comments, code):
        findings["comment", "of"] = count
    return findings


def entries_of(root):
    """{"path: kind: name": count} of all that breaks a rule."""
    entries = {}
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*")):
        if path.suffix in (*CPP, ".py") and path.is_file() and not {"fixtures", "build"} & set(path.parts):
            name = path.relative_to(root).as_posix()
            for (kind, what), count in findings_of(name, path.read_text(encoding="utf-8")).items():
                entries[f"{name}: {kind}: {what}"] = count
    return entries


def read_known(text):
    return {entry: int(count) for entry, _, count in (line.rpartition(" ") for line in text.splitlines() if line)}


def problems_of(found, known):
    """One line for each difference."""
    problems = []
    for entry in sorted(found.keys() | known.keys()):
        count, allowed = found.get(entry, 0), known.get(entry, 0)
        kind = entry.split(": ")[1]
        if kind == "comment":
            rule = "expected no comment that begins with 'of', without its subject"
        else:
            rule = f"expected at most {MAX_LINES[kind]} lines"
        if count > allowed:
            problems.append(f"{entry}: {rule}, found {count}" + (f", {allowed} of them known" if allowed else ""))
        elif count < allowed:
            problems.append(f"{KNOWN}: {entry}: {allowed} no longer holds, found {count or 'none'}: run tools/check_sizes.py --write")
    return problems


def main():
    found = entries_of(ROOT)
    known_file = ROOT / KNOWN
    if sys.argv[1:] == ["--write"]:
        known_file.write_text("".join(f"{entry} {found[entry]}\n" for entry in sorted(found)))
        return 0
    problems = problems_of(found, read_known(known_file.read_text()) if known_file.exists() else {})
    print("\n".join(problems) if problems else f"sizes: {len(found)} known exceptions, none is new")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
