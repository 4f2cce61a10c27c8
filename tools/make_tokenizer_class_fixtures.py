#!/usr/bin/env python3
"""Writes what Transformers makes of a tokenizer.json that disagrees with the class its files name, for the tests of text/.

Many classes of Transformers 5 take vocabulary, merges and post-processor of a tokenizer.json, and the rest is their own.
tests/fixtures/tokenizer_classes.json: {"cases": [{name, base, config, model, texts: [[text, ids, decoded]]}]}: `base` is a
folder of tests/fixtures/tokenizers, `config` its tokenizer_config.json, `model` what config.json says.
"""

import json
import tempfile
from pathlib import Path

from transformers import AutoTokenizer

FIXTURES = Path(__file__).resolve().parent.parent / "tests/fixtures"
TEXTS = ["Hello 12345 don't", " 12 a", "cafe\u0301 \u212b na\u00efve", "  a  b\n\n x\r\n", "\u00dcn\u00ef \ufb01 \u4e2d\u6587 I'M \u0301 x\u0301y", "<s> x</s>", "a </s> b", "", " ", "\u2581a \u2581 b", "\U0001f600\x00", "ferry two words"]  # fmt: skip
# (base, the class that tokenizer_config.json names, the model's type, more of tokenizer_config.json, more of config.json)
CASES = [
    ("llama3", "GPT2Tokenizer", "llama", {}, {}), ("llama3", "GPT2TokenizerFast", "starcoder2", {"add_prefix_space": True}, {}),
    ("qwen2", "GPT2Tokenizer", "gpt2", {}, {}), ("qwen2", None, "gpt2", {}, {}), ("qwen2", "GPT2Tokenizer", "granite", {}, {}),
    ("qwen2", None, "llama", {}, {"tokenizer_class": "GPT2Tokenizer"}),
    ("qwen2", "CodeGenTokenizer", "phi", {}, {}), ("llama3", "CodeGenTokenizer", "codegen", {"add_prefix_space": True}, {}),
    ("llama3", "Qwen2Tokenizer", "qwen2", {}, {}), ("llama3", "PreTrainedTokenizerFast", "qwen2", {}, {}), ("llama3", "LlamaTokenizerFast", "qwen2", {}, {}),
    ("llama3", "PreTrainedTokenizerFast", "qwen3", {}, {}), ("llama3", None, "qwen3", {"add_prefix_space": True}, {}), ("llama3", "Qwen2Tokenizer", "mistral", {}, {}),
    ("llama3", None, "qwen3_5_text", {}, {}), ("llama3", "GPTNeoXTokenizerFast", "gpt_neox", {}, {}), ("llama3", "GPTNeoXTokenizer", "olmo", {"add_bos_token": True}, {}),
    ("qwen2", "GPTNeoXTokenizer", "llama", {"add_prefix_space": True}, {}), ("llama3", "PreTrainedTokenizerFast", "gpt_neox", {}, {}),
    ("llama3", "CohereTokenizerFast", "cohere", {}, {}), ("llama3", None, "cohere2", {"add_prefix_space": True}, {}), ("llama3", "LlamaTokenizer", "llama", {}, {}),
    ("one_word", "GemmaTokenizer", "gemma", {}, {}), ("metaspace_first", "GemmaTokenizerFast", "gemma2", {"add_bos_token": False}, {}), ("one_word", None, "gemma3_text", {}, {}),
    ("one_word", "LlamaTokenizerFast", "gemma", {}, {}), ("llama2", "CodeLlamaTokenizer", "llama", {}, {}), ("one_word", "CodeLlamaTokenizerFast", "llama", {"add_prefix_space": False}, {}),
    ("word_suffix", "OpenAIGPTTokenizer", "openai-gpt", {}, {}), ("word_suffix", None, "openai-gpt", {}, {}), ("words", "PreTrainedTokenizerFast", "gpt2", {}, {}),
]  # fmt: skip


def main():
    cases = []
    for base, named, model_type, config, model in CASES:
        file = json.loads((FIXTURES / "tokenizers" / base / "tokenizer.json").read_text(encoding="ascii"))
        if base == "word_suffix":  # what the class has instead
            file |= {"normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "Fuse"}}
        config = config | ({"tokenizer_class": named} if named else {})
        model = model | {"model_type": model_type}
        with tempfile.TemporaryDirectory() as made:
            for name, content in {"tokenizer": file, "tokenizer_config": config, "config": model}.items():
                Path(made, f"{name}.json").write_text(json.dumps(content), encoding="ascii")
            tokenizer = AutoTokenizer.from_pretrained(made)
        texts = []
        for text in TEXTS:
            ids = tokenizer(text)["input_ids"]
            texts.append([text, ids, tokenizer.decode(ids)])
        print(named, model_type, type(tokenizer).__name__)
        cases.append(json.dumps({"name": f"{base} {named} {model_type}", "base": base, "config": config, "model": model, "texts": texts}, separators=(",", ":")))
    (FIXTURES / "tokenizer_classes.json").write_text('{"cases":[\n' + ",\n".join(cases) + "\n]}\n", encoding="ascii")


if __name__ == "__main__":
    main()
