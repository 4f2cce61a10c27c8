"""Results by processor: bench/results/NAME.json, a row a line, each cell as it was measured last."""

import json

from expected import CELL, results_file

# For a row of compare.py; the rest is told by compare.json alone.
KEPT = (
    "case", "precision", "threads", "isa", "model", "peer", "label", "context", "new_tokens", "weight_bytes", "median",
    "spread", "ratio", "roofline", "share_of_roofline", "expected", "logit_difference", "anonymous_bytes",
    "huge_page_bytes", "ratio_to_pread", "tokens_per_s", "marks", "failure",
)  # fmt: skip
DIGITS = 5


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return value


def kept_row(row, document):
    """Of a row of `document`, with the date and Assay's version, which may differ from those of its neighbours."""
    out = {key: rounded(row[key]) for key in KEPT if row.get(key) is not None}
    return out | {"date": document["date"], "assay": document["machine"]["assay"]}


def cell_of(row):
    return tuple(row[key] for key in CELL)


def merged(kept, document):
    """`kept`, whose cells that `document` has too are replaced whole: a ratio is of rows measured together. Cells in
    which Assay has no figure are left as they were."""
    measured = {
        cell_of(row)
        for row in document["rows"]
        if row["peer"] == "assay" and ("median" in row or "ratio_to_pread" in row)
    }
    new = [kept_row(row, document) for row in document["rows"] if cell_of(row) in measured]
    return [row for row in kept if cell_of(row) not in measured] + new


def write(path, processor, rows):
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".half")
    half.write_text(f'{{"version": 1,\n"machine": {json.dumps(processor)},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8")
    half.replace(path)


def keep(document):
    """Adds what compare.py measured to the file of its processor; gives the file."""
    processor = {key: document["machine"][key] for key in ("cpu", "core", "kind", "name")}
    path = results_file(processor["name"])
    kept = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    write(path, processor, merged(kept, document))
    return path
