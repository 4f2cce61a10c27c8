"""Turns of scripted participants: who is measured when, and what their rows say."""

import types
import unittest
from unittest import mock

import support  # noqa: F401  (puts the modules on the path)
import turns
from cases import CASES
from participants import KINDS, Setting

SETTING = Setting("float32", 2, "native", "124m")


class Scripted:
    """Gives the rates of a list, turn by turn; None fails."""

    def __init__(self, name, rates, log, loaded=None):
        self.name, self.rates, self.log, self.loaded = name, list(rates), log, loaded or {}
        self.setting, self.kind, self.label, self.failure, self.worker = SETTING, KINDS[name], name, None, None
        self.is_assay, self.is_pinned = name == "assay", True

    def forgive(self):
        pass

    def memory(self):
        return {}

    def warm_up(self, case, prompts):
        return [[1, 2]] if self.is_assay else [[1, 3]]

    def turn(self, case, prompts):
        self.log.append(self.name)
        return self.rates.pop(0)


class RunCase(unittest.TestCase):
    def setUp(self):
        self.log = []
        for name, value in (("SETTLE_S", 0), ("measured_roofline_tokens_per_s", lambda *arguments: 200.0)):
            patch = mock.patch.object(turns, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def rows(self, participants, usual=None, rounds=3):
        options = types.SimpleNamespace(rounds=rounds)
        expected = types.SimpleNamespace(tokens_per_s=lambda name, *others: (usual or {}).get(name))
        differences = {p.name: 0.0 for p in participants if p.name != "assay"}
        found = turns.run_case(CASES["prefill-512"], participants, options, differences, True, None, expected)
        return {row["peer"]: row for row in found}

    def people(self, assay, torch, **more):
        return [Scripted("assay", assay, self.log), Scripted("torch", torch, self.log, **more)]

    def test_the_order_rotates_and_ratios_are_of_the_same_rounds(self):
        rows = self.rows(self.people([10, 20, 40], [5, 10, 20]))
        self.assertEqual(self.log, ["assay", "torch", "torch", "assay", "assay", "torch"])
        self.assertAlmostEqual(rows["torch"]["ratio"]["estimate"], 2.0)
        self.assertAlmostEqual(rows["torch"]["ratio"]["high"], 2.0)
        self.assertEqual(rows["assay"]["median"], 20)
        self.assertEqual(rows["assay"]["share_of_roofline"], 0.1)
        self.assertEqual(rows["torch"]["id_agreement"], 0.5)
        self.assertEqual(rows["torch"]["marks"], [])

    def test_a_failed_round_is_left_out_of_both(self):
        rows = self.rows(self.people([10, 1000, 20], [5, None, 10]))
        self.assertEqual(rows["torch"]["tokens_per_s"], [5, 10])
        self.assertAlmostEqual(rows["torch"]["ratio"]["high"], 2.0)

    def test_a_peer_without_a_figure_has_a_row(self):
        row = self.rows(self.people([10, 10, 10], [None, None, None]))["torch"]
        self.assertEqual(row["status"], "failed")
        self.assertNotIn("median", row)

    def test_a_low_peer_is_measured_again_beside_assay_and_marked(self):
        people = self.people([10, 10, 10, 30, 30, 30], [7, 7, 7, 10, 10, 10])
        row = self.rows(people, usual={"torch": 10.0})["torch"]
        self.assertEqual(row["median"], 10)
        self.assertAlmostEqual(row["ratio"]["estimate"], 3.0)
        self.assertEqual(row["marks"], ["below its usual level: measured again"])
        self.assertEqual(row["first_tokens_per_s"], [7, 7, 7])
        row = self.rows(self.people([10] * 6, [7] * 6), usual={"torch": 10.0})["torch"]
        self.assertEqual(row["marks"], ["crippled"])
        row = self.rows(self.people([10] * 3, [7.6] * 3), usual={"torch": 10.0})["torch"]
        self.assertEqual(row["marks"], [])

    def test_marks_all_positions_and_threads_that_moved(self):
        people = self.people([10] * 3, [9] * 3, loaded={"has_all_positions": True})
        people[1].is_pinned = False
        marks = self.rows(people)["torch"]["marks"]
        self.assertEqual(marks, ["its threads had no processor each", "computes the logits of all positions"])


class RelativeDifference(unittest.TestCase):
    def test_is_the_largest_or_of_rounded_arithmetic_the_root_of_the_mean_square(self):
        mine, theirs = [1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -0.6]
        self.assertAlmostEqual(turns.relative_difference(mine, theirs, False), 0.4)
        self.assertAlmostEqual(turns.relative_difference(mine, theirs, True), 0.2)


if __name__ == "__main__":
    unittest.main()
