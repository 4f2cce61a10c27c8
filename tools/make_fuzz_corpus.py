#!/usr/bin/env python3
"""Writes the first inputs of the fuzz targets, made of the committed fixtures, and a dictionary for each.

usage: tools/make_fuzz_corpus.py BUILD OUTPUT

BUILD holds the targets (build/fuzz): its program fuzz_seeds writes what Assay itself writes, such as results and
journals. OUTPUT/TARGET/ receives the inputs of a target, OUTPUT/TARGET.dict the words of the sources that read them.
"""
import json
import pathlib
import re
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/fixtures"
MODELS = sorted(p.parent for p in [*FIXTURES.glob("models/*/config.json"), *FIXTURES.glob("quantized*/*/config.json")])
BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}
MOST_TOKENS = 40
# Folders and files whose texts are words of a format.
READERS = {
    "safetensors_fuzz": ["checkpoint/safetensors.cpp", "tensor"],
    "checkpoint_fuzz": ["checkpoint", "model/families", "quant"],
    "gguf_fuzz": ["checkpoint", "quant/ggml_blocks.cpp"],
    "tokenizer_json_fuzz": ["text"],
    "tokenizer_model_fuzz": ["text"],
    "config_json_fuzz": ["model", "checkpoint"],
    "results_fuzz": ["results", "report"],
    "compare_fuzz": ["results"],
    "configuration_fuzz": ["config", "quant"],
    "journal_fuzz": ["harness", "results"],
    "task_fuzz": ["session/task_items.cpp"],
    "tuning_fuzz": ["backend/cpu/run", "checkpoint"],
    "worker_fuzz": ["harness", "config"],
}


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def header_of(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def trimmed(header, most):
    """The first tensors, with sizes of at most `most` and zeros for data: a file of some hundred bytes."""
    entries, at = {}, 0
    for name, entry in list(header.items())[:12]:
        if name == "__metadata__":
            entries[name] = entry
            continue
        shape = [min(size, most) for size in entry["shape"]]
        size = BYTES.get(entry["dtype"], 1)
        for each in shape:
            size *= each
        entries[name] = {"dtype": entry["dtype"], "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = compact(entries)
    return struct.pack("<Q", len(text)) + text + bytes(at)


def trimmed_tokenizer(content):
    """With few tokens, and the merges that they allow: an execution takes as long as its input."""
    model = content.get("model", {})
    vocab = model.get("vocab")
    if isinstance(vocab, list):
        return dict(content, model=dict(model, vocab=vocab[:MOST_TOKENS]))
    if not isinstance(vocab, dict):
        return content
    merges = [m if isinstance(m, list) else m.split(" ", 1) for m in model.get("merges", [])][:8]
    words = dict.fromkeys([word for m in merges for word in (*m, "".join(m))] + sorted(vocab, key=vocab.get)[:MOST_TOKENS])
    short = dict(model, vocab={word: i for i, word in enumerate(word for word in words if word in vocab)})
    if "merges" in model:
        short["merges"] = [" ".join(m) for m in merges]
    added = [dict(token, id=len(short["vocab"]) + i) for i, token in enumerate(content.get("added_tokens") or [])][:6]
    return dict(content, model=short, added_tokens=added)


def varint(content, at):
    value = shift = 0
    while True:
        value |= (content[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if content[at - 1] < 128:
            return value, at


def trimmed_pieces(content):
    """A protobuf message with the first entries of field 1, and all other fields."""
    kept, at, pieces = b"", 0, 0
    while at < len(content):
        begin = at
        tag, at = varint(content, at)
        if tag & 7 == 2:
            length, at = varint(content, at)
            at += length
        elif tag & 7 == 0:
            _, at = varint(content, at)
        else:
            at += 4 if tag & 7 == 5 else 8
        pieces += tag >> 3 == 1
        if tag >> 3 != 1 or pieces <= MOST_TOKENS:
            kept += content[begin:at]
    return kept


def tokenizers():
    """(name, tokenizer.json, tokenizer_config.json)"""
    for path in [*FIXTURES.glob("tokenizers/*/tokenizer.json"), *FIXTURES.glob("tokenizer_folders/*/tokenizer.json")]:
        config = path.parent / "tokenizer_config.json"
        yield path.parent.name, json.loads(path.read_text()), config.read_bytes() if config.exists() else b"{}"
    for name, variant in json.loads((FIXTURES / "tokenizer_variants.json").read_text())["variants"].items():
        base = json.loads((FIXTURES / "tokenizers" / variant["base"] / "tokenizer.json").read_text())
        yield name, {**base, **variant["patch"]}, b"{}"


def seeds():
    """(target, name, content)"""
    for folder in MODELS:
        name, config = folder.name, (folder / "config.json").read_bytes()
        generation = folder / "generation_config.json"
        more = generation.read_bytes() if generation.exists() else b"{}"
        # Without tensors, and with those of any name, as config_json_fuzz.cpp reads the byte.
        for mode in (0, 19):
            yield "config_json_fuzz", f"{name}_{mode}", b"\0".join([config, more, bytes([mode])])
        if not (folder / "model.safetensors").exists():
            continue
        header, data = header_of(folder / "model.safetensors")
        yield "safetensors_fuzz", name, trimmed(header, 3)
        yield "checkpoint_fuzz", name, b"\0".join([config, compact(header), data[:256]])
        own = json.loads(config)
        if "quantization_config" in own:
            yield "tuning_fuzz", name, compact({"quantization_config": own["quantization_config"]})
        for key, entry in header.items():
            if "quant_state" in key:
                begin, end = entry["data_offsets"]
                yield "tuning_fuzz", f"{name}_state", data[begin:end]
                break
    yield "safetensors_fuzz", "shapes", trimmed(header_of(FIXTURES / "quant.safetensors")[0], 2)
    for path in sorted(FIXTURES.glob("gguf/*.gguf")):
        if path.stat().st_size <= 26_000:
            yield "gguf_fuzz", path.stem, path.read_bytes()
    for path in sorted([*FIXTURES.glob("quality/*.jsonl"), *FIXTURES.glob("quality/downloads/*.jsonl")]):
        yield "task_fuzz", path.stem, b"".join(path.read_bytes().splitlines(keepends=True)[:4])
    for name, content, config in tokenizers():
        text = b"Hello  world's 12\n caf\xc3\xa9"
        yield "tokenizer_json_fuzz", name, b"\0".join([compact(trimmed_tokenizer(content)), config, text])
    for path in sorted(FIXTURES.glob("tokenizer_folders/*/tokenizer.model")):
        config = (path.parent / "tokenizer_config.json").read_bytes()
        yield "tokenizer_model_fuzz", path.parent.name, config + b"\0" + trimmed_pieces(path.read_bytes())


def words_of(places):
    files = []
    for place in places:
        path = ROOT / "src/assay" / place
        files += sorted(path.rglob("*.cpp")) + sorted(path.rglob("*.h")) if path.is_dir() else [path]
    text = "\n".join(file.read_text() for file in files)
    text = re.sub(r"^\s*#include.*$", "", text, flags=re.M)
    return sorted(set(re.findall(r'"([A-Za-z_][\w.+:-]{0,39})"', text)))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    for target, name, content in seeds():
        (output / target).mkdir(exist_ok=True)
        (output / target / name).write_bytes(content)
    subprocess.run([build / "tests/fuzz/fuzz_seeds", output], check=True)
    for target, places in READERS.items():
        (output / f"{target}.dict").write_text("".join(f'"{word}"\n' for word in words_of(places)))
    counts = {p.name: len(list(p.iterdir())) for p in sorted(output.iterdir()) if p.is_dir()}
    print("first inputs: " + ", ".join(f"{name} {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
