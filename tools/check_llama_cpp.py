#!/usr/bin/env python3
"""Does llama.cpp load the GGUF files that `assay quantize` writes, and compute the same from them?

    CMAKE_ARGS=-DGGML_NATIVE=OFF pip install llama-cpp-python==0.3.36     # builds llama.cpp
    tools/check_llama_cpp.py                                              # the small models of tests/fixtures
    tools/check_llama_cpp.py --types Q8_0,Q4_0,Q4_K_M,Q6_K FOLDER         # a model of yours
    tools/check_llama_cpp.py FILE.gguf                                    # a GGUF file as it is

Each model is written in each type, and llama.cpp loads the file. Compared are the token ids of hard strings, the
logits of every position of a prompt, and a greedy continuation. Assay's side is `assay tokenize`, `logits` and
`generate` on the same file. llama.cpp rounds the activations beside
quantized weights to 8 bits, those beside F16 and in its table of GELU to float16, Assay does not: logits may differ by a
share of their standard deviation (TOLERANCES), and a continuation may part where the two best tokens are closer than
that. Exit code 1 where anything differs; what cannot be written is skipped, with the reason.

llama.cpp leaves the attention window of Phi-3 out, and takes the long factors of its positions in any context that has
room for more than the original one, at least 256 tokens: prompts here stay within the window, and are as long as the
context allows. It has no key for the attention scale of Gemma 2 and 3, the window of StarCoder2 and which layers of
SmolLM3 turn positions: of small models that have others than those models, a copy is checked that has theirs.
"""

import argparse
import ctypes
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOLERANCES = {"F32": 1e-3, "F16": 0.02, "BF16": 0.05}  # other types: 0.25
FIXED = {"starcoder2": {"sliding_window": None}, "smollm3": {"no_rope_layer_interval": 4}}
NEW_TOKENS = 24
TEXT = "The capital of France is a city whose history goes back more than two thousand years, and"
STRINGS = [
    "Hello, world! It's 12345 o'clock, I'LL go.",
    "  two  leading blanks and trailing  ",
    "tabs\t\tand\nlines\n\n\nand\r\nmore   \n  indented",
    "naïve façade — œuvre, e\u0301 and \u00bd ﬁ",
    "東京都に行きました。안녕하세요 세계",
    "Привет, мир! नमस्ते दुनिया שלום مرحبا",
    "🙂👨‍👩‍👧 🇫🇷 emoji",
    "def f(x):\n    return x**2  # comment {a: [1, 2]} <b>&amp;</b>",
    "<|im_start|>user\nWhat is 2+2?<|im_end|>\n<start_of_turn>model\n<s>a</s>",
    "\u2581mark \u00a0nbsp \u200bzero 3.14 2026-11-27 0x1F",
]


