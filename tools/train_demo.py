#!/usr/bin/env python3
"""Trains the demonstration model in models/demo: a byte-level BPE tokenizer and a small GPT-2.

    python tools/train_demo.py --stage init     # tokenizer and a random model, seconds
    python tools/train_demo.py                  # everything: tokenizer, training, evaluation, card

Needs torch >= 2.9 (for torch.optim.Muon), transformers, tokenizers, safetensors and numpy. Reads --data:
novels/*.txt to train on, and heldout/novel.txt to measure on, which is never trained on.
"""
import argparse, copy, json, math, os, pathlib, tempfile, time
from concurrent.futures import ThreadPoolExecutor

# Parallelism comes from worker threads that each take small batches as they get free, not from
# inside the operators: on a shared machine a barrier would wait for the busier core every time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GPT2Config, GPT2LMHeadModel

EOT = "<|endoftext|>"
CONTEXT = 1024
SHAPE = dict(vocab_size=4096, n_embd=256, n_layer=4, n_head=4)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, default, text in [
            ("data", "../shared/data", "folder with novels/ and heldout/"),
            ("out", "models/demo", "model folder to write"),
            ("work", os.path.join(tempfile.gettempdir(), "assay-demo"), "folder for checkpoints"),
            ("passes", 6.0, "passes over the novels"),
            ("deadline-minutes", math.inf, "wall-clock budget; the schedule hurries so that it ends in time"),
            ("batch", 12, "windows of 1024 tokens per step"),
            ("micro", 2, "windows a worker takes at a time"),
            ("short", 0.6, "first share of the run with attention cut to blocks, to save time"),
            ("block", 128, "tokens of such a block"),
            ("lr", 3e-3, "peak learning rate"),
            ("decay", 0.6, "final share of the run over which the learning rate falls to 0"),
            ("save-every", 300, "steps between saves within a pass")]:
        p.add_argument("--" + flag, type=type(default), default=default, help=f"{text} (default: {default})")
    p.add_argument("--stage", choices=["init", "train", "finish", "all"], default="all",
                   help="init: tokenizer and random weights; train; finish: evaluate and write the card")
    p.add_argument("--bfloat16", action="store_true",
                   help="products in bfloat16 by autocast (several times faster where the processor has AMX)")
    p.add_argument("--resume", action="store_true", help="continue from the checkpoint in --work")
    return p.parse_args()


