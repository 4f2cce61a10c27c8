"""Sources with all of their mutants in them, and the sample of them."""
import unittest

from support import a_mutant, found_in, in_function
from mutation.choosing import first_of, sample
from mutation.schemata import render


class Render(unittest.TestCase):
    def test_nests_mutants_of_nested_expressions(self):
        text = in_function("x = a - b * c;")
        mutants = [m for m in found_in(text) if m.kind == "arithmetic"]
        mutated, kept = render(text, [(7, mutants[0]), (8, mutants[1])])
        inner = "(assay_mutant(8) ? ((b) / (c)) : (b * c))"
        self.assertEqual(mutated, in_function(f"x = (assay_mutant(7) ? ((a) + (b * c)) : (a - {inner}));"))
        self.assertEqual(kept, {7, 8})

    def test_nests_mutants_of_one_expression(self):
        text = in_function("x = a < b;")
        mutated, kept = render(text, list(enumerate(found_in(text), 1)))
        inner = "(assay_mutant(2) ? ((a) > (b)) : (a < b))"
        self.assertEqual(mutated, in_function(f"x = (assay_mutant(1) ? ((a) <= (b)) : ({inner}));"))
        self.assertEqual(kept, {1, 2})

    def test_nests_mutants_that_begin_at_one_place(self):
        text = in_function("x = a && b || c;")
        mutated, _ = render(text, list(enumerate(found_in(text), 1)))
        inner = "(assay_mutant(1) ? ((a) || (b)) : (a && b))"
        self.assertEqual(mutated, in_function(f"x = (assay_mutant(2) ? ((a && b) && (c)) : ({inner} || c));"))

    def test_leaves_out_what_overlaps_in_part(self):
        mutants = [(1, a_mutant("abcd", begin=0, end=4)), (2, a_mutant("cdef", begin=2, end=6)), (3, a_mutant("ef", begin=4, end=6))]
        mutated, kept = render("abcdef", mutants)
        self.assertEqual(mutated, "(assay_mutant(1) ? (0) : (abcd))(assay_mutant(3) ? (0) : (ef))")
        self.assertEqual(kept, {1, 3})

    def test_keeps_the_lines(self):
        text = in_function("if (a &&  // text: b\n      b < c)\n    g(a,\n      b);")
        mutants = found_in(text)
        mutated, kept = render(text, list(enumerate(mutants, 1)))
        self.assertEqual(len(kept), len(mutants))
        self.assertEqual(mutated.count("\n"), text.count("\n"))
        self.assertIn("// text: b\n", mutated)


class Sample(unittest.TestCase):
    MUTANTS = [a_mutant(f"{kind} {i}", file, kind=kind)
               for file, most in (("results/a.cpp", 4), ("results/b.cpp", 64)) for kind in ("logic", "relation") for i in range(most)]  # fmt: skip

    def test_is_the_same_for_a_seed_and_another_for_another(self):
        self.assertEqual(sample(self.MUTANTS, 20, 1, "results"), sample(self.MUTANTS, 20, 1, "results"))
        self.assertNotEqual(sample(self.MUTANTS, 20, 1, "results"), sample(self.MUTANTS, 20, 2, "results"))

    def test_is_spread_by_the_root_of_the_sizes_and_over_kinds(self):
        chosen = sample(self.MUTANTS, 20, 1, "results")
        self.assertEqual(len(set(chosen)), 20)
        self.assertEqual(sum(m.file == "results/a.cpp" for m in chosen), 4)
        self.assertEqual(sum(m.kind == "logic" for m in chosen), 10)

    def test_has_no_more_than_there_are(self):
        self.assertEqual(len(sample(self.MUTANTS, 1000, 1, "results")), len(self.MUTANTS))

    def test_counts_those_that_compile(self):
        numbered = dict(enumerate([a_mutant("by hand", kind="planted: a bug")] + self.MUTANTS[:5], 1))
        self.assertEqual(list(first_of(numbered, {1, 2, 4, 5, 6}, 3)), [1, 2, 4, 5])
        self.assertEqual(list(first_of(numbered, {1, 2, 4, 5, 6}, None)), [1, 2, 4, 5, 6])


if __name__ == "__main__":
    unittest.main()
