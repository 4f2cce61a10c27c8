"""Random models of real shapes, and what each peer makes of them, kept under DIR/models."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from rooflines import SHAPES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def default_dir():
    return Path(os.environ.get("ASSAY_PEERS") or Path.home() / ".cache" / "assay-peers")


def python_of(peers_dir, environment):
    return peers_dir / environment / "bin" / "python"


def byte_alphabet():
    """GPT-2's printable character for each byte, in the order of its ids 0 to 255."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + i) for i in range(len(others))]


def tokenizer_json(words):
    """The same vocabulary as the one file that newer models have."""
    whole = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False}
    model |= {"vocab": {word: i for i, word in enumerate(words)}, "merges": [["e", "r"]]}
    nothing = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor"))
    parts = {"pre_tokenizer": whole, "decoder": whole, "model": model}
    return {"version": "1.0", "added_tokens": []} | nothing | parts


def write_vocabulary(folder, shape):
    """A byte-level vocabulary of the model's size with one merge: converters want both, and nobody reads the text."""
    words = byte_alphabet() + ["er"]
    words += [f"filler{i}" for i in range(len(words), shape.vocab - 1)] + ["<|endoftext|>"]
    text = json.dumps({word: i for i, word in enumerate(words)}, ensure_ascii=False)
    (folder / "vocab.json").write_text(text, encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\ne r\n", encoding="utf-8")
    if shape.family == "gemma3_text":  # llama.cpp's converter counts its tokens there
        text = json.dumps(tokenizer_json(words), ensure_ascii=False)
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    config = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": shape.context}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def make_once(path, make):
    """`make(temporary path)` unless `path` is there; what is half made never has its name."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.parent / f"half-{path.name}"
    shutil.rmtree(half, ignore_errors=True)
    half.unlink(missing_ok=True)
    print(f"making {path}", file=sys.stderr)
    make(half)
    half.rename(path)
    return path


def run_logged(command, log):
    with open(log, "a", encoding="utf-8") as out:
        code = subprocess.run([str(word) for word in command], stdout=out, stderr=out, check=False).returncode
    if code != 0:
        name = next(Path(word).name for word in map(str, command) if "python" not in Path(word).name)
        raise RuntimeError(f"{name} ended with {code}: see {log}")


def hugging_face(peers_dir, size):
    """The folder that Assay and torch load."""

    def make(out):
        tool = ROOT / "tools" / "make_random_model.py"
        # No tokenizer is copied: the same vocabulary on every machine.
        command = [python_of(peers_dir, "torch"), tool, "--size", size, "--out", out, "--tokenizer", "none"]
        run_logged(command, log_of(peers_dir))
        write_vocabulary(out, SHAPES[size])
        config = json.loads((out / "config.json").read_text(encoding="utf-8"))
        if "n_positions" in config:
            config["n_ctx"] = config["n_positions"]  # llama.cpp's converter asks for it
        (out / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")

    return make_once(peers_dir / "models" / size, make)


def log_of(peers_dir):
    (peers_dir / "logs").mkdir(parents=True, exist_ok=True)
    return peers_dir / "logs" / "models.log"


def converted(peers_dir, size, environment, form="float32"):
    """The model in a peer's own format, by the converter in its worker: plain, or quantized from the plain one."""
    is_plain = form == "float32"
    source = hugging_face(peers_dir, size) if is_plain else converted(peers_dir, size, environment)

    def make(out):
        command = [python_of(peers_dir, environment), HERE / f"worker_{environment}.py"]
        run_logged([*command, "--convert", source, out, "--form", form], log_of(peers_dir))

    # "last": with the logits of the last position alone, where the converter sees to that.
    last = "-last" if environment in ("onnxruntime", "openvino") else ""
    name = f"{size}-{environment}{last}" + ("" if is_plain else f"-{form}")
    return make_once(peers_dir / "models" / name, make)


# What llama-quantize is told beside a type. By itself it puts the LM head, which may be the tied embedding, in the type
# of Q8_0, and in Q6_K beside types of 4 bits; --pure leaves no exception.
GGUF_HEADS = {
    "": [],
    "pure": ["--pure"],
    "head-bf16": ["--token-embedding-type", "bf16", "--output-tensor-type", "bf16"],
}


# The folder of llama.cpp's build for an instruction set, and what setup.sh calls it.
LLAMA_BUILDS = {"native": ("build", "llama.cpp"), "avx2": ("build-avx2", "llama.cpp-avx2")}


def llama_program(peers_dir, name, isa=None):
    """A program of llama.cpp's: of the build for that instruction set, or of any. Throws OSError."""
    for build, _ in [LLAMA_BUILDS[isa]] if isa else LLAMA_BUILDS.values():
        program = peers_dir / "llama.cpp" / build / "bin" / name
        if program.exists():
            return program
    wanted = LLAMA_BUILDS[isa or "native"][1]
    raise FileNotFoundError(f"{program} is not there: run setup.sh --only {wanted}")


def gguf(peers_dir, size, form):
    """llama.cpp's file: f32, bf16 (its converter runs in the torch environment), or of llama-quantize: Q8_0,
    Q4_0+pure."""
    home = peers_dir / "llama.cpp"
    kind, _, head = form.partition("+")

    def make(out):
        source = hugging_face(peers_dir, size)
        command = [
            python_of(peers_dir, "torch"),
            HERE / "convert_gguf.py",
            home / "source",
            source,
            out,
            kind,
        ]
        run_logged(command, log_of(peers_dir))

    def quantize(out):
        # The same values in the fewer bytes where the model itself is bfloat16.
        plain = "bf16" if SHAPES[size].dtype == "bfloat16" else "f32"
        program, source = llama_program(peers_dir, "llama-quantize"), gguf(peers_dir, size, plain)
        run_logged([program, *GGUF_HEADS[head], source, out, kind], log_of(peers_dir))

    name = f"{size}-{form.replace('+', '-')}.gguf"
    return make_once(peers_dir / "models" / name, make if kind in ("f32", "bf16") else quantize)
