"""What the stages of gpu_check.py and gpu_peers.py share: lines of a report, time that is left, Assay's worker, energy."""
import ctypes
import json
import pathlib
import subprocess
import time

root = pathlib.Path(__file__).resolve().parent.parent


class Report:
    """Lines of JSON, each written when its check is made."""

    def __init__(self, file, stage):
        self.file, self.stage = open(file, "a"), stage

    def add(self, what, passed, **facts):
        self.file.write(json.dumps({"stage": self.stage, "what": what, "passed": passed, **facts}) + "\n")
        self.file.flush()

    def skip(self, what, why):
        self.add(what, None, skipped=why)


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


def median(values):
    return sorted(values)[len(values) // 2]


class Worker:
    """`assay worker` with a model."""

    def __init__(self, options, model, precision, **config):
        self.process = subprocess.Popen([options.program, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        device = {} if options.device == "cpu" else {"device": options.device}
        try:
            self.facts = self.ask(op="load", model=str(model), precision=precision, **device, **config)
        except RuntimeError:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait()

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"ok": false, "error": "the worker died"}')
        if not answer.get("ok"):
            raise RuntimeError(answer.get("error", "no reason was given"))
        return answer


class Energy:
    """The energy counter of the first GPU (NVML), which is refreshed every 20 to 100 ms: windows of 2 s and more."""

    SHORTEST = 2.2

    def __init__(self, device):
        self.why_not, self.handle = None, ctypes.c_void_p()
        if device == "cpu":
            self.why_not = "there is no GPU"
            return
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            failed = self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(
                int(device.partition(":")[2] or 0), ctypes.byref(self.handle)
            )
            self.why_not = f"NVML failed with {failed}" if failed else None
        except (OSError, AttributeError, ValueError) as error:
            self.why_not = str(error)

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        if self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle, ctypes.byref(millijoules)):
            raise RuntimeError("the driver does not tell the GPU's energy")
        return millijoules.value / 1e3

    def per_token(self, decode):
        """J/token of decode(), which returns how many tokens it made, repeated for the shortest window."""
        begin, before, tokens = time.monotonic(), self.joules(), 0
        while time.monotonic() - begin < self.SHORTEST:
            tokens += decode()
        return (self.joules() - before) / tokens


def shapes_of(options):
    """Names and folders of the models that there are."""
    for shape in options.shapes.split(","):
        folder = pathlib.Path(shape) if pathlib.Path(shape).is_dir() or shape == "demo" else options.models / shape
        if shape == "demo" or (folder / "config.json").exists():
            yield shape, folder
