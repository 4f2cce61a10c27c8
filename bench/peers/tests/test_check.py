"""Verdicts of bench/check.py, each true, reversed and undecidable."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401  (puts the modules on the path)
import check
from support import a_document, a_ratio, a_row
from targets import INT8, MAIN, TARGETS, Target

BESIDE = Target("prefill-512", "float32", of_best_peer=1.2)
OR_ROOFLINE = Target("prefill-512", "float32", of_best_peer=1.2, or_of_roofline=0.9)


def word(target, rows):
    return check.judge(target, rows)[1]


class BesidePeers(unittest.TestCase):
    def test_passes_above_and_fails_below(self):
        rows = [a_row("assay", 121), a_row("openvino", 100), a_row("torch", 50)]
        self.assertEqual(word(BESIDE, rows), "pass")
        rows = [a_row("assay", 119), a_row("openvino", 100), a_row("torch", 50)]
        self.assertEqual(word(BESIDE, rows), "FAIL")

    def test_the_ratio_of_paired_rounds_decides_and_is_stated_with_its_interval(self):
        rows = [a_row("assay", 300), a_row("openvino", 100, ratio=a_ratio(1.1, 1.05, 1.15))]
        text, verdict = check.judge(BESIDE, rows)
        self.assertEqual(verdict, "FAIL")
        self.assertIn("1.10 [1.05, 1.15]x the best peer (openvino)", text)

    def test_assay_is_no_peer_of_its_own(self):
        rows = [a_row("assay", 150), a_row("assay-base", 500), a_row("torch", 100)]
        self.assertEqual(word(BESIDE, rows), "pass")

    def test_is_missing_without_peers_or_assay(self):
        self.assertEqual(word(BESIDE, [a_row("assay", 100)]), "MISSING")
        failed = a_row("torch", 1)
        del failed["median"]
        self.assertEqual(word(BESIDE, [a_row("assay", 100), failed]), "MISSING")
        self.assertEqual(word(BESIDE, [a_row("torch", 100)]), "MISSING")

    def test_says_which_peers_have_no_figure(self):
        failed = a_row("torch", 1)
        del failed["median"]
        text, _ = check.judge(BESIDE, [a_row("assay", 200), a_row("openvino", 100), failed])
        self.assertIn("no figure of torch", text)

    def test_other_cells_do_not_count(self):
        others = [
            a_row("torch", 500, case="decode-0"),
            a_row("torch", 500, precision="bfloat16"),
            a_row("torch", 500, threads=1),
            a_row("torch", 500, isa="avx2"),
            a_row("torch", 500, model="llama-1b"),
        ]
        self.assertEqual(word(BESIDE, [a_row("assay", 150), a_row("torch", 100), *others]), "pass")


class CrippledPeers(unittest.TestCase):
    def test_a_best_peer_that_is_crippled_is_not_judged(self):
        rows = [a_row("assay", 300), a_row("openvino", 100, marks=["crippled"]), a_row("torch", 50)]
        self.assertEqual(word(BESIDE, rows), "NOT JUDGED")
        rows[1]["marks"] = ["logits differ by 1 deviations"]
        self.assertEqual(word(BESIDE, rows), "pass")

    def test_nor_where_a_crippled_one_would_be_the_best(self):
        rows = [a_row("assay", 300), a_row("openvino", 100), a_row("torch", 50, marks=["crippled"], expected=150)]
        self.assertEqual(word(BESIDE, rows), "NOT JUDGED")
        rows[2]["expected"] = 90
        self.assertEqual(word(BESIDE, rows), "pass")

    def test_who_loses_to_a_crippled_peer_has_failed(self):
        rows = [a_row("assay", 100), a_row("openvino", 100, marks=["crippled"])]
        self.assertEqual(word(BESIDE, rows), "FAIL")

    def test_the_roofline_needs_no_peer(self):
        rows = [a_row("assay", 300, share_of_roofline=0.91), a_row("openvino", 100, marks=["crippled"])]
        self.assertEqual(word(OR_ROOFLINE, rows), "pass")
        rows[0]["share_of_roofline"] = 0.89
        self.assertEqual(word(OR_ROOFLINE, rows), "NOT JUDGED")


class OtherTargets(unittest.TestCase):
    def test_share_of_roofline(self):
        target = Target("prefill-512", "float32", of_roofline=0.8)
        self.assertEqual(word(target, [a_row("assay", 1, share_of_roofline=0.8)]), "pass")
        self.assertEqual(word(target, [a_row("assay", 1, share_of_roofline=0.79)]), "FAIL")
        self.assertEqual(word(target, [a_row("assay", 1)]), "MISSING")

    def test_base(self):
        target = Target("prefill-512", "nf4", of_base=0.85)
        rows = [a_row("assay", 85, precision="nf4"), a_row("assay-base", 100, precision="nf4")]
        self.assertEqual(word(target, rows), "pass")
        rows[0]["median"] = 84
        self.assertEqual(word(target, rows), "FAIL")
        self.assertEqual(word(target, rows[:1]), "MISSING")

    def test_loading(self):
        target = Target("load", "float32", of_pread=3.0)
        row = a_row("assay", 1, case="load", ratio_to_pread=3.0)
        self.assertEqual(word(target, [row]), "pass")
        row["ratio_to_pread"] = 3.01
        self.assertEqual(word(target, [row]), "FAIL")
        self.assertEqual(word(target, []), "MISSING")


class Report(unittest.TestCase):
    def test_counts_what_did_not_pass_and_disturbed_rooflines(self):
        rows = [a_row("assay", 121), a_row("torch", 100)]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(check.report([BESIDE], rows), 0)
            rows[1] |= {"median": 100, "share_of_roofline": 1.05}
            self.assertEqual(check.report([BESIDE], rows), 1)
            self.assertEqual(check.report([BESIDE], []), 1)
        self.assertIn("its measurement was disturbed", out.getvalue())

    def test_every_kind_has_targets_of_batch_8_in_all_main_precisions(self):
        for kind, targets in TARGETS.items():
            with self.subTest(kind):
                held = {t.precision for t in targets if t.case == "batch-8" and t.of_best_peer}
                # A 4-bit row beside peers that round activations is one that does.
                same = {p.removesuffix("+activations:int8") for p in held}
                self.assertEqual(same, set(MAIN))

    def test_a_file_is_judged_by_the_targets_of_its_processor(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "compare.json"
            document = a_document([a_row("assay", 121, precision=INT8)])
            document["machine"]["kind"] = "avx2"
            path.write_text(json.dumps(document))
            self.assertEqual(check.read_document(path)[0], "avx2")
            del document["machine"]["kind"]
            path.write_text(json.dumps(document))
            self.assertEqual(check.read_document(path)[0], "amx")


if __name__ == "__main__":
    unittest.main()
