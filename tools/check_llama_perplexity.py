#!/usr/bin/env python3
"""Does llama.cpp's perplexity tool print what `assay perplexity --protocol llama.cpp` and `assay diverge` do?

    # in the sources of the sdist of llama-cpp-python 0.3.36:
    cmake -S vendor/llama.cpp -B build -DLLAMA_CURL=OFF -DBUILD_SHARED_LIBS=OFF && cmake --build build -t llama-perplexity
    tools/check_llama_perplexity.py build/bin/llama-perplexity TEXT FILE.gguf... [--context 512,128]
    tools/check_llama_perplexity.py build/bin/llama-perplexity TEXT BASE.gguf CANDIDATE.gguf --divergence

The tool runs in float32 where it can: no flash attention, and keys and values in float32. Its kernels round the
activations beside quantized weights to 8 bits and those beside F16 weights to float16, so F32 files are equal to its four
decimals, and others come close: `--activations int8` is Assay's form of the first. Exit code 1 where a perplexity or its
error differs by more than 5e-4 (--tolerance). Special tokens that a text spells are text to both.

`--divergence` writes the tool's file of log-probabilities from BASE and compares the statistics it prints for CANDIDATE.
The tool scores the second half of each window; `assay diverge` scores all of it, so its sums over the first half, which
do not depend on what follows, are measured too and subtracted. The ids are those in the tool's file. That file rounds
log-probabilities to 16 bits within 16 nats of the largest, which costs a few 1e-5 of the KL.
"""

import argparse
import json
import math
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

FORMS = ([], ["--activations", "int8"])  # the second of quantized weights alone
ROOT = pathlib.Path(__file__).resolve().parent.parent


def run_tool(args, wanted, model, *more):
    """What it prints, which must hold `wanted`: its logging thread loses the end where main.cpp does not call
    common_log_flush(common_log_main()) behind llama_perplexity()."""
    command = [args.tool, "-m", model, "-t", str(args.threads), "-ctk", "f32", "-ctv", "f32", "-fa", "off", *more]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode == 0 and re.search(wanted, done.stdout + done.stderr):
        return done.stdout + done.stderr
    raise SystemExit(f"{' '.join(command)}: expected '{wanted}', found exit code {done.returncode} and\n"
                     f"{(done.stdout + done.stderr)[-2000:]}")  # fmt: skip


