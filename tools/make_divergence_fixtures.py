#!/usr/bin/env python3
"""Writes tests/fixtures/divergence.json: logits of two models in float32, and their divergence in float64."""

import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


def log_softmax(logits):
    x = logits.astype(np.float64)
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def top(logits, k):
    """The ids of the k highest logits; of equals the lowest id first."""
    return sorted(range(len(logits)), key=lambda i: (-float(logits[i]), i))[:k]


def position(rng, vocab, spread, change, ties):
    base = rng.normal(0, spread, vocab).astype(np.float32)
    candidate = (base + rng.normal(0, change, vocab)).astype(np.float32)
    if ties:  # whole logits have many equals
        base, candidate = np.round(base), np.round(candidate)
    target = int(rng.integers(vocab))
    p, q = log_softmax(base), log_softmax(candidate)
    order = top(base, 5)
    return {
        "base": [float(v) for v in base],
        "candidate": [float(v) for v in candidate],
        "target": target,
        "kl": float((np.exp(p) * (p - q)).sum()),
        "nll_base": float(-p[target]),
        "nll": float(-q[target]),
        "p_base": float(np.exp(p[target])),
        "p": float(np.exp(q[target])),
        "same_top1": top(base, 1) == top(candidate, 1),
        "top5": len(set(order) & set(top(candidate, 5))) / 5,
        "base_margin": float(base[order[0]]) - float(base[order[1]]),
    }


def main():
    rng = np.random.default_rng(20260710)
    rows = [
        position(rng, vocab, spread, change, ties)
        for vocab in (7, 64, 101)
        for spread, change, ties in (
            (1, 1e-4, False),
            (3, 0.01, False),
            (3, 0.3, False),
            (12, 2, False),
            (40, 30, False),
            (2, 1, True),
        )
    ]
    text = json.dumps({"positions": rows}, separators=(",", ":")).replace("},{", "},\n{")
    (ROOT / "tests/fixtures/divergence.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
