"""Assay and its peers: how each is started, loaded and given a turn."""

import dataclasses
import math
import sys
import time

import models
from llama import Llama
from protocol import ISA_VARIABLES
from workers import HERE, Worker, WorkerError

TURN_S = 0.5  # a turn repeats a short case until it has taken about this long
MOST_REPEATS = 50


@dataclasses.dataclass(frozen=True)
class Setting:
    precision: str
    threads: int
    isa: str  # native, avx2 or avx512
    size: str


@dataclasses.dataclass(frozen=True)
class Kind:
    environment: str  # of setup.sh
    precisions: tuple = ("float32", "bfloat16")
    mode: str = ""  # of worker_torch.py
    isa_limit: str = "whole"  # how far it can be held to an instruction set: whole, part or none
    is_ragged: bool = False


KINDS = {
    "assay": Kind("", ("float32", "bfloat16", "bf16x3"), is_ragged=True),
    "torch": Kind("torch", mode="eager"),
    "torch-compile": Kind("torch", mode="compile"),
    "onnxruntime": Kind("onnxruntime", ("float32",), isa_limit="none"),
    "openvino": Kind("openvino", isa_limit="part"),  # oneDNN obeys, its other kernels do not
    "ctranslate2": Kind("ctranslate2", ("float32",)),
    "llama.cpp": Kind("llama.cpp", isa_limit="none"),  # built for the machine at hand
}


class Participant:
    def __init__(self, name, setting, cpus, options):
        self.name, self.setting, self.cpus, self.options = name, setting, cpus, options
        self.kind, self.label, self.failure, self.loaded, self.worker = KINDS[name], name, None, {}, None
        self.has_started = False
        self.repeats = {}  # of a case in a turn, by its name

    def why_not(self):
        """Why it has no row in this setting; empty where it has one."""
        if self.setting.precision not in self.kind.precisions:
            return f"offers no {self.setting.precision}"
        if self.setting.isa != "native" and self.kind.isa_limit == "none":
            return "cannot be limited to an instruction set"
        return ""

    def start(self):
        """A process with the model loaded. Throws WorkerError, OSError or RuntimeError."""
        setting, peers_dir = self.setting, self.options.dir
        if self.name == "llama.cpp":
            model = models.gguf(peers_dir, setting.size, setting.precision)
            self.worker = Llama(peers_dir / "llama.cpp", model, setting.threads, self.cpus)
            self.label, self.has_started = self.worker.label, True
            return
        if self.name == "assay":
            command, model = [self.options.assay, "worker"], models.hugging_face(peers_dir, setting.size)
        else:
            environment = self.kind.environment
            cpus = ",".join(map(str, sorted(self.cpus)))
            command = [models.python_of(peers_dir, environment), HERE / f"worker_{environment}.py"]
            command += ["--threads", setting.threads, "--cpus", cpus]
            command += ["--mode", self.kind.mode] if self.kind.mode else []
            command += ["--isa", setting.isa] if setting.isa != "native" else []
            if environment == "torch":
                model = models.hugging_face(peers_dir, setting.size)
            else:
                model = models.converted(peers_dir, setting.size, environment)
        request = {"model": str(model), "precision": setting.precision, "threads": setting.threads}
        variables = {}
        if setting.isa != "native":
            variables = ISA_VARIABLES[setting.isa]
            if self.name == "assay":
                request["isa"] = setting.isa
        log = models.log_of(peers_dir).with_name(f"worker-{self.name}.log")
        self.worker = Worker(command, self.cpus, log, variables)
        self.loaded = self.worker.ask("load", **request)
        self.has_started = True
        self.label = (
            f"Assay ({self.loaded['kernels']} kernels)" if self.name == "assay" else self.loaded["label"]
        )

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

    def measure(self, case, prompts):
        """(tokens, seconds, generated ids) of the case run once."""
        if case.kind == "prefill":
            answer = self.worker.ask("prefill", ids=prompts)
            return case.context * case.batch, answer["seconds"], [[i] for i in answer["next"]]
        answer = self.worker.ask("decode", ids=prompts, new_tokens=case.new_tokens)
        return case.new_tokens * case.batch, answer["seconds"], answer["ids"]

    def warm_up(self, case, prompts):
        """Once in vain (compilation, first touches), once to see how often it fits a turn. Gives its ids."""

        def work():
            if isinstance(self.worker, Llama):
                return None  # its benches warm up by themselves
            self.measure(case, prompts)
            begin = time.monotonic()
            ids = self.measure(case, prompts)[2]
            seconds = time.monotonic() - begin
            self.repeats[case.name] = min(MOST_REPEATS, max(1, math.ceil(TURN_S / max(seconds, 1e-3))))
            return ids

        return self.guarded(work, case.name)

    def turn(self, case, prompts):
        """Tokens per second, or None where it failed."""
        is_cold = self.worker is None

        def work():
            if isinstance(self.worker, Llama):
                return self.worker.tokens_per_s(case)
            if is_cold:
                self.measure(case, prompts)
            runs = [self.measure(case, prompts) for _ in range(self.repeats.get(case.name, 1))]
            return sum(run[0] for run in runs) / sum(run[1] for run in runs)

        return self.guarded(work, case.name)
