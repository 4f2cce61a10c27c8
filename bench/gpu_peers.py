#!/usr/bin/env python3
"""Times other programs beside Assay on one GPU, in turns, within four minutes.

usage: bench/gpu_peers.py [--program build/cuda/assay] [--device cuda:0] [--out FOLDER] [--shapes 124m,llama-1b,llama-8b]
                          [--python PYTHON] [--llama-cpp FOLDER] [--seconds 240]

Decoding in batches of 1, 8 and 64 behind prompts of 8 tokens, and prefill of 512 and 4,096 tokens where the context allows,
in tokens/s. All programs of a shape are loaded before the first is timed; then rounds follow, in which each is timed once.
  Assay             bfloat16, int8-dynamic with an int8 LM head, nf4
  PyTorch           torch.compile with a static cache, the step as a CUDA graph; prefill is not compiled
  bitsandbytes      nf4 and int8 by Transformers, the step as a CUDA graph where it can be captured
  llama.cpp         llama-batched-bench of --llama-cpp (a folder that has it, or its build folder) on GGUF files that Assay
                    writes: BF16, Q8_0, Q4_0. A process of its own in every round, which loads the file again
PyTorch needs a --python with torch, Transformers and, for its part, bitsandbytes. A line of JSON for each goes to
FOLDER/peers.jsonl: medians and every round; what was skipped, and why. With --device cpu it checks itself.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from gpu_check import print_table, roomy_folder
from gpu_check_base import Limit, Report, Worker, last_line, median, root, run, shapes_of
from gpu_check_times import make_models

BATCHES, PREFILLS, STEPS, ROUNDS = (1, 8, 64), (512, 4096), 64, 5
OURS = {"bfloat16": ("bfloat16", {}), "int8-dynamic": ("int8-dynamic", {"quantize_head": "int8"}), "nf4": ("nf4", {})}
TORCH_KINDS = ("compiled", "bitsandbytes-nf4", "bitsandbytes-int8")
GGUF_RECIPES = ("BF16", "Q8_0", "Q4_0")


class Assay:
    def __init__(self, options, model, precision, config):
        self.worker = Worker(options, model, precision, **config)
        self.label, self.vocab = self.worker.facts["label"], self.worker.facts["vocab"]

    def ids(self, length):
        numbers = random.Random(1)
        return [numbers.randrange(5, self.vocab) for _ in range(length)]

    def decode(self, batch, round_number):
        ids = self.ids(8 * batch)
        prompts = [ids[8 * i : 8 * i + 8] for i in range(batch)]
        return self.worker.ask(op="decode", ids=prompts, new_tokens=STEPS)["seconds"]

    def prefill(self, length, round_number):
        return self.worker.ask(op="prefill", ids=[self.ids(length)])["seconds"]

    def end(self):
        self.worker.end()


class Torch:
    started = []  # all of them

    def __init__(self, options, model, kind):
        self.log = tempfile.TemporaryFile("w+")
        batches = ",".join(map(str, BATCHES))
        self.process = subprocess.Popen(
            [options.python, root / "bench/gpu_peer_torch.py", model, kind, options.device, batches],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True,
        )  # fmt: skip
        Torch.started.append(self)
        self.label = self.answer()["label"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise RuntimeError(last_line(self.log.read()))
        answer = json.loads(line)
        if not answer["ok"]:
            raise RuntimeError(answer["error"])
        return answer

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()["seconds"]

    def decode(self, batch, round_number):
        return self.ask(batch=batch, steps=STEPS)

    def prefill(self, length, round_number):
        return self.ask(prefill=length)

    def end(self):
        """With the processes that compile for it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class LlamaCpp:
    """One process a round; its answers serve all batches of that round."""

    def __init__(self, options, limit, model, recipe, folder):
        found = [f for f in (options.llama_cpp / p for p in ("", "bin", "build/bin")) if (f / "llama-batched-bench").exists()]
        if not found:
            raise RuntimeError(f"{options.llama_cpp}: no llama-batched-bench was found there, in bin or in build/bin")
        self.file = folder / f"{pathlib.Path(model).name}-{recipe}.gguf"
        code, said = run([options.program, "quantize", model, self.file, "--recipe", recipe, "--quiet"], limit.left())
        if code != 0:
            raise RuntimeError(last_line(said))
        layers = "0" if options.device == "cpu" else "99"
        self.limit, self.label, self.rounds = limit, f"llama.cpp {recipe}", {}
        self.command = [found[0] / "llama-batched-bench", "-m", self.file, "-ngl", layers, "-fa", "on", "-c",
                        max(max(PREFILLS) + STEPS, max(BATCHES) * 256), "-ntg", STEPS, "--output-format", "jsonl"]  # fmt: skip

    def lines(self, round_number, prompt, batches):
        if (round_number, prompt) not in self.rounds:
            code, said = run([*self.command, "-npp", prompt, "-npl", ",".join(map(str, batches))], self.limit.left())
            rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")] if code == 0 else []
            if not rows:
                raise RuntimeError(last_line(said))
            self.rounds[round_number, prompt] = {row["pl"]: row for row in rows}
        return self.rounds[round_number, prompt]

    def decode(self, batch, round_number):
        return self.lines(round_number, 8, BATCHES)[batch]["t_tg"]

    def prefill(self, length, round_number):
        return self.lines(round_number, length, [1])[1]["t_pp"]

    def end(self):
        self.file.unlink(missing_ok=True)


