#!/usr/bin/env python3
"""Perplexity of a text by the fixed-length guide of Transformers: the reference for `assay perplexity`.

The protocol, exactly
---------------------
The whole text is tokenised at once with no special tokens added: n tokens x[0..n-1], n >= 2.
Let C be the context and S the stride, 1 <= S <= C. Window k covers x[begin..end-1], with

    begin = k * S,  end = min(begin + C, n),  targets = end - prev_end  (prev_end = 0 for k = 0)

and the last window is the first one with end == n, so there are

    W = 1 + ceil(max(0, n - C) / S)  windows.

The last `targets` tokens of a window keep their labels, the others only give context. The model shifts
labels by one inside the window, so a target is scored if and only if it is not the first token of its
window. Hence, per window:

    k = 0            x[1..end-1]         end - 1 tokens   x[0] has no context and is never scored
    k > 0, S < C     x[prev_end..end-1]  targets tokens   the context is in the window, all are scored
    k > 0, S == C    x[begin+1..end-1]   targets - 1      nothing overlaps: x[begin] is not scored

Each token is scored at most once:

    tokens_scored = n - 1  if S < C,   n - W  if S == C.

The guide does not average over these tokens. It weighs the mean loss of each window by its label count
less one (`num_loss_tokens`: it takes the shift to cost a label in every window, which is so only where
the labels fill the window):

    loss = sum_k (targets_k - 1) * mean_k / sum_k (targets_k - 1),   sum_k (targets_k - 1) = n - W

That is `loss` here, and `perplexity` is its exponential. `token_loss` and `token_perplexity` are the plain
mean over the scored tokens. The two are equal when S == C or W == 1, and otherwise differ in about the
fourth decimal on short texts. A window with one target has weight 0 and is left out of `loss`; where S == C
it scores nothing, and the guide's own code would give 0 * nan.

Arithmetic: weights and activations in float32, log_softmax in float32, sums in float64.
"""

import argparse
import json
import math
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2LMHeadModel
from transformers.utils import logging

PROTOCOL = "transformers-guide"


def windows(n, context, stride):
    """Yields (begin, end, first): tokens begin..end-1 are run, tokens first..end-1 are its targets."""
    prev_end = 0
    for begin in range(0, n, stride):
        end = min(begin + context, n)
        yield begin, end, prev_end
        prev_end = end
        if end == n:
            return


def token_losses(model, ids, begin, end, first):
    """Negative log-likelihoods (float64) of the scored tokens among first..end-1, seen from `begin`."""
    first = max(first, begin + 1)
    if first >= end:
        return torch.empty(0, dtype=torch.float64)
    with torch.no_grad():
        logits = model(input_ids=ids[None, begin:end], use_cache=False).logits[0]
    # Row i predicts token i + 1, hence the rows one before the scored tokens.
    rows = torch.log_softmax(logits[first - 1 - begin : end - 1 - begin].float(), dim=-1)
    return -rows.gather(1, ids[first:end, None])[:, 0].double()


def score(model, ids, context, stride):
    """The protocol above on a tensor of token ids."""
    n = len(ids)
    if n < 2:
        raise SystemExit("perplexity needs at least 2 tokens")
    if not 1 <= stride <= context:
        raise SystemExit("the stride must lie between 1 and the context")
    guide_sum, guide_weight, token_sum, tokens_scored, count = 0.0, 0, 0.0, 0, 0
    for begin, end, first in windows(n, context, stride):
        losses = token_losses(model, ids, begin, end, first)
        weight = end - first - 1
        count += 1
        token_sum += losses.sum().item()
        tokens_scored += len(losses)
        if weight > 0:
            guide_sum += weight * losses.mean().item()
            guide_weight += weight
    assert count == 1 + math.ceil(max(0, n - context) / stride)
    assert tokens_scored == (n - 1 if stride < context else n - count)
    assert guide_weight == n - count
    if guide_weight == 0:
        raise SystemExit("every window is one token long: nothing to score")
    loss, token_loss = guide_sum / guide_weight, token_sum / tokens_scored
    return {
        "loss": loss,
        "perplexity": math.exp(loss),
        "token_loss": token_loss,
        "token_perplexity": math.exp(token_loss),
        "tokens": n,
        "tokens_scored": tokens_scored,
        "windows": count,
        "protocol": {"name": PROTOCOL, "context": context, "stride": stride},
    }


def load_model(folder):
    logging.disable_progress_bar()
    return GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def load_tokenizer(folder):
    """tokenizer.json when there is one, else GPT-2's byte-level BPE from vocab.json and merges.txt."""
    folder = Path(folder)
    if (folder / "tokenizer.json").exists():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
    return tokenizer


def encode(tokenizer, path):
    # Bytes, then UTF-8: read_text() would turn CR LF into LF.
    text = Path(path).read_bytes().decode("utf-8")
    return torch.tensor(tokenizer.encode(text, add_special_tokens=False).ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="Hugging Face GPT-2 folder with its tokenizer")
    parser.add_argument("file", metavar="FILE", help="UTF-8 text")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--stride", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = load_model(args.model)
    if args.context > model.config.n_positions:
        parser.error(f"the model has {model.config.n_positions} positions")
    ids = encode(load_tokenizer(args.model), args.file)
    print(json.dumps(score(model, ids, args.context, args.stride), indent=2))


if __name__ == "__main__":
    main()