def train_tokenizer(a):
    """GPT-2's kind of tokenizer, smaller. The full byte alphabet makes every text round-trip."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.train([str(f) for f in sorted(pathlib.Path(a.data, "novels").glob("*.txt"))], trainers.BpeTrainer(
        vocab_size=SHAPE["vocab_size"], special_tokens=[EOT], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    os.makedirs(a.out, exist_ok=True)
    tok.save(os.path.join(a.out, "tokenizer.json"))
    pathlib.Path(a.out, "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT, "add_prefix_space": False,
         "clean_up_tokenization_spaces": False, "bos_token": EOT, "eos_token": EOT, "unk_token": EOT},
        indent=2) + "\n")


def new_model(tok):
    torch.manual_seed(1)
    eot = tok.token_to_id(EOT)
    return GPT2LMHeadModel(GPT2Config(
        **SHAPE, n_positions=CONTEXT, n_ctx=CONTEXT, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=eot, eos_token_id=eot, attn_implementation="sdpa"))


def save_model(a, model):
    """Writes float16 weights beside the old files and then renames, so a reader never sees half a file."""
    temp = tempfile.mkdtemp(dir=a.out, prefix=".save-")
    copy.deepcopy(model).half().save_pretrained(temp)
    for name in os.listdir(temp):
        os.chmod(os.path.join(temp, name), 0o644)
        os.replace(os.path.join(temp, name), os.path.join(a.out, name))
    os.rmdir(temp)


def encode_file(tok, path):
    return np.array(tok.encode(pathlib.Path(path).read_text(encoding="utf-8")).ids, dtype=np.int64)


def load_novels(a, tok):
    """Each novel is one document, led by the end-of-text token."""
    files = sorted(pathlib.Path(a.data, "novels").glob("*.txt"))
    return [np.append(tok.token_to_id(EOT), encode_file(tok, f)) for f in files]


def pass_windows(docs, number):
    """The windows of one pass: documents in a fresh order, cut at a fresh offset, then shuffled.
    Depends on the pass number only, so that a resumed run sees the same order."""
    rng = np.random.default_rng([1, number])
    stream = np.concatenate([docs[i] for i in rng.permutation(len(docs))])
    starts = np.arange(rng.integers(CONTEXT), len(stream) - CONTEXT - 1, CONTEXT)
    return stream, rng.permutation(starts)


@torch.no_grad()
def perplexity(model, ids, stride, windows=4):
    """Sliding windows as in the Transformers guide: each token is scored at most once, weighted alike.
    The first token of the text is not scored, nor, without overlap, the first of each window."""
    ids, total, count, done, begin = torch.as_tensor(ids), 0.0, 0, 1, 0
    while done < len(ids):
        batch = []  # full windows run together; the short last one runs alone
        while done < len(ids) and len(batch) < windows:
            end = min(begin + CONTEXT, len(ids))
            if batch and end - begin < CONTEXT:
                break
            batch.append((ids[begin:end], max(1, done - begin)))
            done, begin = end, begin + stride
        logits = model(torch.stack([w for w, _ in batch]), use_cache=False).logits
        for row, (w, first) in zip(logits, batch):
            total += F.cross_entropy(row[first - 1:-1], w[first:], reduction="sum").item()
            count += len(w) - first
    return math.exp(total / count)


def train(a, tok, docs, log):
    model = new_model(tok)
    # Muon for the block matrices; its update is scaled to AdamW's size, so one lr serves both.
    blocks = [p for n, p in model.named_parameters() if ".h." in n and p.ndim == 2]
    others = [p for n, p in model.named_parameters() if ".h." not in n or p.ndim != 2]
    opts = [torch.optim.AdamW(others, lr=a.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
            torch.optim.Muon(blocks, lr=a.lr, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")]
    held = encode_file(tok, pathlib.Path(a.data, "heldout", "novel.txt"))
    steps_per_pass = (sum(map(len, docs)) // CONTEXT - 2) // a.batch
    total_steps, step, elapsed, table = round(steps_per_pass * a.passes), 0, 0.0, []
    checkpoint = pathlib.Path(a.work, "checkpoint.pt")
    if a.resume:
        state = torch.load(checkpoint, weights_only=False)
        model.load_state_dict(state["model"])
        for o, s in zip(opts, state["opts"]):
            o.load_state_dict(s)
        step, elapsed, table = state["step"], state["elapsed"], state["table"]
    log(f"{model.num_parameters():,} parameters, {steps_per_pass} steps a pass")
    params, positions = list(model.parameters()), torch.arange(CONTEXT)[None]

    @torch.compile(dynamic=False)
    def loss_of(x, y, where):
        hidden = model.transformer(x, position_ids=where, use_cache=False).last_hidden_state
        return F.cross_entropy(model.lm_head(hidden).flatten(0, 1), y.flatten())

    def gradients(windows, length):
        # Blocks keep the positions of their window, so every row of the position table is trained.
        x, y = (w.reshape(-1, length) for w in (windows[:, :-1], windows[:, 1:]))
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bfloat16):
            loss = loss_of(x, y, positions.repeat(len(windows), 1).reshape(-1, length))
        return loss.detach(), torch.autograd.grad(loss, params)

    pool, compiled = ThreadPoolExecutor(os.cpu_count()), set()
    began, mean, progress, number, stream = time.time() - elapsed, None, 0.0, None, None
    while progress < 1.0:
        if number != step // steps_per_pass:
            number = step // steps_per_pass
            stream, starts = pass_windows(docs, number)
        at = step % steps_per_pass * a.batch
        x = torch.from_numpy(np.stack([stream[s:s + CONTEXT + 1] for s in starts[at:at + a.batch]]))
        # Warm-up, stable, linear decay to zero; late runs skip ahead so the decay always completes.
        progress = max(progress, step / total_steps, (time.time() - began) / 60 / a.deadline_minutes)
        lr = a.lr * min(1.0, (step + 1) / 100, (1 - progress) / a.decay)
        for g in opts[0].param_groups + opts[1].param_groups:
            g["lr"] = max(lr, 0.0)
        length = a.block if progress < a.short else CONTEXT
        parts = x.split(a.micro)
        if length not in compiled:  # compile in one thread
            compiled.add(length)
            gradients(parts[0], length)
        loss = 0.0
        for part_loss, grads in pool.map(lambda part: gradients(part, length), parts):
            loss += part_loss.item() / len(parts)
            for p, g in zip(params, grads):
                p.grad = g / len(parts) if p.grad is None else p.grad.add_(g, alpha=1 / len(parts))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in opts:
            o.step()
            o.zero_grad(set_to_none=True)
        step += 1
        progress = max(progress, step / total_steps)
        mean = loss if mean is None else 0.95 * mean + 0.05 * loss
        if step % 20 == 0:
            seconds = time.time() - began
            log(f"step {step} pass {step / steps_per_pass:.3f} progress {progress:.4f} loss {mean:.4f} lr {lr:.2e} "
                f"{step * a.batch * CONTEXT / seconds:.0f} tokens/s {seconds / 60:.1f} min")
        whole = step % steps_per_pass == 0 or progress >= 1.0
        if whole:
            ppl, elapsed = perplexity(model, held, CONTEXT), time.time() - began
            table.append({"pass": round(step / steps_per_pass, 2), "loss": mean, "ppl": ppl, "minutes": elapsed / 60})
            log(f"PASS {table[-1]}")
            pathlib.Path(a.work, "table.json").write_text(json.dumps({"rows": table, "step": step} | vars(a)))
        if whole or step % a.save_every == 0:
            save_model(a, model)
            torch.save({"model": model.state_dict(), "opts": [o.state_dict() for o in opts], "step": step,
                        "elapsed": time.time() - began, "table": table}, f"{checkpoint}.new")
            os.replace(f"{checkpoint}.new", checkpoint)


NF4 = [-1.0, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.0910500, 0.0,
       0.0795803, 0.1609302, 0.2461123, 0.3379152, 0.4407098, 0.5626170, 0.7229568, 1.0]


def rounded(model, levels, block=64):
    """A copy with every block matrix rounded to `levels` times the largest magnitude of each block
    of 64 weights that one output reads (Conv1D keeps inputs in rows, hence the transposes)."""
    model, levels = copy.deepcopy(model), torch.tensor(levels)
    for name, p in model.named_parameters():
        if ".h." in name and p.ndim == 2:
            w = p.data.t().reshape(-1, block)
            scale = w.abs().amax(1, keepdim=True).clamp_min(1e-12).half().float()
            q = levels[((w / scale).unsqueeze(-1) - levels).abs().argmin(-1)] * scale
            p.data.copy_(q.reshape(p.shape[1], p.shape[0]).t())
    return model


def finish(a, tok, log):
    """Measures the saved float16 weights (arithmetic in float32) and writes the model card."""
    model = GPT2LMHeadModel.from_pretrained(a.out, dtype=torch.float32)
    variants = {"float16": model, "4 bits, NF4 levels": rounded(model, NF4),
                "4 bits, absmax integers": rounded(model, [i / 7 for i in range(-7, 8)])}
    rows = []
    for text, path in [("the held-out novel", pathlib.Path(a.data, "heldout", "novel.txt")),
                       ("texts/evaluate.txt", pathlib.Path(a.out, "texts", "evaluate.txt"))]:
        ids = encode_file(tok, path)
        for name, m in variants.items():
            p512, p1024 = perplexity(m, ids, 512), perplexity(m, ids, CONTEXT)
            rows.append(f"| {text} | {len(ids):,} | {name} | {p512:.3f} | {p1024:.3f} |")
            log(rows[-1])
    run = json.loads(pathlib.Path(a.work, "table.json").read_text())
    passes = [f"| {r['pass']} | {r['loss']:.3f} | {r['ppl']:.2f} | {r['minutes']:.0f} |" for r in run["rows"]]
    pathlib.Path(a.out, "README.md").write_text(CARD.format(
        params=model.num_parameters(), shape=model.config, rows="\n".join(rows), table="\n".join(passes),
        arithmetic=", with products in bfloat16" if run["bfloat16"] else ", all in float32",
        seen=run["step"] * run["batch"] * CONTEXT / 1e6, done=run["rows"][-1]["pass"], run=run))


CARD = """---
license: apache-2.0
language: en
---
# The demonstration model