def makers(options, limit, model, folder):
    """Name -> what loads it."""
    made = {f"assay {name}": (Assay, options, model, *what) for name, what in OURS.items()}
    path = root / "models/demo" if model == pathlib.Path("demo") else model
    made |= {f"torch {kind}": (Torch, options, path, kind) for kind in TORCH_KINDS}
    if options.llama_cpp:
        made |= {f"llama.cpp {recipe}": (LlamaCpp, options, limit, model, recipe, folder) for recipe in GGUF_RECIPES}
    return made


def measure(report, limit, shape, participants, context):
    """Rounds over all requests: each participant once, in an order that turns."""
    requests = [("decode", batch, STEPS * batch) for batch in BATCHES]
    requests += [("prefill", length, length) for length in PREFILLS if length <= context]
    speeds = {name: {} for name in participants}
    for number in range(ROUNDS + 1):  # the first warms up
        for what, size, tokens in requests:
            names = [n for n in participants if participants[n] is not None]
            for name in names[number % len(names) :] + names[: number % len(names)] if names else ():
                if limit.is_over():
                    break
                try:
                    seconds = getattr(participants[name], what)(size, number)
                except (RuntimeError, OSError, KeyError) as error:
                    if limit.is_over():
                        break
                    report.add(f"{shape} {name}", None, error=f"{what} {size}: {error}")
                    participants[name].end()
                    participants[name] = None
                    continue
                key = f"{'decode b' if what == 'decode' else 'prefill '}{size}, tokens/s"
                if number > 0:
                    speeds[name].setdefault(key, []).append(round(tokens / seconds, 1))
    for name, found in speeds.items():
        label = participants[name].label if participants[name] else name
        if not found:
            if participants[name]:
                report.skip(f"{shape} {name}", "no time was left")
            continue
        report.add(f"{shape} {name}", None, label=label, **{key: median(values) for key, values in found.items()})
        report.add(f"{shape} {name}, rounds", None, **{key: " ".join(map(str, values)) for key, values in found.items()})


def compare(options, report, whole):
    shapes = dict(shapes_of(options))
    with tempfile.TemporaryDirectory(dir=roomy_folder()) as folder, ThreadPoolExecutor(64) as pool:
        loading = {
            shape: {name: pool.submit(maker, *what) for name, (maker, *what) in makers(options, whole, model, pathlib.Path(folder)).items()}
            for shape, model in shapes.items()
        }  # fmt: skip
        loaded = {}
        for shape, each in loading.items():  # nothing is timed while anything loads or compiles
            for name, one in each.items():
                try:
                    loaded[shape, name] = one.result(timeout=whole.left())
                except Exception as error:  # whatever a peer lacks is a line of the report
                    report.skip(f"{shape} {name}", str(error) or "it was not ready in time")
        try:
            for i, (shape, model) in enumerate(shapes.items()):
                limit = Limit(whole.left() / (len(shapes) - i))
                participants = {name: one for (of, name), one in loaded.items() if of == shape}
                config = root / "models/demo/config.json" if shape == "demo" else model / "config.json"
                config = json.loads(config.read_text())
                measure(report, limit, shape, participants, config.get("max_position_embeddings") or config["n_positions"])
                for one in participants.values():
                    if one is not None:
                        one.end()
        finally:
            for one in loaded.values():
                one.end()
            for one in Torch.started:  # what still compiles is not waited for
                one.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=root / "build/cuda/assay", help="[%(default)s]")
    parser.add_argument("--device", default="cuda:0", help="[%(default)s]")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/gpu_check"), help="[%(default)s]")
    parser.add_argument("--shapes", help="sizes of tools/make_random_model.py, folders, or demo [124m,llama-1b,llama-8b; of a CPU demo]")
    parser.add_argument("--python", default=sys.executable, help="with torch and Transformers [the one that runs this]")
    parser.add_argument("--llama-cpp", type=pathlib.Path, help="folder of llama.cpp's programs [llama.cpp is left out]")
    parser.add_argument("--seconds", type=float, default=240, help="[%(default)s]")
    options = parser.parse_args()
    options.shapes = options.shapes or ("demo" if options.device == "cpu" else "124m,llama-1b,llama-8b")
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "peers.jsonl"
    file.write_text("")
    report, whole = Report(file, "peers"), Limit(options.seconds)
    if not options.llama_cpp:
        report.skip("llama.cpp", "no --llama-cpp was given")
    with tempfile.TemporaryDirectory(dir=roomy_folder()) as models:
        options.models = pathlib.Path(models)
        make_models(options, report, whole)
        compare(options, report, whole)
    return 1 if print_table(file) else 0


if __name__ == "__main__":
    sys.exit(main())
