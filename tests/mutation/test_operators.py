"""Each operator of tools/mutate.py, on a line of source of its own."""
import unittest

from support import found_in, in_function


class Operators(unittest.TestCase):
    def expect(self, kind, line, *expected):
        """The mutants of this kind: what they replace in the source, and what stands there then."""
        text = in_function(line)
        found = [m for m in found_in(text) if m.kind == kind]
        self.assertEqual([(text[m.begin : m.end], m.after) for m in found], list(expected))
        self.assertEqual({m.line for m in found}, {2} if expected else set())

    def test_relation(self):
        self.expect("relation", "if (a < b) g();", ("a < b", "a <= b"), ("a < b", "a > b"))
        self.expect("relation", "if (a >= b) g();", ("a >= b", "a > b"), ("a >= b", "a < b"))
        self.expect("relation", "if (a == b) g();", ("a == b", "a != b"))

    def test_relation_takes_the_operands_of_its_precedence(self):
        self.expect("relation", "x = c && a + 1 < b[i] * 2 || d;", ("a + 1 < b[i] * 2", "a + 1 <= b [ i ] * 2"),
                    ("a + 1 < b[i] * 2", "a + 1 > b [ i ] * 2"))  # fmt: skip

    def test_logic(self):
        self.expect("logic", "x = a && b || c;", ("a && b", "a || b"), ("a && b || c", "a && b && c"))

    def test_arithmetic(self):
        self.expect("arithmetic", "x = a - b * c;", ("a - b * c", "a + b * c"), ("b * c", "b / c"))
        self.expect("arithmetic", "x = a - b + c;", ("a - b", "a + b"), ("a - b + c", "a - b - c"))
        self.expect("arithmetic", "x += a;", ("x += a", "x -= a"))
        self.expect("arithmetic", 'x = a + "text";')
        self.expect("arithmetic", "x = -a;")

    def test_off_by_one(self):
        self.expect("off by one", "x = y[3];", ("3", "4"))
        self.expect("off by one", "x = y[3u];", ("3u", "4"))
        self.expect("off by one", "x = 0.5 + 1e3 + 0x10;")

    def test_negated(self):
        self.expect("negated", "if (ok) g();", ("ok", "not"))
        self.expect("negated", "if (int n = g(); n) h();", ("n", "not"))
        self.expect("negated", "x = ok ? a : b;", ("ok", "not"))
        self.expect("negated", "if (int n = g()) h();")

    def test_min_and_max(self):
        self.expect("min and max", "x = std::min(a, b);", ("std::min(a, b)", "std :: max ( a , b )"))
        self.expect("min and max", "x = std::max<int>(a, b);", ("std::max<int>(a, b)", "std :: min < int > ( a , b )"))

    def test_mean_and_median(self):
        self.expect("mean and median", "x = statistics::mean(v);", ("statistics::mean(v)", "statistics :: median ( v )"))

    def test_swapped(self):
        self.expect("swapped", "x = o.g(a, h(b, b));", ("o.g(a, h(b, b))", "o . g ( h ( b , b ) , a )"))
        self.expect("swapped", "x = std::min(a, b);")
        self.expect("swapped", "Thing thing(a, b);")

    def test_removed(self):
        self.expect("removed", "g(a);", ("g(a)", "nothing"))
        self.expect("removed", "x_ = a;", ("x_ = a", "nothing"))
        self.expect("removed", "s = a ? f(a) : g(a);")
        self.expect("removed", "o.x = a;", ("o.x = a", "nothing"))
        self.expect("removed", "auto x = g(a);")
        self.expect("removed", "Thing x = g(a);")

    def test_returned(self):
        self.expect("returned", "return g(a);", ("g(a)", "a constant"))
        self.expect("returned", "return false;", ("false", "true"))
        self.expect("returned", "return 0;")
        self.expect("returned", "return;")

    def test_a_reference_is_returned_as_it_is(self):
        def changed(text):
            return [m.before for m in found_in(text) if m.kind == "returned"]

        self.assertEqual(changed("const T& C::f(int a) const {\n  if (a) { return x; }\n  return y;\n}\n"), [])
        self.assertEqual(changed("T f(const T& a) {\n  for (auto& b : c) {\n    return b;\n  }\n}\n"), ["b"])
        self.assertEqual(changed("T& f() {\n  g([&](int a) { return a; });\n}\n"), ["a"])
        self.assertEqual(changed("T f() {\n  g([&](int a) -> T& { return b[a]; });\n}\n"), [])


class LeftAlone(unittest.TestCase):
    def test_comments_texts_directives_and_constants(self):
        text = r"""
#include <vector>
// if (a < b) return a + 1;
void f() {
  /* g(a, b);
     x = y[3] - 1; */
  constexpr int kSize = 2 + 3;
#if SIZE < 3
#endif
  std::vector<int> v;
  const char* s = "if (a < b && c) \" return g(1, 2); // + 1";
  c = '"';
  auto r = R"(x = a < b && "c" + 1;)";
  auto d = R"x(a < b )" + 1)x";
}
"""
        self.assertEqual(found_in(text), [])

    def test_templates_are_no_comparisons(self):
        self.assertEqual(found_in(in_function("std::map<std::string, std::vector<int>> m;")), [])

    def test_nothing_outside_all_brackets(self):
        self.assertEqual(found_in("int f(int a);\nint a = 3;\nbool b = a < 2;\n"), [])

    def test_lines_are_counted_through_comments(self):
        text = "// a\n/* b\n   c */\nvoid f() {\n  if (ok) g();  // d\n  x = a < b;\n}\n"
        self.assertEqual([(m.kind, m.line) for m in found_in(text)],
                         [("negated", 5), ("removed", 5), ("relation", 6), ("relation", 6)])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
