"""Puts bench and bench/peers on the path, and makes rows of compare.py for the tests."""

import sys
from pathlib import Path

PEERS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PEERS), str(PEERS.parent)]

DATE = "2026-11-24"


def a_row(peer, median, case="prefill-512", precision="float32", **more):
    """As compare.py writes it, so far as judges and tables read it."""
    row = {"case": case, "peer": peer, "label": f"{peer} 1.2, form", "precision": precision, "threads": 2}
    row |= {"isa": "native", "model": "124m", "marks": [], "failure": None, "tokens_per_s": [median]}
    row |= {"median": median, "context": 512, "new_tokens": 0, "roofline": 1000.0}
    return row | more


def a_ratio(estimate, low, high):
    return {"estimate": estimate, "low": low, "high": high, "rounds": 7}


def a_document(rows, date=DATE, name="a-processor-amx"):
    machine = {"cpu": "A Processor", "core": "core", "kind": "amx", "name": name, "assay": "assay 1.0 abc"}
    return {"version": 2, "date": date, "machine": machine, "rounds": 7, "rows": rows}
