#!/usr/bin/env python3
"""What a pass of `assay diverge` costs, beside the passes that its models would take alone.

Prints two figures of a model: the seconds of a pass over the sum of those of `assay perplexity` on the same text
for the baseline and each candidate, and the share of prefill's FLOP rate that the pass reaches with the LM head
of every token: the seconds of prefilling its windows, as `assay bench` measures them, and of the LM head of the
tokens scored at the same FLOP rate, over those of the pass. Rounds alternate, and medians count. Needs an idle
machine.

    bench/divergence_cost.py demo --text long.txt --windows 14 --candidates nf4,fp4,int8-dynamic,llm-int8,bfloat16
"""

import argparse
import json
import statistics
import subprocess

BASELINE = "float32"


def answer(program, *words):
    done = subprocess.run([program, *words, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def head_flops(program, model):
    """FLOPs of the LM head of a token."""
    spec = answer(program, "inspect", model)["spec"]
    return 2 * spec["vocab"] * spec["hidden"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--program", default="build/release/assay")
    parser.add_argument("--candidates", default="nf4,fp4,int8-dynamic,llm-int8,bfloat16")
    parser.add_argument("--text", default="models/demo/texts/evaluate.txt")
    parser.add_argument("--windows", type=int, default=4, help="of the text, from its beginning")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    configurations = [BASELINE, *args.candidates.split(",")]
    windows = ["--context", str(args.context), "--stride", str(args.context),
               "--max-tokens", str(args.windows * args.context)]
    passes, tokens, scored = [], 0, 0
    alone, rates, prefill = ({c: [] for c in configurations} for _ in range(3))
    for _ in range(args.rounds):
        found = answer(args.program, "diverge", args.model, *configurations[1:], "--precision", BASELINE,
                       "--text", args.text, "--no-noise-floor", "--worst", "0", *windows)
        passes.append(found["seconds"])
        tokens, scored = found["tokens"], found["tokens_scored"]
        for c in configurations:
            alone[c].append(answer(args.program, "perplexity", args.model, args.text, "--precision", c,
                                   *windows)["seconds"])
            row = answer(args.program, "bench", args.model, "-p", str(args.context), "-n", "0", "-r", "2",
                         "--precision", c)["rows"][0]
            rates[c].append(row["achieved_gflops"] * 1e9)
            prefill[c].append(row["median_s"])
    head = head_flops(args.program, args.model)
    seconds = statistics.median(passes)
    sum_alone = sum(statistics.median(v) for v in alone.values())
    whole = tokens // args.context
    at_prefill = sum(whole * statistics.median(prefill[c]) + (scored - whole) * head / statistics.median(rates[c])
                     for c in configurations)
    print(json.dumps({"model": args.model, "configurations": configurations, "tokens": tokens, "pass_s": seconds,
                      "alone_s": sum_alone, "pass_over_alone": seconds / sum_alone,
                      "share_of_prefill_rate": at_prefill / seconds,
                      "prefill_s": {c: statistics.median(v) for c, v in prefill.items()},
                      "head_row_s": {c: head / statistics.median(v) for c, v in rates.items()}}, indent=1))


if __name__ == "__main__":
    main()
