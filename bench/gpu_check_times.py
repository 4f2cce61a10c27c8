"""Stages of gpu_check.py that measure: the GPU, models, times, nodes of a decode step, a profile of a prefill."""
import csv
import json
import pathlib
import random
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

from gpu_check_base import Energy, Worker, last_line, median, root, run, shapes_of
from gpu_check_predicted import add_nodes, gpu_of, predict

# What is timed of each model: a name, its precision, and fields of the configuration.
CONFIGURATIONS = {
    "bfloat16": ("bfloat16", {}),
    "int8-dynamic": ("int8-dynamic", {}),
    "nf4": ("nf4", {}),
    "float16": ("float16", {}),
    "int8-dynamic, head int8": ("int8-dynamic", {"quantize_head": "int8"}),
    "nf4, head nf4": ("nf4", {"quantize_head": "nf4"}),
}
BY_LIBRARY = {"bfloat16": ("bfloat16", {"cuda_gemm": "cublaslt"}), "nf4": ("nf4", {"cuda_gemm": "cublaslt"})}
PREFILLS, BATCHES = (512, 4096), (1, 8, 64)


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


def make_models(options, report, limit):
    for shape in options.shapes.split(","):
        if shape == "demo" or pathlib.Path(shape).is_dir():
            continue
        code, said = run([sys.executable, root / "tools/make_random_model.py", "--size", shape, "--pool", "--dtype", "bfloat16",
                          "--out", options.models / shape], limit.left())  # fmt: skip
        if code != 0:
            shutil.rmtree(options.models / shape, ignore_errors=True)
            report.add(shape, None if "No module named" in said else False, error=last_line(said))


def load(options, model, precision, config):
    try:
        return Worker(options, model, precision, **config)
    except (RuntimeError, OSError) as error:
        return error


def check_times(options, report, limit):
    """All configurations of a shape load at once, on all processors; then one after another is timed, and ends."""
    energy = Energy(options.device)
    if energy.why_not:
        report.skip("J/token", energy.why_not)
    for shape, model in shapes_of(options):
        cases = [(f"{shape} {name}", *what, True) for name, what in CONFIGURATIONS.items()]
        if options.device != "cpu":
            cases += [(f"{shape} {name}, cuBLASLt", *what, False) for name, what in BY_LIBRARY.items()]
        if limit.is_over():
            for name, *_ in cases:
                report.skip(name, "no time was left")
            continue
        with ThreadPoolExecutor(len(cases)) as pool:
            loaded = [pool.submit(load, options, model, precision, config) for _, precision, config, _ in cases]
        workers = [each.result() for each in loaded]
        try:
            for i, (name, precision, config, is_whole) in enumerate(cases):
                if limit.is_over():
                    report.skip(name, "no time was left")
                    continue
                if isinstance(workers[i], Exception):  # alone it may find the memory
                    workers[i] = load(options, model, precision, config)
                if isinstance(workers[i], Exception):
                    is_absent = "cuBLASLt" in name  # the library may be
                    report.add(name, None if is_absent else False, error=str(workers[i]))
                    continue
                time_one(report, name, workers[i], energy, is_whole)
                workers[i].end()
        finally:
            for worker in workers:
                if isinstance(worker, Worker):
                    worker.end()


