"""What tools/check_sizes.py counts, and what it does with the list of exceptions."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_sizes  # noqa: E402


def functions(text):
    return check_sizes.functions_of_cpp(check_sizes.split_comments(text)[0])


def comments(text, path="a.cpp"):
    return check_sizes.findings_of(path, text).get(("comment", "of"), 0)


class Functions(unittest.TestCase):
    def test_are_counted_from_their_first_line_to_their_brace(self):
        self.assertEqual(functions("int f(int a,\n      int b) {\n  return a;\n}\n"), [("f", 4)])
        self.assertEqual(functions("int f();\nint g() {\n}\n"), [("g", 2)])

    def test_have_the_names_of_their_scope_and_of_tests(self):
        self.assertEqual(functions("namespace a {\nvoid B::run() const {\n}\n}\n"), [("B::run", 2)])
        self.assertEqual(functions("struct A {\n  A() : b_{1}, c_(2) {\n  }\n public:\n  bool operator==(A) {\n  }\n};\n"),
                         [("A", 2), ("operator==", 2)])  # fmt: skip
        self.assertEqual(functions("TEST_F(Suite, Does) {\n  f();\n}\n"), [("Suite.Does", 3)])

    def test_hold_their_lambdas_and_loops(self):
        self.assertEqual(functions("void f() {\n  auto g = [](int a) {\n  };\n  for (;;) {\n  }\n}\n"), [("f", 6)])

    def test_are_no_values(self):
        self.assertEqual(functions("const int kA[] = {\n1,\n2};\nconst A b{f(1), {\n2}};\nint f(A a = {}) {\n}\n"), [("f", 2)])

    def test_are_seen_through_literals_comments_and_directives(self):
        text = 'int f() {\n  g("}", \'}\', R"x(\n}\n)x", 1\'000);  // }\n  /* }\n */\n#if A  // }\n#define B }\n#endif\n}\n'
        self.assertEqual(functions(text), [("f", 10)])

    def test_of_python_are_counted_too(self):
        self.assertEqual(check_sizes.functions_of_python("def f():\n    def g():\n        pass\n"), [("f", 3), ("g", 2)])


class Comments(unittest.TestCase):
    def test_begin_with_a_subject(self):
        self.assertEqual(comments("// Of a row.\nint a;  // of each\nint b;  // the rows of each\n"), 2)
        self.assertEqual(comments("/* of a row */\nint a;\n//of\nint b;\n// offsets\n"), 2)

    def test_go_on_in_the_next_line(self):
        self.assertEqual(comments("// The rows\n// of a batch.\nint a;  // the columns\n        // of a batch\n"), 0)
        self.assertEqual(comments("// The rows.\nint a;  // of a batch\n"), 1)

    def test_are_none_in_literals(self):
        self.assertEqual(comments('f("// of a row");\n'), 0)
        self.assertEqual(comments("a = '# of a row'\n", "a.py"), 0)
        self.assertEqual(comments("a = 1  # of a row\n# of b\n# of c\n", "a.py"), 1)


class Files(unittest.TestCase):
    def test_have_limits_by_kind(self):
        for name, lines in (("a.cpp", 400), ("a.h", 200), ("a-inl.h", 400), ("a.cuh", 400), ("a.py", 400)):
            self.assertEqual(check_sizes.findings_of(name, "\n" * lines), {}, name)
            self.assertEqual(len(check_sizes.findings_of(name, "\n" * (lines + 1))), 1, name)

    def test_are_found_in_every_folder_but_those_of_fixtures(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("src/assay/a.cpp", "tests/fixtures/b.cpp", "tools/c.py", "docs/d.cpp"):
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n" * 500)
            found = check_sizes.entries_of(Path(folder))
        self.assertEqual(found, {"src/assay/a.cpp: file: lines": 500, "tools/c.py: file: lines": 500})


class Exceptions(unittest.TestCase):
    known = {"a.cpp: function: f": 70, "a.cpp: comment: of": 2}

    def test_that_hold_are_no_problem(self):
        self.assertEqual(check_sizes.problems_of(dict(self.known), self.known), [])

    def test_do_not_cover_more_than_they_say(self):
        for entry, count in (("a.cpp: function: f", 71), ("a.cpp: comment: of", 3), ("b.cpp: file: lines", 401)):
            problems = check_sizes.problems_of(self.known | {entry: count}, self.known)
            self.assertEqual(len(problems), 1)
            self.assertIn(f"{entry}: expected", problems[0])
            self.assertIn(f"found {count}", problems[0])

    def test_that_no_longer_hold_are_a_problem(self):
        self.assertIn("no longer holds, found 65", check_sizes.problems_of(self.known | {"a.cpp: function: f": 65}, self.known)[0])
        self.assertIn("no longer holds, found none", check_sizes.problems_of({"a.cpp: comment: of": 2}, self.known)[0])

    def test_are_read_as_they_are_written(self):
        text = "".join(f"{entry} {count}\n" for entry, count in self.known.items())
        self.assertEqual(check_sizes.read_known(text), self.known)


if __name__ == "__main__":
    unittest.main()
