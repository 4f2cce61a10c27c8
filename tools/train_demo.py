#!/usr/bin/env python3
"""Trains the demonstration model in models/demo: a byte-level BPE tokenizer and a small GPT-2.

    python tools/train_demo.py --stage init     # tokenizer and a random model, seconds
    python tools/train_demo.py                  # everything: tokenizer, training, evaluation, card

Needs torch >= 2.9 (for torch.optim.Muon), transformers, tokenizers, safetensors and numpy.
The texts are read from --data (novels/*.txt to train on, heldout/novel.txt to measure on);
nothing under heldout/ is ever trained on.
"""
import argparse, json, math, os, pathlib, shutil, tempfile, time
from concurrent.futures import ThreadPoolExecutor

# Parallelism comes from --workers threads that each take small batches as they get free, not from
# inside the operators: on a shared machine a barrier would wait for the busier core every time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GPT2Config, GPT2LMHeadModel

EOT = "<|endoftext|>"
CONTEXT = 1024


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", default="../shared/data", help="folder with novels/ and heldout/")
    p.add_argument("--out", default="models/demo", help="model folder to write")
    p.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "assay-demo"),
                   help="folder for checkpoints and cached token ids")
    p.add_argument("--stage", choices=["init", "train", "finish", "all"], default="all",
                   help="init: tokenizer and random weights; train; finish: evaluate and write the card")
    p.add_argument("--vocab", type=int, default=4096)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--passes", type=float, default=6, help="passes over the novels")
    p.add_argument("--deadline-minutes", type=float, default=0,
                   help="wall-clock budget; the schedule speeds up so that its decay still ends in time")
    p.add_argument("--batch", type=int, default=12, help="windows of 1024 tokens per step")
    p.add_argument("--micro", type=int, default=2, help="windows a worker takes at a time")
    p.add_argument("--workers", type=int, default=os.cpu_count())
    p.add_argument("--short", type=float, default=0.6,
                   help="first share of the run in which attention is cut to blocks of 256 tokens, to save time")
    p.add_argument("--optimizer", choices=["adamw", "muon"], default="muon")
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--warmup", type=int, default=100, help="steps of linear warm-up")
    p.add_argument("--decay", type=float, default=0.6, help="final share of the run over which lr falls to 0")
    p.add_argument("--max-steps", type=int, default=0, help="stop early without saving (for trials)")
    p.add_argument("--save-every", type=int, default=300, help="steps between saves within a pass")
    p.add_argument("--resume", action="store_true", help="continue from the checkpoint in --work")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def train_tokenizer(a):
    """GPT-2's kind of tokenizer, smaller. The full byte alphabet makes every text round-trip."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=a.vocab, special_tokens=[EOT], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train([str(f) for f in sorted(pathlib.Path(a.data, "novels").glob("*.txt"))], trainer)
    assert tok.get_vocab_size() == a.vocab
    return tok


def save_tokenizer(a, tok):
    os.makedirs(a.out, exist_ok=True)
    tok.save(os.path.join(a.out, "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT,
              "add_prefix_space": False, "clean_up_tokenization_spaces": False,
              "bos_token": EOT, "eos_token": EOT, "unk_token": EOT}
    pathlib.Path(a.out, "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def new_model(a, tok):
    eot = tok.token_to_id(EOT)
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=a.vocab, n_positions=CONTEXT, n_ctx=CONTEXT, n_embd=a.width, n_layer=a.layers,
        n_head=a.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=True,
        bos_token_id=eot, eos_token_id=eot, attn_implementation="sdpa"))


def save_model(a, model):
    """Writes float16 weights beside the old files and then renames, so a reader never sees half a file."""
    half = GPT2LMHeadModel(model.config)
    half.load_state_dict(model.state_dict())
    temp = tempfile.mkdtemp(dir=a.out, prefix=".save-")
    half.half().save_pretrained(temp)
    os.umask(mask := os.umask(0))
    for name in os.listdir(temp):
        os.chmod(os.path.join(temp, name), 0o666 & ~mask)
        os.replace(os.path.join(temp, name), os.path.join(a.out, name))
    shutil.rmtree(temp)


def encode_file(tok, path):
    return np.array(tok.encode(pathlib.Path(path).read_text(encoding="utf-8")).ids, dtype=np.int64)


def load_novels(a, tok):
    """Each novel is one document, led by the end-of-text token."""
    cache = pathlib.Path(a.work, "novels.npz")
    if not cache.exists():
        eot = [tok.token_to_id(EOT)]
        docs = [np.concatenate([eot, encode_file(tok, f)]).astype(np.uint16)
                for f in sorted(pathlib.Path(a.data, "novels").glob("*.txt"))]
        np.savez(cache, *docs)
    with np.load(cache) as z:
        return [z[k] for k in z.files]


def pass_windows(a, docs, number):
    """The windows of one pass: documents in a fresh order, cut at a fresh offset, then shuffled.
    Depends on the seed and the pass number only, so that a resumed run sees the same order."""
    rng = np.random.default_rng([a.seed, number])
    stream = np.concatenate([docs[i] for i in rng.permutation(len(docs))])
    starts = np.arange(rng.integers(CONTEXT), len(stream) - CONTEXT - 1, CONTEXT)
    return stream, rng.permutation(starts)


def make_optimizers(a, model):
    """Muon for the block matrices (its update is scaled to AdamW's size, so one lr serves both)."""
    named = list(model.named_parameters())
    matrices = [p for n, p in named if ".h." in n and p.ndim == 2]
    tables = [p for n, p in named if ".h." not in n and p.ndim == 2]
    vectors = [p for n, p in named if p.ndim != 2]
    groups = [{"params": tables, "weight_decay": 0.0 if a.optimizer == "muon" else 0.1},
              {"params": vectors, "weight_decay": 0.0}]
    if a.optimizer == "adamw":
        groups.append({"params": matrices, "weight_decay": 0.1})
    opts = [torch.optim.AdamW(groups, lr=a.lr, betas=(0.9, 0.95), fused=True)]
    if a.optimizer == "muon":
        opts.append(torch.optim.Muon(matrices, lr=a.lr, weight_decay=0.1, momentum=0.95,
                                     adjust_lr_fn="match_rms_adamw"))
    return opts


@torch.no_grad()
def perplexity(model, ids, stride, windows=4):
    """Sliding windows as in the Transformers guide: each token but the first is scored once."""
    ids, total, count, done, begin = torch.as_tensor(ids), 0.0, 0, 1, 0
    model.eval()
    while done < len(ids):
        batch = []  # full windows run together; the short last one runs alone
        while done < len(ids) and len(batch) < windows:
            end = min(begin + CONTEXT, len(ids))
            if batch and end - begin < CONTEXT:
                break
            batch.append((ids[begin:end], max(1, done - begin)))
            done, begin = end, begin + stride
        x = torch.stack([w for w, _ in batch])
        logits = model(x, use_cache=False).logits
        for row, (w, first) in zip(logits, batch):
            total += F.cross_entropy(row[first - 1:-1].float(), w[first:], reduction="sum").item()
            count += len(w) - first
    model.train()
    return math.exp(total / count)


def train(a, tok, docs, log):
    torch.manual_seed(a.seed)
    model = new_model(a, tok)
    opts = make_optimizers(a, model)
    held = encode_file(tok, pathlib.Path(a.data, "heldout", "novel.txt"))
    tokens = sum(map(len, docs))
    steps_per_pass = tokens // CONTEXT // a.batch
    total_steps = round(steps_per_pass * a.passes)
    step, elapsed, table = 0, 0.0, []
    checkpoint = pathlib.Path(a.work, "checkpoint.pt")
    if a.resume:
        state = torch.load(checkpoint, weights_only=False)
        model.load_state_dict(state["model"])
        for o, s in zip(opts, state["opts"]):
            o.load_state_dict(s)
        step, elapsed, table = state["step"], state["elapsed"], state["table"]
    log(f"{sum(p.numel() for p in model.parameters()):,} parameters, {tokens:,} tokens a pass, "
        f"{steps_per_pass} steps a pass, {total_steps} steps")

    params = list(model.parameters())
    positions = torch.arange(CONTEXT)[None]

    @torch.compile(dynamic=False)
    def loss_of(x, y, where):
        hidden = model.transformer(x, position_ids=where, use_cache=False).last_hidden_state
        return F.cross_entropy(model.lm_head(hidden).flatten(0, 1), y.flatten())

    def gradients(windows, length):
        # Blocks keep the positions of their window, so every row of the position table is trained.
        x, y = (w.reshape(-1, length) for w in (windows[:, :-1], windows[:, 1:]))
        loss = loss_of(x, y, positions.repeat(len(windows), 1).reshape(-1, length))
        return loss.detach(), torch.autograd.grad(loss, params)

    pool, compiled = ThreadPoolExecutor(a.workers), set()
    began, mean, progress, number, stream = time.time() - elapsed, None, 0.0, None, None
    while progress < 1.0:
        if number != step // steps_per_pass:
            number = step // steps_per_pass
            stream, starts = pass_windows(a, docs, number)
        at = step % steps_per_pass * a.batch
        x = torch.from_numpy(np.stack([stream[s:s + CONTEXT + 1] for s in starts[at:at + a.batch]]).astype(np.int64))
        # Warm-up, stable, linear decay to zero; late runs skip ahead so the decay always completes.
        late = (time.time() - began) / 60 / a.deadline_minutes if a.deadline_minutes else 0.0
        progress = max(progress, step / total_steps, late)
        lr = a.lr * min(1.0, (step + 1) / a.warmup, (1 - progress) / a.decay)
        for o in opts:
            for g in o.param_groups:
                g["lr"] = max(lr, 0.0)
        length = 256 if progress < a.short else CONTEXT
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
            s = time.time() - began
            log(f"step {step} pass {step / steps_per_pass:.3f} progress {progress:.4f} loss {mean:.4f} "
                f"lr {lr:.2e} {step * a.batch * CONTEXT / s:.0f} tokens/s {s / 60:.1f} min")
        if a.max_steps and step >= a.max_steps:
            return None
        whole = step % steps_per_pass == 0 or progress >= 1.0
        if whole:
            ppl, elapsed = perplexity(model, held[:100_000], CONTEXT), time.time() - began
            table.append({"pass": round(step / steps_per_pass, 2), "loss": mean, "ppl": ppl, "minutes": elapsed / 60})
            log(f"PASS {table[-1]}")
            pathlib.Path(a.work, "table.json").write_text(json.dumps(
                {"rows": table, "step": step, "tokens": tokens} | vars(a)))
        if whole or step % a.save_every == 0:
            save_model(a, model)
            torch.save({"model": model.state_dict(), "opts": [o.state_dict() for o in opts], "step": step,
                        "elapsed": time.time() - began, "table": table}, checkpoint.with_suffix(".new"))
            os.replace(checkpoint.with_suffix(".new"), checkpoint)


NF4 = [-1.0, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.0910500, 0.0,
       0.0795803, 0.1609302, 0.2461123, 0.3379152, 0.4407098, 0.5626170, 0.7229568, 1.0]


def rounded(model, levels, block=64):
    """A copy with every block matrix rounded to `levels` times the largest magnitude of each block
    of 64 weights that one output reads (Conv1D keeps inputs in rows, hence the transposes)."""
    copy, levels = GPT2LMHeadModel(model.config), torch.tensor(levels)
    copy.load_state_dict(model.state_dict())
    for name, p in copy.named_parameters():
        if ".h." in name and p.ndim == 2:
            w = p.data.t().reshape(-1, block)
            scale = w.abs().amax(1, keepdim=True).clamp_min(1e-12).half().float()
            q = levels[((w / scale).unsqueeze(-1) - levels).abs().argmin(-1)] * scale
            p.data.copy_(q.reshape(p.shape[1], p.shape[0]).t())
    return copy


def finish(a, tok, log):
    """Measures the saved float16 weights (arithmetic in float32) and writes the model card."""
    model = GPT2LMHeadModel.from_pretrained(a.out, dtype=torch.float32)
    held = encode_file(tok, pathlib.Path(a.data, "heldout", "novel.txt"))
    texts = {"the held-out novel": held}
    own = pathlib.Path(a.out, "texts", "evaluate.txt")
    if own.exists():
        texts["texts/evaluate.txt"] = encode_file(tok, own)
    variants = {"float16": model, "4 bits, NF4 levels": rounded(model, NF4),
                "4 bits, absmax integers": rounded(model, [i / 7 for i in range(-7, 8)])}
    rows = ["| text | tokens | weights | perplexity, stride 512 | perplexity, stride 1024 |",
            "|---|---:|---|---:|---:|"]
    for text, ids in texts.items():
        for name, m in variants.items():
            p512, p1024 = perplexity(m, ids, 512), perplexity(m, ids, CONTEXT)
            rows.append(f"| {text} | {len(ids):,} | {name} | {p512:.3f} | {p1024:.3f} |")
            log(rows[-1])
    run = json.loads(pathlib.Path(a.work, "table.json").read_text())
    passes = ["| pass | training loss | held-out perplexity | minutes |", "|---:|---:|---:|---:|"]
    passes += [f"| {r['pass']} | {r['loss']:.3f} | {r['ppl']:.2f} | {r['minutes']:.0f} |" for r in run["rows"]]
    pathlib.Path(a.out, "README.md").write_text(CARD.format(
        params=sum(p.numel() for p in model.parameters()), vocab=model.config.vocab_size,
        layers=model.config.n_layer, width=model.config.n_embd, heads=model.config.n_head,
        rows="\n".join(rows), passes="\n".join(passes), seen=run["step"] * run["batch"] * CONTEXT / 1e6,
        optimizer={"muon": "Muon for the block matrices, AdamW for the rest", "adamw": "AdamW"}[run["optimizer"]],
        lr=run["lr"], batch=run["batch"], done=run["rows"][-1]["pass"], decay=run["decay"], short=run["short"]))


CARD = """---
license: apache-2.0
language: en
pipeline_tag: text-generation
---
# The demonstration model

A small GPT-2 language model that comes with Assay, so that every command can be tried at once and
without a download. It is a sample to measure, not a model to rely on: it writes in the manner of
19th-century novels and knows little else.

* Architecture: GPT-2, {params:,} parameters ({layers} layers, width {width}, {heads} heads, context 1024,
  output head tied to the token table), stored in float16 in the Hugging Face layout.
* Tokenizer: byte-level BPE of {vocab} tokens with GPT-2's pre-tokenizer, trained on the same novels;
  `<|endoftext|>` is its only special token and every text round-trips.
* Data: 37 public-domain English novels from Project Gutenberg (41 MB), each one document led by
  `<|endoftext|>`; one further novel was kept out to measure on. The novels are not part of this project.
* Licence: the weights and the texts in `texts/` are the project's own, Apache-2.0.

## Training

{done} passes over the novels ({seen:.1f} million tokens seen): documents in a fresh order each pass, cut into
windows of 1024 tokens at a fresh offset. {optimizer}, peak learning rate {lr}, {batch} windows a step,
linear warm-up and a linear decay to zero over the final {decay:.0%} of the run, all in
float32. Attention saw blocks of 256 tokens in the first {short:.0%} of the run and the whole window after.
Perplexity on the first 100,000 tokens of the held-out novel after each pass:

{passes}

`tools/train_demo.py` reproduces all of this.

## Perplexity

Windows of 1024 tokens, each token scored once, no token put before the text; float32 arithmetic on the
stored weights. The rows with 4 bits round every block matrix naively, in blocks of 64 weights that
share one float16 scale (embeddings and biases stay as they are): rounding this far visibly costs something.

{rows}
"""


def main():
    a = arguments()
    os.makedirs(a.work, exist_ok=True)
    log = lambda text: print(time.strftime("%H:%M:%S"), text, flush=True)
    path = pathlib.Path(a.out, "tokenizer.json")
    if a.stage == "init" or not path.exists():
        save_tokenizer(a, train_tokenizer(a))
        pathlib.Path(a.work, "novels.npz").unlink(missing_ok=True)
    tok = Tokenizer.from_file(str(path))
    if a.stage == "init":
        torch.manual_seed(a.seed)
        save_model(a, new_model(a, tok))
    if a.stage in ("train", "all"):
        train(a, tok, load_novels(a, tok), log)
    if a.stage in ("finish", "all") and not a.max_steps:
        finish(a, tok, log)


if __name__ == "__main__":
    main()