A small GPT-2 language model that comes with Assay, so that every command can be tried without a download.
It is a sample to measure, not to rely on: it writes in the manner of 19th-century novels and knows little else.

* Architecture: GPT-2, {params:,} parameters ({shape.n_layer} layers, width {shape.n_embd}, {shape.n_head} heads, context 1024,
  output head tied to the token table), stored in float16 in the Hugging Face layout.
* Tokenizer: byte-level BPE of {shape.vocab_size} tokens with GPT-2's pre-tokenizer, trained on the same novels;
  `<|endoftext|>` is its only special token and every text round-trips.
* Data: 37 public-domain English novels from Project Gutenberg (41 MB), which are not part of this project,
  each led by `<|endoftext|>`; one further novel was kept out to measure on.
* Licence: the weights and the texts in `texts/` are the project's own, Apache-2.0.

## Training

{done:g} passes over the novels ({seen:.1f} million tokens seen): documents in a fresh order each pass, cut into
windows of 1024 tokens at a fresh offset. Muon for the block matrices, AdamW for the rest, peak learning
rate {run[lr]}, {run[batch]} windows a step, linear warm-up over 100 steps and a linear decay to zero over the final
{run[decay]:.0%} of the run{arithmetic}. Attention saw blocks of {run[block]} tokens in the first {run[short]:.0%} of the run
(twice that in the first pass) and the whole window after. Perplexity on the held-out novel after each pass, always in
whole windows (stride 1024), which are new to it while attention sees blocks:

