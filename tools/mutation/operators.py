"""The mutation operators: every bug that can be planted in a source."""
import re

from .mutants import Mutant
from .tokens import ASSIGNMENTS, CLOSE, PRECEDENCE, Source

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

    def is_conditional(self, colon):
        """Whether the colon belongs to a ? before it, not to a label."""
        for k in range(colon - 1, -1, -1):
            if self.inside[k] == self.inside[colon]:
                if self.tokens[k].text in (";", "{", "}"):
                    return False
                if self.tokens[k].text == "?":
                    return True
        return False

    def statement(self, i, t):
        """Statements that begin at i: a call whose result is not used, or an assignment to what stands elsewhere."""
        before = self.tokens[i - 1].text if i else ";"
        if before not in (";", "{", "}", ")", "else", ":") or t.text in NO_CALL | {"case", "default", "break", "continue", "else", "do", "using", "namespace", "const", "auto", "struct", "static", "try", "constexpr"}:
            return
        if before == ")" and (i - 1 not in self.source.match or self.tokens[self.source.match[i - 1] - 1].text not in ("if", "for", "while")):
            return
        if self.inside[i] >= 0 and self.tokens[self.inside[i]].text != "{":
            return
        if before == ":" and self.is_conditional(i - 1):
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

    def is_reference(self, i):
        """Whether the function around gives a reference: a choice between it and a new value would be a copy, which dangles."""
        tokens, k = self.tokens, self.inside[i]
        while k >= 0:
            end = k - 1
            while end > 0 and tokens[end].text in ("const", "override", "final", "noexcept", "mutable"):
                end -= 1
            if tokens[k].text == "{" and tokens[end].text == ")":
                begin = self.source.match[end]
                if tokens[begin - 1].text == "]":
                    return False  # a lambda that says nothing gives a value
                if tokens[begin - 1].text not in ("if", "for", "while", "switch", "catch", "constexpr"):
                    first = begin
                    while first > 0 and tokens[first - 1].text not in (";", "{", "}", ":", "(", ",", "="):
                        first -= 1
                    return any(x.text in ("&", "&&") for x in tokens[first:begin])
            elif tokens[k].text == "{":
                # What a lambda gives, behind an arrow.
                arrow = end
                while arrow > 0 and tokens[arrow].text not in ("->", ";", "{", "}"):
                    arrow -= 1
                if tokens[arrow].text == "->":
                    return any(x.text in ("&", "&&") for x in tokens[arrow : end + 1])
            k = self.inside[k]
        return False

    def returned(self, i, t):
        if t.text != "return" or self.tokens[i + 1].text in (";", "{") or self.is_reference(i):
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