def run_assay(args, *words):
    command = [args.assay, *words, "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    if "activations: it applies to" in done.stderr:
        return None  # nothing in it is quantized
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def compare_perplexity(args, model, context):
    """Whether they are equal; where activations are rounded alike, that decides."""
    final = r"Final estimate: PPL = ([\d.]+) \+/- ([\d.]+)"
    printed = run_tool(args, final, model, "-f", args.text, "-c", context, "-b", str(max(int(context), 512)))
    theirs, error = map(float, re.search(final, printed).groups())
    is_equal = False
    for more in FORMS:
        own = run_assay(args, "perplexity", model, args.text, "--protocol", "llama.cpp", "--context", context, *more)
        if own is None:
            continue
        value, own_error = own["perplexity"], own["independent_standard_error"]
        # The tool prints five decimals of its error.
        is_equal = abs(value / theirs - 1) <= args.tolerance and abs(own_error / error - 1) <= args.tolerance + 5e-6 / error
        print(f"{pathlib.Path(model).name} c={context} {' '.join(more)}: llama.cpp {theirs:.4f} ± {error:.5f}, assay "
              f"{value:.4f} ± {own_error:.5f}, apart {value / theirs - 1:+.1e}, {own['tokens_scored']} tokens"
              f"{'' if is_equal else ' DIFFERS'}", flush=True)  # fmt: skip
    return is_equal


def compare_perplexities(args):
    return all([compare_perplexity(args, model, context) for model in args.models for context in args.context.split(",")])


def read_chunks(path):
    """Context and chunks of ids of the tool's file of log-probabilities."""
    with open(path, "rb") as file:
        if file.read(8) != b"_logits_":
            raise SystemExit(f"{path}: expected the tool's file of log-probabilities")
        context, _, count = struct.unpack("<3i", file.read(12))
        ids = struct.unpack(f"<{context * count}i", file.read(4 * context * count))
    return context, [list(ids[i * context : (i + 1) * context]) for i in range(count)]


def bos_of(args, model):
    """A list of the token that stands before a text, or an empty one."""
    return [token["id"] for token in run_assay(args, "tokenize", model, "--text", "a")["added"]["before"]]


def divergence_of(args, folder, chunks, more):
    """Sums over every scored token of the chunks."""
    (folder / "ids.txt").write_text(" ".join(str(token) for chunk in chunks for token in chunk))
    length = str(len(chunks[0]))
    answer = run_assay(args, "diverge", args.models[0], args.models[1], "--text", str(folder / "ids.txt"), "--ids",
                       "--context", length, "--stride", length, "--no-noise-floor", *more)  # fmt: skip
    if answer is None:
        return None
    candidate = answer["candidates"][0]
    scored = answer["tokens_scored"]
    # The windows after the first begin inside the text: their first token has nothing before it and is not scored.
    if scored != len(chunks) * (len(chunks[0]) - 1):
        raise SystemExit(f"expected {len(chunks) * (len(chunks[0]) - 1)} scored tokens, found {scored}")
    value = lambda key: candidate[key]["value"]
    return {"scored": scored, "kl": value("kl_mean") * scored, "top": value("top1_agreement") * scored,
            "squares": value("delta_p_rms") ** 2 * scored, "p": value("delta_p_mean") * scored,
            "ratio": value("log_perplexity_ratio") * scored}  # fmt: skip


def compare_divergence(args):
    context = args.context.split(",")[0]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        file = str(folder / "base.dat")
        size = ["-c", context, "-b", str(max(int(context), 512))]
        run_tool(args, r"Final estimate", args.models[0], "-f", args.text, *size, "--kl-divergence-base", file)
        printed = run_tool(args, r"Same top p: ", args.models[1], *size, "--kl-divergence-base", file, "--kl-divergence")
        length, chunks = read_chunks(file)
        bos = bos_of(args, args.models[0])
        chunks = [bos + chunk[len(bos) :] for chunk in chunks]  # BOS replaces a token
        for more in FORMS:
            whole = divergence_of(args, folder, chunks, more)
            if whole is None:
                continue
            first = divergence_of(args, folder, [chunk[: length // 2 + 1] for chunk in chunks], more)
            sums = {key: whole[key] - first[key] for key in whole}
            n = sums["scored"]
            own = {"Mean    KLD": sums["kl"] / n, "Mean ln(PPL(Q)/PPL(base))": sums["ratio"] / n,
                   "RMS Δp": 100 * math.sqrt(sums["squares"] / n), "Mean    Δp": 100 * sums["p"] / n,
                   "Same top p": 100 * sums["top"] / n}  # fmt: skip
            print(f"{pathlib.Path(args.models[1]).name} against {pathlib.Path(args.models[0]).name}, c={length}, "
                  f"{n} tokens {' '.join(more)}")  # fmt: skip
            for key, value in own.items():
                found = re.search(re.escape(key) + r"\s*:\s*(-?[\d.]+) ±\s*([\d.]+)", printed)
                print(f"  {key}: llama.cpp {found[1]} ± {found[2]}, assay {value:.6f}")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", help="llama-perplexity")
    parser.add_argument("text")
    parser.add_argument("models", nargs="+", help="GGUF files")
    parser.add_argument("--context", default="512")
    parser.add_argument("--tolerance", type=float, default=5e-4)
    parser.add_argument("--divergence", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--assay", default=str(ROOT / "build/release/assay"))
    args = parser.parse_args()
    if args.divergence and len(args.models) != 2:
        parser.error("--divergence: expected a baseline and a candidate")
    return 0 if (compare_divergence if args.divergence else compare_perplexities)(args) else 1


if __name__ == "__main__":
    sys.exit(main())
