#!/usr/bin/env python3
"""What clang-format breaks without a word: it cuts a string literal within a word ("memor" "y"), and takes
`a && f() ? x : y` for a declaration (`a&& f()`). Prints each such place; exits with 1 where there is one."""
import re
import subprocess
import sys

# Two literals with nothing but space between them, of which a letter ends the one and begins the other.
LITERAL = r'"(?:[^"\\\n]|\\.)*"'
PAIR = re.compile(rf"({LITERAL})(?:\s|\\\n)+(?=({LITERAL}))")
ESCAPE_AT_END = re.compile(r"\\(?:x[0-9a-fA-F]+|[0-7]{1,3}|.)$")
# A lower-case name that is no type, or a call, with the operator stuck to it.
TYPES = (
    "auto|bool|char|double|float|int|long|short|signed|unsigned|void|const|timeval"
    "|u?int(?:8|16|32|64)_t|size_t|ssize_t|pid_t|sigaction"
)
OPERATOR = re.compile(rf"(?<![:\w.>])(?!(?:{TYPES})\b)(?:[a-z_]\w*|\w+\(\))(?:&&|&|\*) [\w(*&!]")


def broken_literals(text):
    for pair in PAIR.finditer(text):
        first, second = pair.group(1)[1:-1], pair.group(2)[1:-1]
        if re.search(r"\w$", first) and re.match(r"\w", second) and not ESCAPE_AT_END.search(first):
            yield text.count("\n", 0, pair.start()) + 1, f'"{first[-20:]}" "{second[:20]}"'


def broken_operators(text):
    for number, line in enumerate(text.split("\n"), 1):
        code = re.sub(LITERAL, '""', line).split("//")[0]
        for found in OPERATOR.finditer(code):
            yield number, found.group(0)


def main():
    files = subprocess.run(
        ["git", "ls-files", "*.cpp", "*.h"], capture_output=True, text=True, check=True
    ).stdout.split()
    found = 0
    for path in files:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for number, what in [*broken_literals(text), *broken_operators(text)]:
            print(f"{path}:{number}: broken by clang-format: {what}")
            found += 1
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
