"""The JSON-lines protocol of `assay worker`, for the workers of the peers.

A worker calls serve() with a function that loads a model and gives an object with
  label, threads                what it is, for the tables
  weight_bytes                  of all weights with their scales, as they are held (0: not known)
  prefill(ids) -> next ids      fresh cache, all sequences whole; one id per sequence
  step(ids) -> next ids         one more token of each sequence, after prefill
  logits(ids) -> floats         of the last position of one sequence
  has_all_positions             optional: prefill computes the logits of every position
and, where it cannot go step by step, decode(ids, new_tokens) -> (seconds of each step, ids per sequence).
"""

import argparse
import json
import os
import sys
import time
import traceback

# What limits a library to an instruction set, per tier of Assay. They are read when the library is loaded.
ISA_VARIABLES = {
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
    },
    "avx512": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "DNNL_MAX_CPU_ISA": "AVX512_CORE",
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "CT2_FORCE_CPU_ISA": "AVX512",
    },
}


def arguments(description):
    """Reads the command line and prepares the process: to be called before the peer's library is imported."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpus", help="processors to run on: 0,1")
    parser.add_argument("--isa", choices=sorted(ISA_VARIABLES))
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager", help="torch alone")
    parser.add_argument(
        "--convert", nargs=2, metavar=("MODEL", "OUT"), help="convert a model instead of serving"
    )
    parser.add_argument("--form", default="float32", help="what to convert it to: a peer's own name")
    a = parser.parse_args()
    if a.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in a.cpus.split(",")})
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(a.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.update(ISA_VARIABLES.get(a.isa, {}))
    return a


def timed_decode(peer, ids, new_tokens):
    columns, step_s = [peer.prefill(ids)], []
    for _ in range(new_tokens):
        begin = time.perf_counter()
        columns.append(peer.step(columns[-1]))
        step_s.append(time.perf_counter() - begin)
    return step_s, [list(row) for row in zip(*columns)]


def reply(request, state, load):
    op = request["op"]
    if op == "load":
        state["peer"] = None  # never two models in memory
        begin = time.perf_counter()
        peer = load(request["model"], request.get("precision", "float32"), request.get("threads", 1))
        seconds = time.perf_counter() - begin
        state["peer"] = peer
        return {
            "label": peer.label,
            "kernels": getattr(peer, "kernels", ""),
            "threads": peer.threads,
            "weight_bytes": getattr(peer, "weight_bytes", 0),
            "has_all_positions": bool(getattr(peer, "has_all_positions", False)),
            "load_s": seconds,
        }
    if op not in ("prefill", "decode", "logits", "quit"):
        raise ValueError(f"unknown op {op!r}")
    if op == "quit":
        return {}
    peer, ids = state["peer"], request["ids"]
    if peer is None:
        raise ValueError("no model is loaded")
    if op == "logits":
        return {"logits": [float(x) for x in peer.logits(ids)]}
    if op == "prefill":
        begin = time.perf_counter()
        chosen = peer.prefill(ids)
        return {"seconds": time.perf_counter() - begin, "next": chosen}
    new_tokens = request["new_tokens"]
    if new_tokens < 1:
        raise ValueError("new_tokens: expected a whole number from 1")
    decode = getattr(peer, "decode", None)
    step_s, out = decode(ids, new_tokens) if decode else timed_decode(peer, ids, new_tokens)
    return {"seconds": sum(step_s), "step_s": step_s, "ids": out}


def serve(load):
    """Answers until `quit` or the end of the input. Between lines it sleeps in read."""
    # The libraries print where they like: what they say goes to standard error, away from the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    state = {"peer": None}
    for line in sys.stdin:
        request = {}
        try:
            request = json.loads(line)
            answer = {"ok": True} | reply(request, state, load)
        except Exception as error:  # whatever a library throws, the worker goes on
            traceback.print_exc()
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if answer["ok"] and request["op"] == "quit":
            return
