#!/usr/bin/env python3
"""Checks and times the CUDA backend on a machine with an NVIDIA GPU, within ten minutes.

usage: bench/gpu_check.py [--program build/cuda/assay] [--device cuda:0] [--out FOLDER] [--shapes 124m,llama-1b]

Builds the preset `cuda` where no program is given. Then, each stage with a time limit of its own:
  logits      every fixture of tests/fixtures/models in float32 against its logits of Transformers and the CPU's,
              and three families in every precision against the CPU's
  audits      the cache and the batch change no token of a text of the demo model
  sanitizers  compute-sanitizer memcheck and racecheck of a short text, where it is installed
  times       prefill and decode of random models (tools/make_random_model.py, which needs NumPy), batches of 1, 8 and 64
One line of JSON for each check goes to FOLDER/checks.jsonl as it is made; the table at the end says what passed.
Ends with status 1 where a check failed. With --device cpu it checks itself, on any machine.
"""
import argparse
import ast
import array
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parent.parent
MODELS = root / "tests/fixtures/models"
# Largest difference of a logit from the CPU's in the same precision, of their standard deviation. float16 and bfloat16
# round activations to 11 and 8 bits where the CPU may not, and a code of int8 activations flips at a rounding.
BOUNDS = {
    "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1, "int8-dynamic": 5e-2, "llm-int8": 5e-2, "nf4": 1e-3,
    "fp4": 1e-3, "nf4-dq": 1e-3, "fp4-dq": 1e-3, "int4-g128": 1e-3,
}  # fmt: skip
OF_TRANSFORMERS = 2e-4
IN_EVERY_PRECISION = ["base", "llama_grouped", "gemma3_scaled"]


def read_npy(path):
    """The float32 numbers of a .npy file, and its shape."""
    data = path.read_bytes()
    size = int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10 : 10 + size].decode())
    if header["descr"] != "<f4" or header["fortran_order"]:
        raise ValueError(f"{path}: expected float32 in row order, found {header}")
    return array.array("f", data[10 + size :]), header["shape"]


def read_safetensors(path, name):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])[name]
    kind = {"F32": "f", "I64": "q", "I32": "i"}[entry["dtype"]]
    begin, end = entry["data_offsets"]
    return array.array(kind, data[8 + size + begin : 8 + size + end])


def relative_error(got, want):
    """The largest difference, of the standard deviation of `want`; infinite where a number is not finite."""
    if len(got) != len(want) or not all(map(math.isfinite, got)):
        return math.inf
    mean = sum(want) / len(want)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in want) / len(want))
    return max(abs(a - b) for a, b in zip(got, want)) / deviation


class Report:
    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = open(folder / "checks.jsonl", "w")
        self.rows = []

    def add(self, stage, what, passed, **facts):
        self.rows.append((stage, what, passed, facts))
        self.file.write(json.dumps({"stage": stage, "what": what, "passed": passed, **facts}) + "\n")
        self.file.flush()

    def print(self):
        for stage, what, passed, facts in self.rows:
            mark = {True: "pass", False: "FAIL", None: "-"}[passed]
            details = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in facts.items())
            print(f"{mark:4}  {stage:10}  {what:34}  {details}")
        failed = sum(passed is False for _, _, passed, _ in self.rows)
        print(f"{failed} of {len(self.rows)} checks failed")
        return failed


