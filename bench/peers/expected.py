"""What peers usually reach, carried over to the rooflines of the machine at hand."""

import json
from pathlib import Path

from rooflines import Rooflines, roofline_tokens_per_s

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
USUAL_SHARE = 0.75  # that of what is expected; below it a peer is measured again
CELL = ("case", "precision", "threads", "isa", "model")


def results_file(name):
    return RESULTS / f"{name}.json"


class Expected:
    """By the share of the roofline that the same processor showed before (bench/results), else by expected.json on a
    processor with products of the same kind; what peers reach on another kind is not told by rooflines."""

    def __init__(self, processor):
        table = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
        self.table, there = table, table["rooflines"]
        self.has_same_products = processor["kind"] == table["kind"]
        self.there = Rooflines(
            {float(size): 1e9 * rate for size, rate in there["read_gb_per_s"].items()},
            {name: 1e9 * rate for name, rate in there["products_gflops"].items()},
        )
        self.kept = {}
        file = results_file(processor["name"])
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
        for row in rows:
            if row.get("median") and row.get("roofline") and "crippled" not in row["marks"]:
                key = (row["peer"], row.get("new_tokens"), *(row[k] for k in CELL))
                self.kept[key] = row["median"] / row["roofline"]

    def tokens_per_s(self, name, case, setting, here, roofline):
        """None where nothing is known of it. `here`: the rooflines of `assay machine`; `roofline`: the case's own."""
        cell = (case.name, setting.precision, setting.threads, setting.isa, setting.size)
        share = self.kept.get((name, case.new_tokens, *cell))
        if share and roofline:
            return share * roofline
        is_known = (setting.size, setting.threads, setting.isa) == (
            self.table["model"],
            self.table["threads"],
            "native",
        )
        usual = self.table["tokens_per_s"].get(setting.precision, {}).get(name, {}).get(case.name)
        if not is_known or usual is None or not self.has_same_products:
            return None
        then = roofline_tokens_per_s(self.there, setting.size, case, setting.precision)
        now = roofline_tokens_per_s(here, setting.size, case, setting.precision)
        return usual * now / then if then and now else None


def is_low(row):
    return "median" in row and row.get("expected") and row["median"] < USUAL_SHARE * row["expected"]
