"""Ratios over rounds, against tables of Student's t and cases worked out by hand."""

import math
import unittest

import support  # noqa: F401  (puts the modules on the path)
from intervals import paired_ratio, ratio_text, t_quantile


class Quantiles(unittest.TestCase):
    def test_are_those_of_printed_tables(self):
        for degrees, expected in ((1, 12.706), (2, 4.303), (4, 2.776), (6, 2.447), (30, 2.042), (120, 1.980)):
            self.assertAlmostEqual(t_quantile(0.95, degrees), expected, places=3)
        self.assertAlmostEqual(t_quantile(0.99, 6), 3.707, places=3)


class PairedRatio(unittest.TestCase):
    def test_is_the_geometric_mean_with_its_interval(self):
        found = paired_ratio([2.0, 8.0], [1.0, 1.0])
        self.assertAlmostEqual(found["estimate"], 4.0)
        # The logarithms are ln 4 -+ ln 2, so their deviation over sqrt(2) is ln 2.
        self.assertAlmostEqual(math.log(found["high"] / 4.0), 12.7062 * math.log(2), places=3)
        self.assertAlmostEqual(found["low"] * found["high"], 16.0)
        self.assertEqual(found["rounds"], 2)

    def test_drift_that_both_share_leaves_no_width(self):
        found = paired_ratio([10.0, 20.0, 40.0], [5.0, 10.0, 20.0])
        self.assertAlmostEqual(found["low"], 2.0)
        self.assertAlmostEqual(found["high"], 2.0)

    def test_leaves_out_rounds_in_which_one_failed(self):
        found = paired_ratio([1.0, None, 3.0, 4.0], [1.0, 2.0, 3.0, None])
        self.assertEqual(found["rounds"], 2)
        self.assertAlmostEqual(found["estimate"], 1.0)

    def test_is_none_of_one_round(self):
        self.assertIsNone(paired_ratio([2.0, None], [1.0, 3.0]))

    def test_is_written_with_its_interval(self):
        text = ratio_text({"estimate": 1.434, "low": 1.4, "high": 1.4666, "rounds": 7})
        self.assertEqual(text, "1.43 [1.40, 1.47]")


if __name__ == "__main__":
    unittest.main()