def time_one(report, name, worker, energy, is_whole):
    numbers, context = random.Random(1), worker.facts["context"]
    ids = [numbers.randrange(5, worker.facts["vocab"]) for _ in range(max(PREFILLS))]
    facts = {"label": worker.facts["label"], "weight_bytes": worker.facts["weight_bytes"]}

    def seconds(**request):
        worker.ask(**request)
        return median([worker.ask(**request)["seconds"] for _ in range(3)])

    def decode():
        worker.ask(op="decode", ids=[ids[:8]], new_tokens=min(256, context - 16))
        return min(256, context - 16) + 1  # the prefill gives the first

    try:
        for length in sorted({min(length, context // 2) for length in PREFILLS}):
            facts[f"prefill {length}, tokens/s"] = length / seconds(op="prefill", ids=[ids[:length]])
        for batch in BATCHES if is_whole else ():
            prompts = [ids[i : i + 8] for i in range(batch)]
            steps = [seconds(op="decode", ids=prompts, new_tokens=n) for n in (4, 36)]
            facts[f"decode b{batch}, tokens/s"] = 32 * batch / (steps[1] - steps[0])
        if is_whole and not energy.why_not:
            facts["J/token"] = energy.per_token(decode)
        report.add(name, None, **facts)
    except (RuntimeError, ZeroDivisionError, OSError) as error:
        report.add(name, False, error=str(error), **facts)


# Nodes of a decode step: their times by differences of its graph, their registers by Nsight Compute.

OF_NODES, PAST = ("bfloat16", "int8-dynamic, head int8", "nf4, head nf4"), 64


def check_nodes(options, report, limit):
    if options.device == "cpu":
        return report.skip("nodes", "there is no GPU")
    file = options.out / "device.json"
    device = json.loads(file.read_text()) if file.exists() else None
    gpu = gpu_of(device["name"]) if device else None
    if not gpu:
        report.skip("predictions of nodes", "the stage `device` did not run, or `inspect --gpu` does not know this GPU")
    shapes = list(shapes_of(options))
    for shape, model in shapes:
        for configuration in OF_NODES:
            name, (precision, config) = f"{shape} {configuration}", CONFIGURATIONS[configuration]
            if limit.is_over():
                report.skip(name, "no time was left")
                continue
            try:
                with Worker(options, model, precision, **config) as worker:
                    past = min(PAST, worker.facts["context"] // 2)
                    profile = worker.ask(op="profile", ids=[list(range(5, 5 + past))], new_tokens=1)
            except (RuntimeError, OSError) as error:
                report.add(name, False, error=str(error))
                continue
            if "step_s" not in profile:
                report.add(name, False, error="the device replayed no graph")
                continue
            head = config.get("quantize_head")
            predicted = predict(options, model, precision, head, gpu, past, limit.left()) if gpu else None
            add_nodes(report, name, profile, predicted, device)
    check_registers(options, report, limit, reversed(shapes))


METRICS = ("gpu__time_duration.sum", "launch__registers_per_thread", "launch__grid_size")


def read_launches(text):
    """Launches in order, from the CSV of ncu: (kernel, grid, registers, microseconds)."""
    launches = {}
    for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        number = float(row["Metric Value"].replace(",", ""))  # 1,234.5
        if row["Metric Name"] == METRICS[0]:
            number *= {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}[row["Metric Unit"]]
        launches.setdefault(row["ID"], {"kernel": kernel_name(row["Kernel Name"])})[row["Metric Name"]] = number
    return [tuple(one[key] for key in ("kernel", METRICS[2], METRICS[1], METRICS[0])) for one in launches.values()]


def kernel_name(signature):
    """ordered_halves<Float16, 1, 1> of 'void assay::...::ordered_halves<assay::...::Float16, 1, 1>(OrderedArgs)'."""
    return re.sub(r"^void ", "", re.sub(r"\w+::", "", re.sub(r"\([^()]*\)$", "", signature)))


def decode_steps(launches):
    """The launches of each whole decode step. `next_token` ends one; what comes before the first is the prefill."""
    ends = [i for i, launch in enumerate(launches) if launch[0].startswith("next_token")]
    return [launches[begin + 1 : end + 1] for begin, end in zip(ends, ends[1:])]


def table_of_nodes(steps):
    """(kernel, grid, registers) -> nodes of a step, and the median of their microseconds."""
    places = {}
    for step in steps:
        for kernel, grid, registers, us in step:
            places.setdefault((kernel, int(grid), int(registers)), []).append(us)
    return {place: (round(len(times) / len(steps)), median(times)) for place, times in places.items()}


def check_registers(options, report, limit, shapes):
    """Where ncu is installed, which times each node alone."""
    tool = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if not pathlib.Path(tool).exists():
        return report.skip("registers", "ncu is not installed")
    for shape, model in shapes:
        if shape == "llama-8b":
            report.skip(f"{shape} registers", "ncu takes longer than this stage has")
            continue
        for configuration in OF_NODES:
            name, (precision, config) = f"{shape} {configuration}", CONFIGURATIONS[configuration]
            head = ["--quantize-head", config["quantize_head"]] if config else []
            if limit.is_over():
                report.skip(f"{name} registers", "no time was left")
                continue
            code, said = run([tool, "--clock-control", "none", "--graph-profiling", "node", "--metrics", ",".join(METRICS), "--csv",
                              options.program, "generate", model, "--ids", "5,6,7,8,9", "-n", 5, "--precision", precision, *head,
                              "--device", options.device, "--json", "--quiet"], limit.left())  # fmt: skip
            steps = decode_steps(read_launches(said)) if code == 0 else []
            if not steps:
                report.add(f"{name} registers", None, error=last_line(said) if code != 0 else "no whole decode step was seen")
                continue
            for (kernel, grid, registers), (count, us) in table_of_nodes(steps).items():
                report.add(f"{name} {kernel}", None, grid=grid, registers=registers, count=count, **{"us alone": us})


def check_profile(options, report, limit):
    device = options.out / "device.json"
    gpu = json.loads(device.read_text()) if device.exists() else None
    rates = {"float32": "float32 FMA", "bfloat16": "bfloat16 mma.sync", "int8-dynamic": "int8 mma.sync",
             "nf4": "float16 mma.sync"}  # fmt: skip
    for shape, model in shapes_of(options):
        for precision in ("bfloat16", "int8-dynamic", "nf4"):
            if limit.is_over():
                report.skip(f"{shape} {precision}", "no time was left")
                continue
            try:
                with Worker(options, model, precision) as worker:
                    ids = list(range(5, 5 + min(512, worker.facts["context"] // 2, worker.facts["vocab"] - 5)))
                    parts = worker.ask(op="profile", ids=[ids], new_tokens=0)["operations"]
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
                report.skip(f"{shape} {precision}", "this device does not time operations one by one")
