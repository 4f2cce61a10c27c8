#!/usr/bin/env python3
"""Checks and times the CUDA backend on a machine with an NVIDIA GPU, within ten minutes.

usage: bench/gpu_check.py [--program build/cuda/assay] [--tests build/cuda/tests/assay_tests] [--device cuda:0]
                          [--out FOLDER] [--shapes 124m,llama-1b] [--stages device,logits,...]

Builds the preset `cuda` where no program is given. Each stage is a process with a time limit of its own:
  device      what `assay machine` measures of the GPU: memory, L2, rates of each type, launches; its driver's sensors
  kernels     the tests of each kernel, run on the GPU (ASSAY_TEST_CUDA=1) instead of in the emulation
  logits      every fixture of tests/fixtures/models in float32 against its logits of Transformers and the CPU's,
              and three families in every precision against the CPU's
  audits      the cache and the batch change no token of a text of the demo model
  models      random models of the shapes (tools/make_random_model.py, which needs NumPy); a folder is taken as it is
  times       prefill (by cuBLASLt too) and decode, batches of 1, 8 and 64, every precision; energy per token over 2 s of decoding
  profile     each kind of operation: time by events, bytes and FLOPs from the plan, GB/s, FLOP/s, share of roofline
  peers       PyTorch on the same shapes: eager; torch.compile with a static cache; bitsandbytes, torchao if installed
  llama.cpp   llama-bench of --llama-cpp FOLDER (built there with CUDA where it is not), on --gguf FILE
  sanitizers  compute-sanitizer memcheck and racecheck of a short text, where it is installed
One line of JSON for each check goes to FOLDER/checks.jsonl as it is made; the table at the end says what passed.
Ends with status 1 where a check failed. With --device cpu it checks itself, on any machine.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from gpu_check_files import read_npy, read_safetensors, relative_error

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
PRECISIONS = ["bfloat16", "float16", "int8-dynamic", "nf4", "float32"]


class Report:
    """Lines of JSON, each written when its check is made."""

    def __init__(self, file, stage):
        self.file, self.stage = open(file, "a"), stage

    def add(self, what, passed, **facts):
        self.file.write(json.dumps({"stage": self.stage, "what": what, "passed": passed, **facts}) + "\n")
        self.file.flush()


class Limit:
    """Time that is left."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return max(self.end - time.monotonic(), 0.1)

    def is_over(self):
        return time.monotonic() > self.end


def run(arguments, limit, **how):
    """Exit code (None: the time was over), and what it printed."""
    try:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=limit, **how)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return None, "the time was over"


def last_line(said):
    return said.strip().splitlines()[-1] if said.strip() else "nothing was printed"


def check_device(options, report, limit):
    code, said = run([options.program, "machine", "--json", "--quiet", "--largest", "16"], limit.left())
    if code != 0:
        return report.add("assay machine", False, error=last_line(said))
    machine = json.loads(said)
    for gpu in machine["gpus"]:
        gpu["products"] = {p["kind"]: p["gflops"] for p in gpu["products"]}
        (options.out / "device.json").write_text(json.dumps(gpu))
        report.add(gpu["device"], gpu["memory_read_gb_per_s"] > 0 and all(gpu["products"].values()), **gpu)
    if not machine["gpus"]:
        report.add("GPU", None if options.device == "cpu" else False, error=machine["why_no_gpu"])


def check_kernels(options, report, limit):
    if not options.tests or not pathlib.Path(options.tests).exists():
        return report.add("assay_tests", None, error="no --tests program was given")
    where = dict(os.environ, **({} if options.device == "cpu" else {"ASSAY_TEST_CUDA": "1"}))
    filters = "CudaStepKernels*" + ("" if options.device == "cpu" else ":CudaKernels*")
    code, said = run([options.tests, f"--gtest_filter={filters}"], limit.left(), env=where)
    for line in said.splitlines():
        if line.startswith("[  FAILED  ]") and "(" in line and " ms)" in line:
            report.add(line[13:].split(" (")[0], False)
    report.add("all tests of kernels", code == 0, **({} if code == 0 else {"error": last_line(said)}))


