"""When a mutant counts as found, what stops a run, and the share that the tables show."""
import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from support import a_mutant
from mutation import running
from mutation.mutants import key_of
from mutation.reporting import survivors_of, table


class RunTests(unittest.TestCase):
    def run_script(self, script, limit=5):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program"
            program.write_text("#!/bin/sh\n" + script + "\n")
            program.chmod(0o755)
            with mock.patch.multiple(running, PROGRAM=program, COPY=Path(folder)):
                return running.run_tests(["A.b", "A.c"], limit, {"ASSAY_MUTANT": "3"})

    def test_gives_the_exit_status(self):
        self.assertEqual(self.run_script("exit 0")[0], 0)
        self.assertEqual(self.run_script("exit 1")[0], 1)
        self.assertEqual(self.run_script("kill -SEGV $$")[0], -11)

    def test_names_the_tests_and_the_mutant(self):
        self.assertEqual(self.run_script('test "$3" = --gtest_filter=A.b:A.c && test "$ASSAY_MUTANT" = 3')[0], 0)

    def test_ends_what_takes_too_long(self):
        status, seconds = self.run_script("sleep 30", limit=0.1)
        self.assertEqual(status, -9)
        self.assertLess(seconds, 10)


class TryMutant(unittest.TestCase):
    SECONDS = {"Fast.a": 0.1, "Slow.b": 1.0}

    def outcome(self, statuses, tests=("Fast.a", "Slow.b")):
        with mock.patch.object(running, "run_tests", side_effect=[(s, 0.1) for s in statuses]) as run:
            outcome = running.try_mutant(3, list(tests), self.SECONDS)
        return outcome, [call.args[0] for call in run.call_args_list]

    def test_what_no_test_reaches_is_not_found(self):
        self.assertEqual(self.outcome([], tests=()), ("not reached", []))

    def test_what_passes_has_survived(self):
        self.assertEqual(self.outcome([0, 0]), ("survived", [["Fast.a"], ["Slow.b"]]))

    def test_a_failure_a_crash_and_a_limit_find_it(self):
        for status in (1, -11, -9, -24):
            self.assertEqual(self.outcome([status]), ("found", [["Fast.a"]]))
        self.assertEqual(self.outcome([0, 1]), ("found", [["Fast.a"], ["Slow.b"]]))


class Coverage(unittest.TestCase):
    def coverage(self, runs, keeps_going=False):
        """Of {name: (status, seconds, numbers reached)}."""
        reached = mock.patch.object(running, "reached_by", side_effect=lambda name, *_: (name, *runs[name]))
        with reached, contextlib.redirect_stdout(io.StringIO()):
            return running.coverage(list(runs), 9, 1, 10, keeps_going)

    def test_gives_the_tests_that_reach_a_mutant_fastest_first(self):
        tests, seconds = self.coverage({"A.slow": (0, 3.0, [1, 2]), "A.fast": (0, 0.1, [2])})
        self.assertEqual(dict(tests), {1: ["A.slow"], 2: ["A.fast", "A.slow"]})
        self.assertEqual(seconds, {"A.slow": 3.0, "A.fast": 0.1})

    def test_a_failure_without_any_mutant_stops(self):
        with self.assertRaises(SystemExit):
            self.coverage({"A.red": (1, 0.1, [1]), "A.green": (0, 0.1, [1])})

    def test_a_crash_without_any_mutant_stops(self):
        for status in (-11, -6):
            with self.assertRaises(SystemExit):
                self.coverage({"A.crash": (status, 0.1, [1]), "A.green": (0, 0.1, [1])})

    def test_a_failure_is_left_out_when_asked(self):
        tests, seconds = self.coverage({"A.red": (1, 0.1, [1, 2]), "A.green": (0, 0.1, [1])}, keeps_going=True)
        self.assertEqual((dict(tests), seconds), ({1: ["A.green"]}, {"A.green": 0.1}))

    def test_what_takes_too_long_is_left_out(self):
        tests, _ = self.coverage({"A.endless": (-9, 40.0, [1]), "A.busy": (-24, 12.0, [1]), "A.green": (0, 0.1, [1])})
        self.assertEqual(dict(tests), {1: ["A.green"]})


class Share(unittest.TestCase):
    def results(self, folder="results", **counts):
        return [(a_mutant(f"{outcome} {i}", f"{folder}/fake.cpp"), outcome.replace("_", " "))
                for outcome, count in counts.items() for i in range(count)]  # fmt: skip

    def test_is_that_of_found_among_found_and_survived(self):
        results = self.results(found=3, survived=1, not_reached=1)
        lines, fine = table(["results"], results, set())
        self.assertEqual(lines[2:], ["| `results` | 5 | 3 | 2 | 0 | 60 % |"])
        self.assertFalse(fine)
        self.assertEqual([r for _, r in survivors_of(results, set())], ["survived", "not reached"])

    def test_leaves_equivalent_mutants_out_of_both_numbers(self):
        results = self.results(found=4, survived=2)
        equivalent = {key_of(results[0][0]), key_of(results[4][0])}
        lines, _ = table(["results"], results, equivalent)
        self.assertEqual(lines[2:], ["| `results` | 6 | 3 | 1 | 2 | 75 % |"])
        self.assertEqual(survivors_of(results, equivalent), [results[5]])

    def test_each_folder_must_reach_the_target(self):
        good, bad = self.results("results", found=9, survived=1), self.results("report", found=89, survived=11)
        self.assertTrue(table(["results"], good, set())[1])
        lines, fine = table(["results", "report"], good + bad, set())
        self.assertEqual(lines[2:], ["| `results` | 10 | 9 | 1 | 0 | 90 % |", "| `report` | 100 | 89 | 11 | 0 | 89 % |"])
        self.assertFalse(fine)

    def test_a_folder_without_mutants_is_not_fine(self):
        self.assertFalse(table(["results"], [], set())[1])


if __name__ == "__main__":
    unittest.main()
