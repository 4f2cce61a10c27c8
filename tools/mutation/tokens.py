"""C++ as tokens, with matching brackets and the operands of an operator."""
import collections
import re

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