def logits(options, model, ids, precision, device, limit):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits.npy"
        code, said = run([options.program, "logits", model, "--ids", ",".join(map(str, ids)), "--precision", precision,
                          "--device", device, "-o", out, "--quiet"], limit)  # fmt: skip
        if code != 0:
            raise RuntimeError(last_line(said))
        return read_npy(out)[0]


def check_logits(options, report, limit):
    def check(folder, precision):
        what = f"{folder.name} {precision}"
        if limit.is_over():
            return report.add(what, None, error="no time was left")
        try:
            ids = read_safetensors(folder / "expected.safetensors", "input_ids")
            got = logits(options, folder, ids, precision, options.device, limit.left())
            error = relative_error(got, logits(options, folder, ids, precision, "cpu", limit.left()))
            facts, passed = {"of the CPU's": error}, error <= BOUNDS[precision]
            if precision == "float32":
                expected = read_safetensors(folder / "expected.safetensors", "logits")
                facts["of Transformers'"] = relative_error(got, expected)
                passed = passed and facts["of Transformers'"] <= OF_TRANSFORMERS
            report.add(what, passed, **facts)
        except (RuntimeError, ValueError, KeyError, OSError) as error:
            report.add(what, False, error=str(error))

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        for folder in sorted(MODELS.iterdir()):
            if (folder / "expected.safetensors").exists():
                for precision in BOUNDS if folder.name in IN_EVERY_PRECISION else ["float32"]:
                    pool.submit(check, folder, precision)


def check_audits(options, report, limit):
    for precision in ("float32", "float16", "bfloat16", "int8-dynamic", "nf4"):
        texts = {}
        for how, flags in {"alone": [], "cache off": ["--no-cache"], "batch": ["-p", "The old captain", "-p", "He"]}.items():
            code, said = run([options.program, "generate", "demo", "-p", "Once upon a time", *flags, "-n", 16, "--precision",
                              precision, "--device", options.device, "--json", "--quiet"], limit.left())  # fmt: skip
            answer = json.loads(said) if code == 0 else {"ids": said.strip()[-200:]}
            texts[how] = answer.get("generations", [answer])[0]["ids"]
        is_same = texts["alone"] == texts["cache off"] == texts["batch"] and isinstance(texts["alone"], list)
        report.add(precision, is_same, **({} if is_same else texts))


def shapes_of(options):
    """Names and folders of the models that there are."""
    for shape in options.shapes.split(","):
        folder = pathlib.Path(shape) if pathlib.Path(shape).is_dir() or shape == "demo" else options.models / shape
        if shape == "demo" or (folder / "config.json").exists():
            yield shape, folder


def make_models(options, report, limit):
    for shape in options.shapes.split(","):
        if shape == "demo" or pathlib.Path(shape).is_dir():
            continue
        code, said = run([sys.executable, root / "tools/make_random_model.py", "--size", shape, "--out", options.models / shape],
                         limit.left())  # fmt: skip
        if code != 0:
            shutil.rmtree(options.models / shape, ignore_errors=True)
            report.add(shape, None if "No module named" in said else False, error=last_line(said))


