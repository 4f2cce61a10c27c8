#!/usr/bin/env python3
"""Encoding speed of Assay beside the `tokenizers` library, on the same text, one thread each, in alternating runs.

usage: bench/compare_tokenizers.py MODEL TEXT [--prefill-tokens-per-s X]
MODEL is a folder with tokenizer.json, or with vocab.json and merges.txt. Needs build/release/bench/tokenizer_bench and
the packages of tools/requirements.txt. With --prefill-tokens-per-s the share of that prefill is shown.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import ByteLevelBPETokenizer, Tokenizer  # noqa: E402  (after the settings it reads)

root = pathlib.Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", type=pathlib.Path)
parser.add_argument("text", type=pathlib.Path)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--prefill-tokens-per-s", type=float)
a = parser.parse_args()

one_file = a.model / "tokenizer.json"
peer = (Tokenizer.from_file(str(one_file)) if one_file.exists()
        else ByteLevelBPETokenizer(str(a.model / "vocab.json"), str(a.model / "merges.txt")))
text = a.text.read_text(encoding="utf-8")
program = root / "build/release/bench/tokenizer_bench"
rates = {"assay": [], "tokenizers": []}
for _ in range(a.rounds):
    begin = time.perf_counter()
    tokens = len(peer.encode(text).ids)
    rates["tokenizers"].append(tokens / (time.perf_counter() - begin))
    out = subprocess.run([program, "--benchmark_filter=encode", "--benchmark_format=json", "--benchmark_min_time=0.2"],
                         env=dict(os.environ, ASSAY_BENCH_MODEL=str(a.model), ASSAY_BENCH_TEXT=str(a.text)),
                         capture_output=True, check=True, text=True)
    rates["assay"].append(json.loads(out.stdout)["benchmarks"][0]["tokens/s"])
print(f"{tokens} tokens of {a.text.name}, {a.rounds} alternating rounds, medians")
for name, samples in rates.items():
    middle = statistics.median(samples)
    line = f"{name:<11}{middle / 1e6:8.2f} M tokens/s (from {min(samples) / 1e6:.2f} to {max(samples) / 1e6:.2f})"
    if a.prefill_tokens_per_s:
        line += f", {100 * a.prefill_tokens_per_s / middle:.4f} % of the prefill's time"
    print(line)
print(f"ratio {statistics.median(rates['assay']) / statistics.median(rates['tokenizers']):.1f}")
