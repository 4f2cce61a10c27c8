"""What is kept by processor, and the tables of docs/performance.md from it."""

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import support
from support import a_document, a_ratio, a_row

import expected
import processor
import results
import table


class Merging(unittest.TestCase):
    def test_a_cell_is_replaced_whole_and_others_stay(self):
        first = a_document([a_row("assay", 100), a_row("torch", 50), a_row("assay", 10, case="decode-0")])
        kept = results.merged([], first)
        second = a_document([a_row("assay", 120), a_row("openvino", 60)], date="2026-12-01")
        rows = results.merged(kept, second)
        found = {(r["case"], r["peer"]): (r["median"], r["date"]) for r in rows}
        self.assertEqual(
            found,
            {
                ("decode-0", "assay"): (10, support.DATE),
                ("prefill-512", "assay"): (120, "2026-12-01"),
                ("prefill-512", "openvino"): (60, "2026-12-01"),
            },
        )

    def test_a_cell_without_a_figure_of_assay_replaces_nothing(self):
        kept = results.merged([], a_document([a_row("assay", 100), a_row("torch", 50)]))
        failed = a_row("assay", 1)
        del failed["median"]
        self.assertEqual(results.merged(kept, a_document([failed, a_row("torch", 70)])), kept)

    def test_a_written_file_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(expected, "RESULTS", Path(folder)):
            path = results.keep(a_document([a_row("assay", 123.456789), a_row("torch", 50)]))
            results.keep(a_document([a_row("assay", 7, case="decode-0")]))
            document = json.loads(path.read_text())
        self.assertEqual(path.name, "a-processor-amx.json")
        self.assertEqual(document["machine"]["kind"], "amx")
        self.assertEqual([r["median"] for r in document["rows"]], [123.46, 50, 7])


class Expectations(unittest.TestCase):
    def test_come_from_the_share_that_the_processor_showed_before(self):
        case = mock.Mock(new_tokens=0, batch=1, kind="prefill")
        case.name = "prefill-512"
        setting = mock.Mock(precision="float32", threads=2, isa="native", size="124m")
        crippled = a_row("openvino", 80, marks=["crippled"])
        facts = {"name": "a-processor-amx", "kind": "avx2"}
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(expected, "RESULTS", Path(folder)):
            results.keep(a_document([a_row("assay", 900), a_row("torch", 500), crippled]))
            usual = expected.Expected(facts)
        self.assertAlmostEqual(usual.tokens_per_s("torch", case, setting, None, 2000.0), 1000.0)
        self.assertIsNone(usual.tokens_per_s("openvino", case, setting, None, 2000.0))
        self.assertIsNone(usual.tokens_per_s("ctranslate2", case, setting, None, 2000.0))


class Tables(unittest.TestCase):
    def text(self, rows):
        return table.tables_text([a_document([results.kept_row(r, a_document([])) for r in rows])])

    def test_state_processor_date_and_interval(self):
        rows = [a_row("assay", 150, share_of_roofline=0.5), a_row("torch", 100, ratio=a_ratio(1.5, 1.4, 1.6))]
        text = self.text(rows)
        self.assertIn("**GPT-2 124M on A Processor** (core, amx kernels), 2 threads, 2026-11-24\n(torch 1.2):", text)
        self.assertIn("| Assay | ", text)
        self.assertIn("| torch, eager | 100.0 |", text)
        self.assertIn("| Assay / best peer | 1.50 [1.40, 1.60] |", text)
        self.assertIn("| Assay, share of roofline | 50 % |", text)

    def test_have_a_column_of_weights_where_they_are_known(self):
        text = self.text([a_row("assay", 150, weight_bytes=125_600_000), a_row("torch", 100)])
        self.assertIn("| float32 | weights, MB | prefill of 512 |", text)
        self.assertIn("| Assay | 126 | 150.0 |\n| torch, eager |  | 100.0 |", text)

    def test_leave_out_a_precision_without_peers(self):
        text = self.text([a_row("assay", 150), a_row("torch", 100), a_row("assay", 9, precision="bfloat16")])
        self.assertNotIn("bfloat16", text)

    def test_mark_crippled_peers_and_all_positions(self):
        rows = [a_row("assay", 150), a_row("torch", 100, marks=["crippled"])]
        rows += [a_row("openvino", 50, marks=["computes the logits of all positions"])]
        text = self.text(rows)
        self.assertIn("100.0* |", text)
        self.assertIn("50.0+ |", text)
        self.assertIn("1.50* |", text)

    def test_show_the_newest_processor_first(self):
        old = a_document([a_row("assay", 1) | {"date": "2026-01-01"}]) | {}
        new = a_document([a_row("assay", 2) | {"date": "2026-02-01"}])
        new["machine"] = new["machine"] | {"cpu": "Newer"}
        text = table.tables_text([old, new])
        self.assertLess(text.index("Newer"), text.index("A Processor"))

    def test_replace_what_lies_between_the_marks_alone(self):
        page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
        once = table.with_tables(page, "new\n")
        self.assertEqual(once, f"before\n{table.BEGIN}\n\nnew\n\n{table.END}\nafter\n")
        self.assertEqual(table.with_tables(once, "new\n"), once)
        with self.assertRaises(ValueError):
            table.with_tables("no marks", "new\n")

    def test_page_is_that_of_the_results(self):
        documents = [json.loads(path.read_text()) for path in sorted(expected.RESULTS.glob("*.json"))]
        page = table.PAGE.read_text(encoding="utf-8")
        self.assertEqual(table.with_tables(page, table.tables_text(documents)), page, "run bench/peers/table.py")


class Processors(unittest.TestCase):
    def test_are_named_by_model_core_and_kind(self):
        zen4 = "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17\nmodel name : AMD EPYC\nflags : fma avx2 avx512f "
        zen4 += "avx512bw avx512_vnni avx512_bf16\n\nvendor_id : other\n"
        self.assertEqual(processor.facts_of(zen4)["name"], "amd-epyc-zen4-avx512bf16")
        xeon = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nmodel name : Intel(R) Xeon(R) CPU @ 2.00GHz\n"
        xeon += "flags : fma avx2 avx512f avx512bw avx512_vnni avx512_bf16 amx_tile amx_bf16 amx_int8\n"
        self.assertEqual(processor.facts_of(xeon)["name"], "intel-xeon-sapphire-rapids-amx")
        plain = "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\nmodel name : AMD EPYC 7763 64-Core Processor\n"
        self.assertEqual(processor.facts_of(plain + "flags : fma avx2\n")["name"], "amd-epyc-7763-zen3-avx2")
        self.assertEqual(processor.facts_of(plain + "flags : sse2\n")["kind"], "scalar")


if __name__ == "__main__":
    unittest.main()
