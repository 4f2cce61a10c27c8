"""Arguments, turns, ratios and lines of bench/peers/gguf.py, with scripted workers in place of llama.cpp."""

import contextlib
import dataclasses
import io
import json
import math
import os
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import support  # noqa: F401  (puts the modules on the path)
import gguf
from cases import CASES
from workers import WorkerError


class Scripted:
    """A side that gives the rates of a list, and logits."""

    def __init__(self, name, rates, log=None, logits=(1.0, 2.0, 4.0)):
        self.name, self.rates, self.log, self.loaded = name, list(rates), log if log is not None else [], {"vocab": 100}
        self.logits, self.is_closed, self.worker = list(logits), False, self

    def ask(self, what, ids):
        assert what == "logits" and max(ids) < 99
        return {"logits": self.logits}

    def measure(self, case, ids):
        self.log.append(f"warm {self.name}")

    def turn(self, case, ids):
        self.log.append(self.name)
        return self.rates.pop(0)

    def close(self):
        self.is_closed = True


def side_of(answers, turn_seconds=0.0):
    """A Side without a process, whose worker takes these seconds."""
    side = gguf.Side.__new__(gguf.Side)
    seconds = iter(answers)
    side.worker = types.SimpleNamespace(ask=lambda *_, **__: {"seconds": next(seconds)})
    side.options = types.SimpleNamespace(turn_seconds=turn_seconds)
    return side


