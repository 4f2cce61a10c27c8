"""llama.cpp through its own benches: a process for each turn, which loads, warms up and measures."""

import array
import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path

from workers import WorkerError

CHECKED_TOKENS = 128


class Llama:
    """Takes the place of a Worker, but answers whole cases."""

    def __init__(self, home, model, threads, cpus):
        self.bin, self.model, self.threads, self.cpus = home / "build" / "bin", model, threads, cpus
        compiler = home / "compiler.txt"
        self.label = "llama.cpp" + (f" ({compiler.read_text().strip()})" if compiler.exists() else "")

    def run(self, program, *arguments):
        command = [self.bin / program, "-m", self.model, "-t", self.threads, *arguments]
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=1800,
            preexec_fn=lambda: os.sched_setaffinity(0, self.cpus),
        )
        if done.returncode != 0:
            last_words = " ".join(done.stderr.split())[-300:]
            raise WorkerError(f"{program} ended with {done.returncode}: {last_words}")
        return done.stdout

    def tokens_per_s(self, case):
        if case.kind == "decode" and case.batch > 1:
            length = case.context + case.new_tokens
            lines = self.run(
                "llama-batched-bench", "-npp", case.context, "-ntg", case.new_tokens, "-npl", case.batch,
                "-c", length * case.batch, "--output-format", "jsonl",
            )  # fmt: skip
            rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
            return rows[-1]["speed_tg"]
        if case.kind == "decode":
            what = ["-p", 0, "-n", case.new_tokens, "-d", case.context]
        else:
            what = ["-p", case.context, "-n", 0]
        return json.loads(self.run("llama-bench", *what, "-r", 1, "-o", "json"))[-1]["avg_ts"]

    def weight_bytes(self):
        """Of all tensors in the file, as its bench states them after one token."""
        return json.loads(self.run("llama-bench", "-p", 0, "-n", 1, "-r", 1, "-o", "json"))[-1]["model_size"]

    def checked_logits(self):
        """(ids, log-probabilities after the last of them), as llama-perplexity writes them: 16 bits each."""
        with tempfile.TemporaryDirectory() as folder:
            text, out = Path(folder) / "text", Path(folder) / "logits"
            text.write_text("Nobody reads this line; it is cut into bytes. " * (CHECKED_TOKENS // 8))
            size = str(CHECKED_TOKENS)
            self.run("llama-perplexity", "-f", text, "-c", size, "--chunks", "1", "--kl-divergence-base", out)
            return read_log_probabilities(out.read_bytes())

    def close(self):
        pass


def read_log_probabilities(data):
    context, vocab, chunks = struct.unpack_from("<Iii", data, 8)
    ids = struct.unpack_from(f"<{context}i", data, 20)
    rows = context - 1 - context // 2  # after tokens context / 2, ..., context - 2
    row_bytes = 2 * (2 * ((vocab + 1) // 2) + 4)
    at = 20 + 4 * context * chunks + (rows - 1) * row_bytes
    scale, lowest = struct.unpack_from("<ff", data, at)
    steps = array.array("H", data[at + 8 : at + 8 + 2 * vocab])
    return list(ids[: context - 1]), [lowest + scale * step for step in steps]