class LlamaCpp:
    """A model in llama.cpp: ids in, logits and ids out."""

    def __init__(self, path):
        import llama_cpp

        self.c = llama_cpp
        self.c.llama_backend_init()
        self.silence = self.c.llama_log_callback(lambda level, text, data: None)
        self.c.llama_log_set(self.silence, ctypes.c_void_p(0))
        params = self.c.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = self.c.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise SystemExit("llama.cpp does not load it")
        self.vocab = self.c.llama_model_get_vocab(self.model)
        self.size = self.c.llama_vocab_n_tokens(self.vocab)

    def logits(self, ids):
        import numpy as np

        params = self.c.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = max(64, len(ids))
        params.n_threads = params.n_threads_batch = 2
        params.type_k = params.type_v = 0  # float32
        params.flash_attn_type = 0  # off
        context = self.c.llama_init_from_model(self.model, params)
        batch = self.c.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, 1
        if self.c.llama_decode(context, batch) != 0:
            raise SystemExit("llama_decode failed")
        all = [np.ctypeslib.as_array(self.c.llama_get_logits_ith(context, i), (self.size,)).copy()
               for i in range(len(ids))]
        self.c.llama_batch_free(batch)
        self.c.llama_free(context)
        return np.stack(all)

    def key(self, name):
        text = ctypes.create_string_buffer(64)
        found = self.c.llama_model_meta_val_str(self.model, name.encode(), text, 64)
        return text.value.decode() if found >= 0 else None

    def sizes(self):
        """Tokens for a prompt and a continuation."""
        whole = self.c.llama_model_n_ctx_train(self.model)
        window = int(self.key("phi3.attention.sliding_window") or 0)
        if window:
            whole = min(whole, window)
        prompt = min(100, whole * 5 // 8)
        return prompt, min(NEW_TOKENS, whole - prompt)

    def has_tokenizer(self):
        return self.c.llama_vocab_type(self.vocab) != 0

    def tokenize(self, text):
        data = text.encode()
        ids = (ctypes.c_int32 * (len(data) + 8))()
        count = self.c.llama_tokenize(self.vocab, data, len(data), ids, len(ids), True, True)
        return list(ids[:count])


def assay(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"assay {words[0]}: {done.stderr.strip()}")
    return done.stdout


def differences_of_ids(program, path, llama):
    found = []
    for text in STRINGS:
        ours = json.loads(assay(program, "tokenize", path, "--json", "--text", text))["ids"]
        theirs = llama.tokenize(text)
        if ours != theirs:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            found.append(f"ids of {text!r} differ at {at}: {ours[at:at + 4]} here, {theirs[at:at + 4]} there")
    return found


def check_file(program, path, tolerance):
    """What differs, as sentences; and figures."""
    import numpy as np

    llama = LlamaCpp(path)
    prompt, new_tokens = llama.sizes()
    differences = differences_of_ids(program, path, llama) if llama.has_tokenizer() else []
    if llama.has_tokenizer():
        ids = llama.tokenize(TEXT)[:prompt]
    else:
        ids = [(7 * i + 3) % (llama.size - 1) for i in range(prompt)]
    text = ",".join(map(str, ids))
    with tempfile.TemporaryDirectory() as folder:
        array = pathlib.Path(folder) / "logits.npy"
        assay(program, "logits", path, "--ids", text, "--output", array)
        ours = np.load(array).reshape(len(ids), -1)
    theirs = llama.logits(ids)
    if ours.shape != theirs.shape:
        return differences + [f"logits: shape {ours.shape} here, {theirs.shape} there"], {}
    spread = theirs.std()
    off = float(np.sqrt(((ours - theirs) ** 2).mean()) / spread)
    agree = float((ours.argmax(-1) == theirs.argmax(-1)).mean())
    if not off <= tolerance:
        differences.append(f"logits differ by {off:.3g} of their standard deviation: at most {tolerance} is expected")
    answer = json.loads(assay(program, "generate", path, "--json", "--ids", text, "-n", new_tokens))["ids"]
    all, equal = list(ids), 0
    rows = llama.logits(ids + answer)[len(ids) - 1:]
    for row, token in zip(rows, answer):
        if int(row.argmax()) != token:
            gap = float((row.max() - row[token]) / spread)
            if gap > 4 * tolerance:
                differences.append(f"new token {equal + 1}: {token} here is {gap:.3g} standard deviations worse there")
            break
        all.append(token)
        equal += 1
    figures = {"logits off by": off, "same best token": agree, "equal new tokens": f"{equal} of {len(answer)}",
               "strings": len(STRINGS) if llama.has_tokenizer() else "no tokenizer"}
    return differences, figures


def writable(model, folder):
    """The model, or a copy with what its architecture always has in llama.cpp, which has no key for it."""
    file = model / "config.json"
    config = json.loads(file.read_text()) if file.exists() else {}
    fixed = {"query_pre_attn_scalar": config.get("head_dim")} if "query_pre_attn_scalar" in config else {}
    fixed |= FIXED.get(config.get("model_type"), {})
    if all(config.get(key, value) == value for key, value in fixed.items()):
        return model
    copy = pathlib.Path(folder) / model.name
    shutil.copytree(model, copy)
    (copy / "config.json").write_text(json.dumps(config | fixed))
    return copy


def check_apart(arguments, path, kind):
    """In a process of its own: llama.cpp aborts where an assertion fails."""
    tolerance = TOLERANCES.get(kind, 0.25)
    done = subprocess.run([sys.executable, __file__, "--assay", arguments.assay, "--one", str(path), str(tolerance)],
                          capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout.startswith("{"):
        lines = (done.stderr.strip() or "no message").splitlines()
        return [f"exit code {done.returncode}: {lines[-1][:300]}"], {}
    answer = json.loads(done.stdout)
    return answer["differences"], answer["figures"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", help="folders and GGUF files [the fixtures]")
    parser.add_argument("--assay", default=str(ROOT / "build/release/assay"))
    parser.add_argument("--types", default="F32,F16,Q8_0", help="types to write, joined by commas")
    parser.add_argument("--one", nargs=2, metavar=("FILE", "TOLERANCE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        differences, figures = check_file(arguments.assay, arguments.one[0], float(arguments.one[1]))
        print(json.dumps({"differences": differences, "figures": figures}))
        return 0
    models = arguments.models or sorted(str(p) for p in (ROOT / "tests/fixtures/models").iterdir())
    checked, skipped, failed = 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        for model in map(pathlib.Path, models):
            is_file = model.suffix == ".gguf"
            model = model if is_file else writable(model, folder)
            for kind in ["as it is"] if is_file else arguments.types.split(","):
                path = model if is_file else pathlib.Path(folder) / f"{model.name}.{kind}.gguf"
                if not is_file:
                    written = subprocess.run([arguments.assay, "quantize", model, path, "--recipe", kind, "--quiet"],
                                             capture_output=True, text=True)
                    if written.returncode != 0:
                        skipped.append(f"{model.name}: {written.stderr.strip()}")
                        break
                differences, figures = check_apart(arguments, path, kind)
                checked += 1
                print(f"{model.name} {kind}: {'DIFFERS' if differences else 'agrees'}",
                      json.dumps(figures) if figures else "", flush=True)
                for line in differences:
                    print(f"    {line}")
                    failed.append(f"{model.name} {kind}")
                if not is_file:
                    path.unlink()
    for line in skipped:
        print("skipped:", line)
    print(f"{checked} files checked, {len(set(failed))} differ, {len(skipped)} models skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
