#!/usr/bin/env python3
"""Checks and times the CUDA backend on a machine with an NVIDIA GPU, within ten minutes.

usage: bench/gpu_check.py [--program build/cuda/assay] [--tests build/cuda/tests/assay_tests] [--device cuda:0]
                          [--out FOLDER] [--shapes 124m,llama-1b,llama-8b] [--stages device,logits,...]

Builds the preset `cuda` where no program is given. Each stage is a process with a time limit of its own; kernels, logits,
models and times together take five minutes at most:
  device      what `assay machine` measures of the GPU: memory, L2, rates of each type, launches; its driver's sensors
  kernels     every suite of tests of the CUDA backend; kernels run on the GPU (ASSAY_TEST_CUDA=1) instead of in the
              emulation, but for tests that choose their device
  logits      every fixture of tests/fixtures/models in float32 against its logits of Transformers and the CPU's; three
              families in every precision, and the demo in GGUF's block types, against the CPU's, with --dtype float32 and
              with the default dtype of a GPU
  audits      the cache and the batch change no token of a text of the demo model
  models      random models of the shapes (tools/make_random_model.py, which needs NumPy); a folder is taken as it is
  times       prefill of 512 and 4,096 tokens (by cuBLASLt too), decode in batches of 1, 8 and 64, energy per token of decoding
              alone: bfloat16, float16, int8 and nf4, these with the LM head quantized too
  nodes       each operation of a decode step, in all layers: its nodes, their time by differences of the step's graph, the
              prediction of `inspect --gpu`, and their ratio; by Nsight Compute, where ncu is installed: grid, registers
  profile     each kind of operation of a prefill of 512 tokens: time by events, bytes and FLOPs from the plan, GB/s, FLOP/s,
              share of roofline
  sanitizers  compute-sanitizer memcheck and racecheck of a short text, where it is installed
bench/gpu_peers.py times other programs beside Assay. One line of JSON for each check goes to FOLDER/checks.jsonl as it is
made; the table at the end says what passed, and what was skipped and why. Ends with status 1 where a check failed. With
--device cpu it checks itself, on any machine.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from gpu_check_base import Limit, Report, root
from gpu_check_correct import check_audits, check_kernels, check_logits, check_sanitizers
from gpu_check_times import check_device, check_nodes, check_profile, check_times, make_models

# Seconds of each; ten minutes together.
STAGES = {
    "device": (40, check_device), "kernels": (60, check_kernels), "logits": (60, check_logits),
    "audits": (30, check_audits), "models": (40, make_models), "times": (140, check_times), "nodes": (90, check_nodes),
    "profile": (40, check_profile), "sanitizers": (60, check_sanitizers),
}  # fmt: skip


def seconds_of(options, stage):
    """Without a GPU nobody waits for it, and a CPU takes longer."""
    return STAGES[stage][0] * (4 if options.device == "cpu" else 1)


def run_stage(options, stage):
    """In a process of its own, whose whole group ends with its time."""
    arguments = [sys.executable, __file__, "--stage", stage, "--program", options.program, "--device", options.device, "--out",
                 options.out, "--shapes", options.shapes, "--models", options.models]  # fmt: skip
    if options.tests:
        arguments += ["--tests", options.tests]
    process = subprocess.Popen([str(a) for a in arguments], start_new_session=True)
    report = Report(options.out / "checks.jsonl", stage)
    try:
        code = process.wait(seconds_of(options, stage) + 10)
        if code != 0:
            report.add("the stage", False, error=f"it ended with {code}")
    except subprocess.TimeoutExpired:
        report.add("the stage", False, error=f"it took more than {seconds_of(options, stage)} s")
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def roomy_folder():
    """Where models are written: in memory, where that has room for an 8B model twice."""
    memory = pathlib.Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 36e9 else None


def print_table(file):
    failed = 0
    rows = [json.loads(line) for line in open(file)]
    for row in rows:
        stage, what, passed = (row.pop(key) for key in ("stage", "what", "passed"))
        failed += passed is False
        mark = {True: "pass", False: "FAIL", None: "-"}[passed]
        details = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print(f"{mark:4}  {stage:10}  {what:38}  {details}")
    print(f"{failed} of {len(rows)} checks failed")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, help="assay, built with CUDA [built here]")
    parser.add_argument("--tests", type=pathlib.Path, help="assay_tests, built with CUDA")
    parser.add_argument("--device", default="cuda:0", help="[%(default)s]")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/gpu_check"), help="[%(default)s]")
    parser.add_argument("--shapes", help="sizes of tools/make_random_model.py, folders, or demo [124m,llama-1b,llama-8b; of a CPU demo]")
    parser.add_argument("--stages", default=",".join(STAGES), help="[all]")
    parser.add_argument("--models", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.shapes = options.shapes or ("demo" if options.device == "cpu" else "124m,llama-1b,llama-8b")
    options.out.mkdir(parents=True, exist_ok=True)
    checks = options.out / "checks.jsonl"
    if options.stage:
        check = STAGES[options.stage][1]
        return check(options, Report(checks, options.stage), Limit(seconds_of(options, options.stage)))
    unknown = set(options.stages.split(",")) - set(STAGES)
    if unknown:
        parser.error(f"--stages: expected some of {', '.join(STAGES)}, found {', '.join(sorted(unknown))}")
    if options.program is None:
        subprocess.run(["cmake", "--preset", "cuda"], cwd=root, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", "--preset", "cuda", "--target", "assay"], cwd=root, check=True)
        options.program = root / "build/cuda/assay"
    checks.write_text("")
    with tempfile.TemporaryDirectory(dir=roomy_folder()) as models:
        options.models = pathlib.Path(models)
        for stage in options.stages.split(","):
            run_stage(options, stage)
    return 1 if print_table(checks) else 0


if __name__ == "__main__":
    sys.exit(main())
