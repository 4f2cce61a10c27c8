#!/usr/bin/env python3
"""Compares the rooflines of `assay machine` with what numpy's OpenBLAS reaches on the same threads: nothing may exceed a
roofline, and a good library should come near it.

usage: python3 bench/check_rooflines.py build/release/assay [THREADS]"""
import json
import os
import subprocess
import sys
import time

program, threads = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else str(len(os.sched_getaffinity(0)))
os.environ["OPENBLAS_NUM_THREADS"] = threads
import numpy as np  # after its number of threads is set


def best(work, seconds=2.0):
    """Shortest time of `work`, of as many as fit."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


n = 2048
a, b, out = (np.full((n, n), x, np.float32) for x in (0.5, 0.25, 0))
gflops = 2 * n**3 / best(lambda: np.matmul(a, b, out=out)) / 1e9
x = np.full(64 << 20, 0.5, np.float32)  # 256 MB
gb_per_s = x.nbytes / best(lambda: np.dot(x, x)) / 1e9

runs = [json.loads(subprocess.check_output([program, "machine", "--json", "-t", threads])) for _ in range(3)]
fma = max(p["gflops"] for r in runs for p in r["products"] if str(p["threads"]) == threads and "FMA" in p["kind"])
reads = max(p["gb_per_s"] for r in runs for p in r["read_bandwidth"]
            if str(p["threads"]) == threads and p["working_set_bytes"] == x.nbytes)
for name, found, roofline in (("float32 FMA, GFLOP/s", gflops, fma), ("reading 256 MB, GB/s", gb_per_s, reads)):
    share = 100 * found / roofline
    print(f"{name:<26} numpy {found:8.1f}   roofline {roofline:8.1f}   {share:5.1f} % of it, {threads} thread(s)")
if gflops > 1.1 * fma or gb_per_s > 1.1 * reads:  # the rest is what other programs took of one and not of the other
    sys.exit("error: numpy exceeds a roofline")