class Stage:
    """Time that is left for a stage."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return max(self.end - time.monotonic(), 0.1)

    def is_over(self):
        return time.monotonic() > self.end


def run(arguments, limit):
    """Exit code (None: the time was over), and what it printed."""
    try:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=limit)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return None, "the time was over"


def logits(options, model, ids, precision, device, limit):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits.npy"
        code, said = run([options.program, "logits", model, "--ids", ",".join(map(str, ids)), "--precision", precision,
                          "--device", device, "-o", out, "--quiet"], limit)  # fmt: skip
        if code != 0:
            raise RuntimeError(said.strip().splitlines()[-1] if said.strip() else f"exit code {code}")
        return read_npy(out)[0]


def check_logits(options, report):
    stage = Stage(150)
    for folder in sorted(MODELS.iterdir()):
        expected = folder / "expected.safetensors"
        if not expected.exists():
            continue
        for precision in BOUNDS if folder.name in IN_EVERY_PRECISION else ["float32"]:
            if stage.is_over():
                report.add("logits", f"{folder.name} {precision}", None, error="no time was left")
                continue
            try:
                ids = read_safetensors(expected, "input_ids")
                got = logits(options, folder, ids, precision, options.device, stage.left())
                want = logits(options, folder, ids, precision, "cpu", stage.left())
                error, bound = relative_error(got, want), BOUNDS[precision]
                facts = {"of the CPU's": error}
                passed = error <= bound
                if precision == "float32":
                    facts["of Transformers'"] = relative_error(got, read_safetensors(expected, "logits"))
                    passed = passed and facts["of Transformers'"] <= OF_TRANSFORMERS
                report.add("logits", f"{folder.name} {precision}", passed, **facts)
            except (RuntimeError, ValueError, KeyError) as error:
                report.add("logits", f"{folder.name} {precision}", False, error=str(error))


def check_audits(options, report):
    stage = Stage(60)
    for precision in ("float32", "float16", "bfloat16", "int8-dynamic", "nf4"):
        texts = {}
        for how, flags in {"alone": [], "cache off": ["--no-cache"], "batch": ["-p", "The old captain", "-p", "He"]}.items():
            code, said = run([options.program, "generate", "demo", "-p", "Once upon a time", *flags, "-n", 16, "--precision",
                              precision, "--device", options.device, "--json", "--quiet"], stage.left())  # fmt: skip
            if code != 0:
                texts[how] = said.strip()[-200:]
                continue
            answer = json.loads(said)
            texts[how] = answer.get("generations", [answer])[0]["ids"]
        report.add("audits", precision, texts["alone"] == texts["cache off"] == texts["batch"],
                   **({} if texts["alone"] == texts["cache off"] == texts["batch"] else texts))  # fmt: skip


def check_sanitizers(options, report):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(tool).exists():
        report.add("sanitizers", "compute-sanitizer", None, error="it is not installed")
        return
    for kind in ("memcheck", "racecheck"):
        for precision in ("float32", "bfloat16", "int8-dynamic", "nf4"):
            code, said = run([tool, "--tool", kind, "--error-exitcode", 9, options.program, "logits",
                              MODELS / "llama_grouped", "--ids", "1,2,3,4,5", "--precision", precision, "--device",
                              options.device, "-o", "/dev/null", "--quiet"], 30)  # fmt: skip
            report.add("sanitizers", f"{kind} {precision}", code == 0, **({} if code == 0 else {"error": said[-300:]}))


class Worker:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"ok": false, "error": "the worker died"}')
        if not answer.get("ok"):
            raise RuntimeError(answer.get("error", "no reason was given"))
        return answer


def time_models(options, report):
    stage = Stage(options.seconds)
    with tempfile.TemporaryDirectory() as folder:
        for shape in options.shapes.split(","):
            model = pathlib.Path(folder) / shape
            code, said = run([sys.executable, root / "tools/make_random_model.py", "--size", shape, "--out", model], stage.left())
            if code != 0:
                passed = None if "No module named 'numpy'" in said else False
                report.add("times", shape, passed, error=said.strip().splitlines()[-1] if said.strip() else "no time was left")
                continue
            for precision in ("bfloat16", "float16", "int8-dynamic", "nf4", "float32"):
                if not stage.is_over():
                    time_one(options, report, shape, model, precision)


def time_one(options, report, shape, model, precision):
    numbers = random.Random(1)
    ids = [numbers.randrange(5, 30000) for _ in range(512)]
    try:
        worker = Worker(options.program)
        try:
            extra = {} if options.device == "cpu" else {"device": options.device}
            facts = {"weight_bytes": worker.ask(op="load", model=str(model), precision=precision, **extra)["weight_bytes"]}

            def seconds(**request):
                worker.ask(**request)
                return sorted(worker.ask(**request)["seconds"] for _ in range(3))[1]

            facts["prefill 512, tokens/s"] = 512 / seconds(op="prefill", ids=[ids])
            for batch in (1, 8, 64):
                prompts = [ids[i : i + 8] for i in range(batch)]
                steps = [seconds(op="decode", ids=prompts, new_tokens=n) for n in (4, 36)]
                facts[f"decode b{batch}, tokens/s"] = 32 * batch / (steps[1] - steps[0])
            report.add("times", f"{shape} {precision}", None, **facts)
        finally:
            worker.process.kill()
            worker.process.wait()
    except (RuntimeError, ZeroDivisionError) as error:
        report.add("times", f"{shape} {precision}", False, error=str(error))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", help="assay, built with CUDA [built here]")
parser.add_argument("--device", default="cuda:0", help="[%(default)s]")
parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/gpu_check"), help="[%(default)s]")
parser.add_argument("--shapes", default="124m,llama-1b", help="sizes of tools/make_random_model.py [%(default)s]")
parser.add_argument("--seconds", type=float, default=200, help="for the times [%(default)s]")
options = parser.parse_args()
if options.program is None:
    subprocess.run(["cmake", "--preset", "cuda"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "cuda", "--target", "assay"], cwd=root, check=True)
    options.program = root / "build/cuda/assay"
report = Report(options.out)
check_logits(options, report)
check_audits(options, report)
if options.device != "cpu":
    check_sanitizers(options, report)
time_models(options, report)
sys.exit(1 if report.print() else 0)
