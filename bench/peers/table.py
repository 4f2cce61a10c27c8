#!/usr/bin/env python3
"""Keeps measurements by processor, and writes the comparison in docs/performance.md from all that are kept.

usage: bench/peers/table.py [COMPARE.json...]     adds these to bench/results/NAME.json, then writes the tables
       bench/peers/table.py --check               only says whether its tables are those of bench/results
"""

import argparse
import json
import sys
from pathlib import Path

import results
from expected import RESULTS
from intervals import ratio_text
from rooflines import SHAPES
from tables import best_peer, line

PAGE = Path(__file__).resolve().parents[2] / "docs/performance.md"
BEGIN = "<!-- written by bench/peers/table.py: begin -->"
END = "<!-- written by bench/peers/table.py: end -->"
CASES = {
    "prefill-128": "prefill of 128", "prefill-512": "prefill of 512", "decode-0": "decode", "decode-900": "decode at 900",
    "batch-8": "batch of 8", "batch-32": "batch of 32",
}  # fmt: skip
PRECISIONS = {
    "float32": "float32", "bfloat16": "bfloat16", "int8-dynamic+head:int8": "int8, LM head too",
    "nf4+head:int8": "4 bits, LM head int8", "nf4+head:int8+activations:int8": "4 bits, activations and LM head int8",
    "nf4+head:nf4": "4 bits, LM head too",
}  # fmt: skip
PEERS = {
    "assay": "Assay", "torch": "torch, eager", "torch-compile": "torch.compile", "bitsandbytes": "bitsandbytes",
    "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "openvino-w8a8": "OpenVINO, int8 inputs too",
    "openvino-nf4": "OpenVINO, nf4", "ctranslate2": "CTranslate2", "llama.cpp": "llama.cpp",
    "llama.cpp-k": "llama.cpp, Q4_K_M", "llama.cpp-pure": "llama.cpp, Q4_0 throughout",
}  # fmt: skip


def rate(row):
    """With * where the peer is crippled and + where it computes more than is asked for."""
    if row is None:
        return ""
    if "median" not in row:
        return "failed"
    marks = "*" if "crippled" in row["marks"] else ""
    marks += "+" if any("all positions" in mark for mark in row["marks"]) else ""
    return f"{row['median']:.{0 if row['median'] >= 200 else 1}f}{marks}"


def ratio_cell(rows, case):
    mine = next((r for r in rows if (r["peer"], r["case"]) == ("assay", case)), None)
    best = best_peer(rows, case)
    if mine is None or best is None or "median" not in mine:
        return ""
    known = best.get("ratio")
    text = ratio_text(known) if known else f"{mine['median'] / best['median']:.2f}"
    return text + ("*" if "crippled" in best["marks"] else "")


def share_cell(rows, case):
    mine = next((r for r in rows if (r["peer"], r["case"]) == ("assay", case)), {})
    share = mine.get("share_of_roofline")
    return f"{100 * share:.0f} %" if share else ""


def precision_table(title, rows):
    cases = [case for case in CASES if any(r["case"] == case for r in rows)]
    peers = [peer for peer in PEERS if any(r["peer"] == peer for r in rows)]
    at = {(r["peer"], r["case"]): r for r in rows}
    held = {r["peer"]: r.get("weight_bytes") for r in rows}
    head = [title, "weights, MB"] if any(held.values()) else [title]

    def with_size(name, size, cells):
        return line([name, *([f"{size / 1e6:.0f}" if size else ""] if len(head) > 1 else []), *cells])

    out = [line([*head, *(CASES[case] for case in cases)]), "|---|" + "---:|" * (len(cases) + len(head) - 1)]
    for peer in peers:
        out.append(with_size(PEERS[peer], held[peer], (rate(at.get((peer, case))) for case in cases)))
    out.append(with_size("Assay / best peer", 0, (ratio_cell(rows, case) for case in cases)))
    if any(share_cell(rows, case) for case in cases):
        out.append(with_size("Assay, share of roofline", 0, (share_cell(rows, case) for case in cases)))
    return out


def versions(rows):
    """Of the programs, as they name themselves, without what only one precision has."""
    names = {row["label"].split(",")[0].split(" (")[0] for row in rows if not row["peer"].startswith("assay")}
    names = {name.removesuffix(" eager").removesuffix(" compile") for name in names}
    return ", ".join(sorted(names, key=str.lower))


def dates(rows):
    found = sorted({row["date"] for row in rows})
    return found[0] if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


def processor_text(document):
    """Its tables, with as many threads as were measured at most."""
    machine = document["machine"]
    rows = [r for r in document["rows"] if r["precision"] in PRECISIONS and r["peer"] in PEERS and r["isa"] == "native"]
    rows = [r for r in rows if r["case"] in CASES]
    if not rows:
        return []
    threads = max(r["threads"] for r in rows)
    rows = [r for r in rows if r["threads"] == threads]
    out = []
    for model in dict.fromkeys(r["model"] for r in rows):
        its = [r for r in rows if r["model"] == model]
        out += [
            "",
            f"**{SHAPES[model].label} on {machine['cpu']}** ({machine['core']}, {machine['kind']} kernels), {threads} "
            f"threads, {dates(its)}",
            f"({versions(its)}):",
        ]
        for precision, title in PRECISIONS.items():
            same = [r for r in its if r["precision"] == precision]
            if any(not r["peer"].startswith("assay") for r in same):
                out += ["", *precision_table(title, same)]
    return out


def newest(document):
    return max((row["date"] for row in document["rows"]), default="")


def tables_text(documents):
    out = []
    for document in sorted(documents, key=newest, reverse=True):
        out += processor_text(document)
    return "\n".join(out).strip() + "\n"


def with_tables(page, text):
    """The page with `text` between its marks."""
    head, mark, rest = page.partition(BEGIN)
    _, other_mark, tail = rest.partition(END)
    if not mark or not other_mark:
        raise ValueError(f"expected the lines '{BEGIN}' and '{END}'")
    return f"{head}{BEGIN}\n\n{text}\n{END}{tail}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="COMPARE.json")
    parser.add_argument("--check", action="store_true")
    a = parser.parse_args()
    for path in a.files:
        print(results.keep(json.loads(path.read_text(encoding="utf-8"))), file=sys.stderr)
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    before = PAGE.read_text(encoding="utf-8")
    after = with_tables(before, tables_text(documents))
    if a.check:
        if before != after:
            print(f"{PAGE}: its comparison is not that of {RESULTS}: run bench/peers/table.py", file=sys.stderr)
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
