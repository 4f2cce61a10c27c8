"""Assay and its peers: how each is started, loaded and given a turn."""

import dataclasses
import math
import statistics
import sys
import time

import models
from precisions import PLAIN, PRECISIONS
from protocol import ISA_VARIABLES
from rooflines import SHAPES
from workers import HERE, Worker, WorkerError

MOST_REPEATS = 50
ROOFLINE_READINGS, FEWEST_ROOFLINE_READINGS = 40, 8  # the former take about as long as a turn
MOST_ROOFLINE_S = 2.0  # after it the fewest are enough: weights of gigabytes take long to read


@dataclasses.dataclass(frozen=True)
class Setting:
    precision: str
    threads: int
    isa: str  # native, avx2 or avx512
    size: str

    @property
    def shape(self):
        return SHAPES[self.size]


@dataclasses.dataclass(frozen=True)
class Kind:
    environment: str  # the one that setup.sh makes
    # What it runs beside a row of Assay's: the name its worker and its converter have for it.
    forms: dict
    mode: str = ""  # a mode of worker_torch.py
    isa_limit: str = "whole"  # how far it can be held to an instruction set: whole, part, none or build


def as_they_are(names):
    return {name: name for name in names}


# One row of a peer beside one of Assay's; where it has two forms of that kind, the second is a peer of its own.
KINDS = {
    "assay": Kind("", as_they_are(PRECISIONS)),
    # What a row of Assay's is held to, in turns with it.
    "assay-base": Kind(
        "",
        {
            "bf16x3": "float32",
            "int8-static+head:int8": "int8-dynamic+head:int8",
            "llm-int8": "int8-dynamic",
            "nf4": "bfloat16",
            "fp4": "bfloat16",
        },
    ),
    "torch": Kind("torch", as_they_are(PLAIN) | {"int8-dynamic+head:int8": "int8"}, mode="eager"),
    "torch-compile": Kind("torch", as_they_are(PLAIN), mode="compile"),
    "bitsandbytes": Kind("torch", as_they_are(("llm-int8", "nf4", "fp4")), mode="eager"),
    "onnxruntime": Kind(
        "onnxruntime",
        {"float32": "float32", "int8-dynamic+head:int8": "int8-dynamic"},
        isa_limit="none",
    ),
    "onnxruntime-static": Kind("onnxruntime", {"int8-static+head:int8": "int8-static"}, isa_limit="none"),
    # oneDNN obeys a limit of the instruction set, its other kernels do not
    "openvino": Kind(
        "openvino",
        as_they_are(PLAIN)
        | {
            "int8-dynamic+head:int8": "int8",
            "nf4+head:int8": "int4",
            "nf4+head:int8+activations:int8": "int4",
            "nf4+head:nf4": "int4-all",
            "int4-g128+head:int8": "int4",
        },
        isa_limit="part",
    ),
    "openvino-w8a8": Kind(
        "openvino",
        {"int8-dynamic+head:int8": "w8a8", "int8-static+head:int8": "w8a8"},
        isa_limit="part",
    ),
    "openvino-nf4": Kind("openvino", {"nf4+head:int8": "nf4"}, isa_limit="part"),
    "ctranslate2": Kind("ctranslate2", {"float32": "float32", "int8-dynamic+head:int8": "int8"}),
    # built for the machine at hand
    "llama.cpp": Kind(
        "llama.cpp",
        {
            "float32": "f32",
            "bfloat16": "bf16",
            "int8-dynamic+head:int8": "Q8_0",
            "int8-dynamic": "Q8_0+head-bf16",
            "nf4+head:int8": "Q4_0",
            "nf4+head:int8+activations:int8": "Q4_0",
            "nf4+head:nf4": "Q4_0",
            "nf4": "Q4_0+head-bf16",
            "int4-g128+head:int8": "Q4_0",
        },
        isa_limit="build",
    ),
    "llama.cpp-pure": Kind("llama.cpp", {"nf4+head:nf4": "Q4_0+pure"}, isa_limit="build"),
    "llama.cpp-k": Kind("llama.cpp", {"nf4+head:int8": "Q4_K_M"}, isa_limit="build"),
}