class Quietly(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(gguf, "SETTLE_S", 0)
        patch.start()
        self.addCleanup(patch.stop)


class Options(unittest.TestCase):
    def refused(self, *arguments):
        told = io.StringIO()
        with contextlib.redirect_stderr(told), self.assertRaises(SystemExit) as stop:
            gguf.read_options(["a.gguf", *arguments])
        self.assertEqual(stop.exception.code, 2)
        return told.getvalue()

    def test_cases_are_shortened_and_processors_are_as_many_as_threads(self):
        few = ["--threads", "1", "--cases", "decode-0,prefill-128", "--new-tokens", "8"]
        options = gguf.read_options(["a.gguf", "b.gguf", *few])
        self.assertEqual([path.name for path in options.files], ["a.gguf", "b.gguf"])
        self.assertEqual([case.new_tokens for case in options.cases], [8, 0])
        self.assertEqual(options.cpus, sorted(os.sched_getaffinity(0))[:1])

    def test_what_cannot_be_measured_is_named(self):
        self.assertIn("found 'decode-1'", self.refused("--threads", "1", "--cases", "decode-0,decode-1"))
        self.assertIn("--rounds: expected a whole number from 1", self.refused("--threads", "1", "--rounds", "0"))
        self.assertIn("--threads: expected at most", self.refused("--threads", "0"))
        self.assertIn("--threads: expected at most", self.refused("--threads", "100000"))


class Rates(unittest.TestCase):
    def test_prefill_counts_prompts_and_decode_new_tokens(self):
        both = dataclasses.replace(CASES["prefill-512"], batch=2)
        self.assertEqual(side_of([2.0]).measure(both, []), 512)
        self.assertEqual(side_of([2.0]).measure(CASES["batch-8"], []), 32 * 8 / 2)

    def test_a_turn_leaves_its_first_run_out_and_has_at_least_one_other(self):
        self.assertEqual(side_of([100.0, 2.0]).turn(CASES["prefill-512"], []), 256)

    def test_a_turn_is_the_median_of_as_many_runs_as_fill_it(self):
        side = side_of([100.0] + [1.0, 4.0] * gguf.MOST_RUNS, turn_seconds=60)
        self.assertEqual(side.turn(CASES["prefill-512"], []), (512 + 128) / 2)
        self.assertEqual(side.worker.ask()["seconds"], 1.0, "it stops at MOST_RUNS")


class Rows(Quietly):
    def test_turns_alternate_and_the_ratio_is_of_the_same_rounds(self):
        log = []
        sides = [Scripted("assay", [10, 20, 40], log), Scripted("llama.cpp", [5, 10, 20], log)]
        row = gguf.measured(sides, CASES["decode-0"], types.SimpleNamespace(rounds=3))
        self.assertEqual(log[:2], ["warm assay", "warm llama.cpp"])
        self.assertEqual(log[2:], ["assay", "llama.cpp", "llama.cpp", "assay", "assay", "llama.cpp"])
        self.assertEqual(row["samples"], {"assay": [10, 20, 40], "llama.cpp": [5, 10, 20]})
        self.assertAlmostEqual(row["ratio"]["estimate"], 2.0)
        self.assertAlmostEqual(row["ratio"]["low"], 2.0)
        self.assertEqual(row["ratio"]["rounds"], 3)

    def test_an_interval_is_as_wide_as_rounds_differ(self):
        sides = [Scripted("assay", [10, 20]), Scripted("llama.cpp", [10, 10])]
        row = gguf.measured(sides, CASES["decode-0"], types.SimpleNamespace(rounds=2))
        self.assertAlmostEqual(row["ratio"]["estimate"], math.sqrt(2))
        # Student's quantile of one degree of freedom; the standard error of 0 and ln 2 is half of ln 2.
        self.assertAlmostEqual(math.log(row["ratio"]["high"] / row["ratio"]["estimate"]), 12.7062 * math.log(2) / 2, 3)

    def test_a_line_has_medians_ratio_and_distance(self):
        row = {
            "case": "decode-0",
            "samples": {"assay": [10.0, 30.0, 20.0], "llama.cpp": [5.0, 10.0, 12345.6]},
            "ratio": {"estimate": 2.0, "low": 1.5, "high": 2.5},
        }
        line = "| m.Q4_0 | decode-0 | 20 | 10 | 2.00 [1.50, 2.50] | 0.012 |"
        self.assertEqual(gguf.line_of(Path("x/m.Q4_0.gguf"), row, 0.01234), line)
        row["ratio"] = None  # a single round
        self.assertIn("| 2.00 |", gguf.line_of(Path("m.gguf"), row, 0.0))

    def test_logits_differ_by_standard_deviations_of_the_first(self):
        sides = [Scripted("a", [], logits=[-4.0, 4.0]), Scripted("b", [], logits=[-1.0, 1.0])]
        self.assertAlmostEqual(gguf.distance_of_logits(sides), 0.75)


class Whole(Quietly):
    def run_with(self, sides_of, *more):
        out, errors = io.StringIO(), io.StringIO()
        arguments = ["gguf.py", "m.gguf", "--threads", "1", "--rounds", "2", "--cases", "decode-0,batch-8", *more]
        with mock.patch.object(gguf, "sides_of", sides_of), mock.patch("sys.argv", arguments):
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                return gguf.main(), out.getvalue(), errors.getvalue()

    def test_a_table_of_each_case_and_all_samples_as_json(self):
        sides = [Scripted("assay", [2, 2, 3, 3]), Scripted("llama.cpp", [1, 1, 1, 1])]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.json"
            code, out, _ = self.run_with(lambda path, options: sides, "--output", str(file))
            rows = json.loads(file.read_text(encoding="utf-8"))
        self.assertEqual(code, 0)
        lines = out.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual({line.count("|") for line in lines}, {7})
        self.assertIn("3.00 [3.00, 3.00]", lines[3])
        self.assertEqual([row["case"] for row in rows], ["decode-0", "batch-8"])
        self.assertEqual(rows[1]["samples"]["assay"], [3, 3])
        self.assertTrue(all(side.is_closed for side in sides))

    def test_a_worker_that_does_not_load_is_an_error(self):
        def fails(path, options):
            raise WorkerError("it has no such architecture")

        code, _, errors = self.run_with(fails)
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"error: .*m\.gguf: it has no such architecture")


if __name__ == "__main__":
    unittest.main()
