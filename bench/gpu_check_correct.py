"""Stages of gpu_check.py that compare: kernels, logits, audits, sanitizers."""
import json
import os
import pathlib
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor

from gpu_check_base import last_line, root, run
from gpu_check_files import read_npy, read_safetensors, relative_error

MODELS = root / "tests/fixtures/models"
FEW = {"CudaStepKernels"}  # which a CPU does in no time

# Bounds of the largest difference of a logit from the CPU's in the same precision, as a share of the logits' standard
# deviation. With what is not quantized in float32 (--dtype float32) both compute alike but for the order of sums: an
# H200 was within 1e-5 in float32 and within these in every precision (2026-11-26, all models of IN_EVERY_PRECISION).
# A code of int8 activations flips where two sums straddle a rounding: a flip is worth up to 1/127 of an activation.
STRICT = {
    "float32": 1e-4, "int8-dynamic": 5e-2, "llm-int8": 5e-2, "nf4": 1e-3, "fp4": 1e-3, "nf4-dq": 1e-3, "fp4-dq": 1e-3,
    "int4-g128": 1e-3,
}  # fmt: skip
# With the default dtype a GPU takes float16 where the CPU takes float32: bounds are twice the largest that an H200
# showed on 2026-11-27: float16 0.029, bfloat16 0.061, 4 bits 0.018, int8 0.19 (float16 moves activations, and more
# codes flip); all of them on llama_grouped.
DEFAULT = {
    "float16": 6e-2, "bfloat16": 1.3e-1, "int8-dynamic": 4e-1, "llm-int8": 4e-1, "nf4": 4e-2, "fp4": 4e-2, "nf4-dq": 4e-2,
    "fp4-dq": 4e-2, "int4-g128": 4e-2,
}  # fmt: skip
# Files with GGUF's block types, written from the demo model. The bounds are those of 4 bits: blocks are float32 sums of
# dequantized values on both devices. An H200 was within them (2026-11-28).
GGUF_RECIPES = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0")
GGUF_STRICT, GGUF_DEFAULT = 1e-3, 4e-2
GGUF_IDS = range(5, 29)
# An H200 was within 8.6e-6 in float32 on every fixture.
OF_TRANSFORMERS = 2e-4
IN_EVERY_PRECISION = ["base", "llama_grouped", "gemma3_scaled"]


def suites_of(listing):
    """The suites in what --gtest_list_tests prints. Those that use the emulation whatever the device are among them: a
    program that holds the kernels twice must run those that it asks for."""
    return [match[1] for match in re.finditer(r"^((?:\w+/)?Cuda\w+)\.", listing, re.M)]


def check_kernels(options, report, limit):
    if not options.tests or not pathlib.Path(options.tests).exists():
        return report.skip("assay_tests", "no --tests program was given")
    on_gpu = options.device != "cpu"
    where = dict(os.environ, **({"ASSAY_TEST_CUDA": "1"} if on_gpu else {}))
    code, said = run([options.tests, "--gtest_list_tests", "--gtest_filter=*Cuda*"], limit.left(), env=where)
    suites = [suite for suite in suites_of(said) if on_gpu or suite in FEW]
    if code != 0 or not suites:
        return report.add("suites of kernels", False, error=last_line(said) if code != 0 else "there are none")

    def test(suite):
        return suite, *run([options.tests, f"--gtest_filter={suite}.*"], limit.left(), env=where)

    tests = skipped = ran = 0
    with ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
        for suite, code, said in pool.map(test, suites):
            failed = sorted(set(re.findall(r"^\[  FAILED  \] (\S+\.\S+?),? .*\(\d+ ms\)$", said, re.M)))
            passed = re.search(r"^\[  PASSED  \] (\d+) tests?\.", said, re.M)
            tests += int(passed[1]) if passed else 0
            skipped += len(set(re.findall(r"^\[  SKIPPED \] (\S+\.\S+) \(", said, re.M)))
            ran += code is not None
            for name in failed:
                report.add(name, False)
            if code != 0 and not failed:  # it crashed, or its time was over
                report.add(suite, False, error=last_line(said))
    report.add("all suites of kernels", ran == len(suites) and tests > 0, suites=f"{ran} of {len(suites)}", passed_tests=tests,
               skipped_tests=skipped)  # fmt: skip