| pass | training loss | held-out perplexity | minutes |
|---:|---:|---:|---:|
{table}

Trained by `tools/train_demo.py --passes {run[passes]:g} --bfloat16` on two cores, stopped and resumed a few times.

## Perplexity

Windows of 1024 tokens, each token scored at most once (the first of a window that overlaps no other is
not), nothing put before the text; float32 arithmetic on the stored weights. The rows with 4 bits round
every block matrix naively, in blocks of 64 weights that share one float16 scale (embeddings and biases
stay as they are): rounding this far visibly costs something.

| text | tokens | weights | perplexity, stride 512 | perplexity, stride 1024 |
|---|---:|---|---:|---:|
{rows}
"""


def main():
    a = arguments()
    os.makedirs(a.work, exist_ok=True)
    log = lambda text: print(time.strftime("%H:%M:%S"), text, flush=True)
    path = pathlib.Path(a.out, "tokenizer.json")
    if a.stage == "init" or not path.exists():
        train_tokenizer(a)
    tok = Tokenizer.from_file(str(path))
    if a.stage == "init":
        save_model(a, new_model(tok))
    if a.stage in ("train", "all"):
        train(a, tok, load_novels(a, tok), log)
    if a.stage in ("finish", "all"):
        finish(a, tok, log)


if __name__ == "__main__":
    main()