class Worker:
    def __init__(self, options, model, precision, **config):
        self.process = subprocess.Popen([options.program, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        device = {} if options.device == "cpu" else {"device": options.device}
        self.facts = self.ask(op="load", model=str(model), precision=precision, **device, **config)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"ok": false, "error": "the worker died"}')
        if not answer.get("ok"):
            raise RuntimeError(answer.get("error", "no reason was given"))
        return answer


def check_times(options, report, limit):
    for shape, model in shapes_of(options):
        for precision in PRECISIONS:
            if limit.is_over():
                return report.add(f"{shape} {precision}", None, error="no time was left")
            try:
                time_one(options, report, shape, model, precision)
            except (RuntimeError, ZeroDivisionError) as error:
                report.add(f"{shape} {precision}", False, error=str(error))


def time_one(options, report, shape, model, precision):
    numbers = random.Random(1)
    with Worker(options, model, precision) as worker:
        length = min(512, worker.facts["context"] // 2)
        ids = [numbers.randrange(5, worker.facts["vocab"]) for _ in range(length)]
        facts = {"weight_bytes": worker.facts["weight_bytes"]}

        def seconds(**request):
            worker.ask(**request)
            return sorted(worker.ask(**request)["seconds"] for _ in range(3))[1]

        facts[f"prefill {length}, tokens/s"] = length / seconds(op="prefill", ids=[ids])
        for batch in (1, 8, 64):
            prompts = [ids[i : i + 8] for i in range(batch)]
            steps = [seconds(op="decode", ids=prompts, new_tokens=n) for n in (4, 36)]
            facts[f"decode b{batch}, tokens/s"] = 32 * batch / (steps[1] - steps[0])
        # The energy counter is refreshed every 20 to 100 ms: a window of 2 s and more.
        tokens = min(worker.facts["context"] - 16, int(3 * facts["decode b1, tokens/s"]))
        joules = 0 if options.device == "cpu" else worker.ask(op="decode", ids=[ids[:8]], new_tokens=tokens).get("joules", 0)
        if joules:
            facts["J/token"] = joules / (tokens + 1)
        report.add(f"{shape} {precision}", None, **facts)
    if options.device == "cpu" or precision.startswith("int8"):
        return
    try:
        with Worker(options, model, precision, cuda_gemm="cublaslt") as worker:
            worker.ask(op="prefill", ids=[ids])
            seconds = sorted(worker.ask(op="prefill", ids=[ids])["seconds"] for _ in range(3))[1]
        report.add(f"{shape} {precision}, cuBLASLt", None, **{f"prefill {length}, tokens/s": length / seconds})
    except RuntimeError as error:  # the library may be absent
        report.add(f"{shape} {precision}, cuBLASLt", None, error=str(error))


def check_profile(options, report, limit):
    device = options.out / "device.json"
    gpu = json.loads(device.read_text()) if device.exists() else None
    rates = {"float32": "float32 FMA", "bfloat16": "bfloat16 mma.sync", "float16": "float16 mma.sync",
             "int8-dynamic": "int8 mma.sync", "nf4": "float32 FMA"}  # fmt: skip
    for shape, model in shapes_of(options):
        for precision in ("bfloat16", "int8-dynamic", "nf4"):
            if limit.is_over():
                return report.add(f"{shape} {precision}", None, error="no time was left")
            try:
                with Worker(options, model, precision) as worker:
                    ids = list(range(5, 5 + min(64, worker.facts["context"] // 2)))
                    parts = worker.ask(op="profile", ids=[ids], new_tokens=16)["operations"]
            except RuntimeError as error:
                report.add(f"{shape} {precision}", False, error=str(error))
                continue
            for part in sorted(parts, key=lambda p: -p["seconds"]):
                facts = {"us": part["seconds"] * 1e6, "count": part["count"], "bytes": part["bytes"],
                         "GB/s": part["bytes"] / part["seconds"] / 1e9, "GFLOP/s": part["flops"] / part["seconds"] / 1e9}  # fmt: skip
                if gpu:
                    least = max(part["bytes"] / gpu["memory_read_gb_per_s"], part["flops"] / gpu["products"][rates[precision]]) / 1e9
                    facts["% of roofline"] = 100 * least / part["seconds"]
                report.add(f"{shape} {precision} {part['name']}", None, **facts)
            if not parts:
                report.add(f"{shape} {precision}", None, error="this device does not time operations one by one")


def check_peers(options, report, limit):
    kinds = ("eager", "compiled", "bitsandbytes-nf4", "bitsandbytes-int8", "torchao-int8", "torchao-int4")
    for shape, model in shapes_of(options):
        model = root / "models/demo" if shape == "demo" else model
        for kind in kinds if shape != "demo" else kinds[:1]:
            code, said = run([sys.executable, root / "bench/gpu_check_peer.py", model, kind, options.device], min(60, limit.left()))
            answer = json.loads(last_line(said)) if code == 0 else {"error": last_line(said)}
            report.add(f"{shape} {kind}", None, **answer)


def check_llama_cpp(options, report, limit):
    if not options.llama_cpp or not options.gguf:
        return report.add("llama-bench", None, error="no --llama-cpp and --gguf were given")
    bench = options.llama_cpp / "build/bin/llama-bench"
    if not bench.exists():
        for arguments in (["-B", "build", "-DGGML_CUDA=ON", "-DCMAKE_BUILD_TYPE=Release"], ["--build", "build", "-j", "--target", "llama-bench"]):
            code, said = run(["cmake", *arguments], limit.left(), cwd=options.llama_cpp)
            if code != 0:
                return report.add("llama-bench", None, error=last_line(said))
    code, said = run([bench, "-m", options.gguf, "-p", 512, "-n", 64, "-o", "json"], limit.left())
    rows = json.loads(said[said.index("[") : said.rindex("]") + 1]) if code == 0 else []
    for row in rows:
        report.add(f"prompt {row['n_prompt']} new {row['n_gen']}", None, **{"tokens/s": row["avg_ts"]})
    if code != 0:
        report.add("llama-bench", None, error=last_line(said))


def check_sanitizers(options, report, limit):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if options.device == "cpu" or not pathlib.Path(tool).exists():
        return report.add("compute-sanitizer", None, error="it is not installed, or there is no GPU")
    for kind in ("memcheck", "racecheck"):
        for precision in ("float32", "bfloat16", "int8-dynamic", "nf4"):
            code, said = run([tool, "--tool", kind, "--error-exitcode", 9, options.program, "generate",
                              MODELS / "llama_grouped", "--ids", "1,2,3,4,5", "-n", 4, "--precision", precision, "--device",
                              options.device, "--json", "--quiet"], min(30, limit.left()))  # fmt: skip
            report.add(f"{kind} {precision}", code == 0, **({} if code == 0 else {"error": said[-300:]}))


# Seconds of each; ten minutes together.
STAGES = {
    "device": (40, check_device), "kernels": (60, check_kernels), "logits": (90, check_logits),
    "audits": (40, check_audits), "models": (60, make_models), "times": (100, check_times),
    "profile": (30, check_profile), "peers": (100, check_peers), "llama.cpp": (30, check_llama_cpp),
    "sanitizers": (50, check_sanitizers),
}  # fmt: skip


def seconds_of(options, stage):
    """Without a GPU nobody waits for it, and a CPU takes longer."""
    return STAGES[stage][0] * (4 if options.device == "cpu" else 1)


def run_stage(options, stage):
    """In a process of its own, whose whole group ends with its time."""
    arguments = [sys.executable, __file__, "--stage", stage, "--program", options.program, "--device", options.device, "--out",
                 options.out, "--shapes", options.shapes, "--models", options.models]  # fmt: skip
    for name in ("tests", "llama_cpp", "gguf"):
        if getattr(options, name):
            arguments += ["--" + name.replace("_", "-"), getattr(options, name)]
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
    parser.add_argument("--shapes", default="124m,llama-1b", help="sizes of tools/make_random_model.py, folders, or demo [%(default)s]")
    parser.add_argument("--stages", default=",".join(STAGES), help="[all]")
    parser.add_argument("--llama-cpp", type=pathlib.Path, help="its sources")
    parser.add_argument("--gguf", type=pathlib.Path, help="a model for it")
    parser.add_argument("--models", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
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
    with tempfile.TemporaryDirectory() as models:
        options.models = pathlib.Path(models)
        for stage in options.stages.split(","):
            run_stage(options, stage)
    return 1 if print_table(checks) else 0


if __name__ == "__main__":
    sys.exit(main())