def logits(options, model, ids, flags, device, limit):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits.npy"
        code, said = run([options.program, "logits", model, "--ids", ",".join(map(str, ids)), *flags, "--device", device,
                          "-o", out, "--quiet"], limit)  # fmt: skip
        if code != 0:
            raise RuntimeError(last_line(said))
        return read_npy(out)[0]


class LogitChecks:
    def __init__(self, options, report, limit):
        self.options, self.report, self.limit = options, report, limit

    def errors(self, what, model, ids, flags, strict, default, expected=None):
        """One line: the device's logits beside the CPU's, and Transformers' where they are known."""
        options, limit = self.options, self.limit
        if limit.is_over():
            return self.report.skip(what, "no time was left")
        try:
            float32 = ["--dtype", "float32"] if strict and default else []  # float32 itself has no dtype to choose
            on_cpu = logits(options, model, ids, flags + float32, "cpu", limit.left())
            facts, passed = {}, True
            if strict:
                got = logits(options, model, ids, flags + float32, options.device, limit.left())
                facts["of the CPU's"] = relative_error(got, on_cpu)
                passed = facts["of the CPU's"] <= strict
            if default:
                usual = logits(options, model, ids, flags, options.device, limit.left())
                name = "of the CPU's" if not strict else "with the default dtype"
                facts[name] = relative_error(usual, on_cpu)
                passed = passed and facts[name] <= default
            if expected is not None:
                facts["of Transformers'"] = relative_error(got, expected)
                passed = passed and facts["of Transformers'"] <= OF_TRANSFORMERS
            self.report.add(what, passed, **facts)
        except (RuntimeError, ValueError, KeyError, OSError) as error:
            self.report.add(what, False, error=str(error))

    def fixture(self, folder, precision):
        file = folder / "expected.safetensors"
        self.errors(f"{folder.name} {precision}", folder, read_safetensors(file, "input_ids"), ["--precision", precision],
                    STRICT.get(precision), DEFAULT.get(precision),
                    read_safetensors(file, "logits") if precision == "float32" else None)  # fmt: skip

    def blocks(self, recipe):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "demo.gguf"
            code, said = run([self.options.program, "quantize", "demo", file, "--recipe", recipe, "--quiet"], self.limit.left())
            if code != 0:
                return self.report.add(f"demo {recipe}", False, error=last_line(said))
            self.errors(f"demo {recipe}", file, GGUF_IDS, [], GGUF_STRICT, GGUF_DEFAULT)


def check_logits(options, report, limit):
    checks = LogitChecks(options, report, limit)
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        made = []
        for folder in sorted(MODELS.iterdir()):
            if (folder / "expected.safetensors").exists():
                precisions = STRICT | DEFAULT if folder.name in IN_EVERY_PRECISION else ["float32"]
                made += [pool.submit(checks.fixture, folder, precision) for precision in precisions]
        made += [pool.submit(checks.blocks, recipe) for recipe in GGUF_RECIPES]
        for each in made:
            each.result()


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


def check_sanitizers(options, report, limit):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if options.device == "cpu" or not pathlib.Path(tool).exists():
        return report.skip("compute-sanitizer", "it is not installed, or there is no GPU")
    for kind in ("memcheck", "racecheck"):
        for precision in ("float32", "bfloat16", "int8-dynamic", "nf4"):
            code, said = run([tool, "--tool", kind, "--error-exitcode", 9, options.program, "generate",
                              MODELS / "llama_grouped", "--ids", "1,2,3,4,5", "-n", 4, "--precision", precision, "--device",
                              options.device, "--json", "--quiet"], min(30, limit.left()))  # fmt: skip
            report.add(f"{kind} {precision}", code == 0, **({} if code == 0 else {"error": said[-300:]}))