class Participant:
    def __init__(self, name, setting, cpus, options):
        self.name, self.setting, self.cpus, self.options = name, setting, cpus, options
        self.kind, self.label, self.failure, self.loaded, self.worker = KINDS[name], name, None, {}, None
        self.has_started, self.needs_pin = False, True
        self.is_pinned = None  # whether its threads had a processor each in the last turn
        self.repeats = {}  # that of a case in a turn, by its name

    @property
    def is_assay(self):
        return not self.kind.environment

    @property
    def is_llama(self):
        return self.kind.environment == "llama.cpp"

    @property
    def pins_itself(self):
        """Assay and llama.cpp give each thread its processor when they start it, OpenVINO for as long as a run takes."""
        return self.is_assay or self.is_llama or self.kind.environment == "openvino"

    def why_not(self):
        """Why it has no row in this setting; empty where it has one."""
        if self.setting.precision not in self.kind.forms:
            return f"offers no {self.setting.precision}"
        if self.setting.isa != "native" and self.kind.isa_limit == "none":
            return "cannot be limited to an instruction set"
        if self.kind.isa_limit == "build" and self.setting.isa not in models.LLAMA_BUILDS:
            return f"is not built for {self.setting.isa} alone"
        return ""

    def model(self):
        """The file or folder that it loads, made where it is not there. Throws OSError or RuntimeError."""
        peers_dir, size, form = self.options.dir, self.setting.size, self.kind.forms[self.setting.precision]
        if self.is_llama:
            return models.gguf(peers_dir, size, form)
        if self.is_assay or self.kind.environment == "torch":
            return models.hugging_face(peers_dir, size)
        return models.converted(
            peers_dir, size, self.kind.environment, "float32" if form in PLAIN else form
        )

    def start(self):
        """A process with the model loaded. Throws WorkerError, OSError or RuntimeError."""
        setting, peers_dir = self.setting, self.options.dir
        form, model = self.kind.forms[setting.precision], self.model()
        cpus = ",".join(map(str, sorted(self.cpus)))
        if self.is_assay:
            command = [self.options.assay, "worker"]
        elif self.is_llama:
            program = models.llama_program(peers_dir, "assay-llama-worker", setting.isa)
            command = [program, "--threads", setting.threads, "--cpus", cpus]
        else:
            environment = self.kind.environment
            command = [models.python_of(peers_dir, environment), HERE / f"worker_{environment}.py"]
            command += ["--threads", setting.threads, "--cpus", cpus]
            command += ["--mode", self.kind.mode] if self.kind.mode else []
            command += ["--isa", setting.isa] if setting.isa != "native" else []
        request = {"model": str(model), "precision": form, "threads": setting.threads}
        if self.is_assay:
            request |= PRECISIONS[form].request()
        variables = {}
        if setting.isa != "native":
            variables = ISA_VARIABLES[setting.isa]
            if self.is_assay:
                request["isa"] = setting.isa
        log = models.log_of(peers_dir).with_name(f"worker-{self.name}.log")
        self.worker = Worker(command, self.cpus, log, variables, self.options.huge_pages == "all")
        self.loaded = self.worker.ask("load", **request)
        self.has_started, self.needs_pin = True, True
        self.label = f"Assay ({self.loaded['kernels']} kernels)" if self.is_assay else self.loaded["label"]
        if form != setting.precision or (not self.is_assay and form not in PLAIN):
            self.label += f", {form.replace('+', ' ')}"
        if self.loaded.get("has_all_positions"):
            self.label += " (all positions)"
        compiler = peers_dir / "llama.cpp" / "compiler.txt"
        if self.is_llama and compiler.exists():
            self.label += f" ({compiler.read_text().strip()})"

    def stop(self):
        if self.worker is not None:
            self.worker.close()
        self.worker = None

    def forgive(self):
        """What failed in one case may work in the next, unless it never started."""
        if self.has_started:
            self.failure = None

    def guarded(self, work, what):
        """What `work` gives, or None; the first failure is kept and ends its part in the case."""
        if self.failure is not None:
            return None
        try:
            if self.worker is None:
                self.start()
            return work()
        except (WorkerError, OSError, RuntimeError, ValueError, KeyError) as error:
            self.failure = f"{what}: {error}"
            print(f"{self.name}: {self.failure}", file=sys.stderr)
            self.stop()
            return None

    def logits(self, ids):
        return self.guarded(lambda: self.worker.ask("logits", ids=ids)["logits"], "logits")

    def roofline(self, working_set):
        """(bytes, operations) per second that the machine reaches now, for Assay's working set; or None."""

        def work():
            # As often as brings the processors up, and what fits into caches there, as a turn does.
            size = round(working_set)
            answers, end = [], time.monotonic() + MOST_ROOFLINE_S
            while len(answers) < ROOFLINE_READINGS and (
                len(answers) < FEWEST_ROOFLINE_READINGS or time.monotonic() < end
            ):
                answers.append(self.worker.ask("roofline", working_set_bytes=size))
            return tuple(max(a[key] for a in answers) for key in ("read_bytes_per_s", "operations_per_s"))

        return self.guarded(work, "roofline")

    def measure(self, case, prompts):
        """(tokens, seconds, generated ids) of the case run once."""
        if case.kind == "prefill":
            answer = self.worker.ask("prefill", ids=prompts)
            return case.context * case.batch, answer["seconds"], [[i] for i in answer["next"]]
        answer = self.worker.ask("decode", ids=prompts, new_tokens=case.new_tokens)
        return case.new_tokens * case.batch, answer["seconds"], answer["ids"]

    def warm_up(self, case, prompts):
        """Once in vain (compilation, first touches), once to see how often it fits a turn; then the threads that
        computed get a processor each. Gives the case's ids."""

        def work():
            worker = self.worker
            if not self.pins_itself:
                worker.allow_all()
            self.measure(case, prompts)
            before, begin = worker.thread_times(), time.monotonic()
            ids = self.measure(case, prompts)[2]
            seconds = time.monotonic() - begin
            self.pin(before)
            turn_s = self.options.turn_seconds
            self.repeats[case.name] = min(MOST_REPEATS, max(1, math.ceil(turn_s / max(seconds, 1e-3))))
            return ids

        return self.guarded(work, case.name)

    def pin(self, before):
        """Its computing threads, by their time since `before`."""
        if not self.pins_itself:
            self.worker.pin(self.worker.busiest(before, self.setting.threads))
        self.needs_pin = False

    def turn(self, case, prompts):
        """Tokens per second, the median of a turn's runs; None where it failed."""

        def work():
            before = self.worker.thread_times()
            self.measure(case, prompts)  # processors have slept
            if self.needs_pin:
                self.pin(before)
            before = self.worker.thread_times()
            runs = [self.measure(case, prompts) for _ in range(self.repeats.get(case.name, 1))]
            if self.kind.environment != "openvino":  # which has undone it by now
                self.is_pinned = self.worker.are_pinned(self.worker.busiest(before, self.setting.threads))
            return statistics.median(run[0] / run[1] for run in runs)

        return self.guarded(work, case.name)

    def memory(self):
        return self.worker.memory() if self.worker is not None else {}
