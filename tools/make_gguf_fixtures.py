#!/usr/bin/env python3
"""Writes tests/fixtures/gguf/: models of the other fixtures as llama.cpp's converter stores them, quantized ones, tokenizers.

    tools/make_gguf_fixtures.py LLAMA_CPP             all of them
    tools/make_gguf_fixtures.py LLAMA_CPP granite     those whose names begin so

LLAMA_CPP is a folder with convert_hf_to_gguf.py, such as vendor/llama.cpp in the source archive of llama-cpp-python
0.3.36. NAME.gguf of a model holds the weights of tests/fixtures/models/NAME, whose logits it must have: that folder's
expected.safetensors, or NAME.safetensors. quantized_*.gguf come with logits by Transformers, loading the file (from_pretrained(gguf_file=)).
Tokenizers come with ids: of byte-level ones by the `tokenizers` library, of SentencePiece's by its own library.
"""

import argparse
import io
import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from make_fixtures import FIXTURES
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

OUT = FIXTURES / "gguf"
ARCHITECTURES = {
    "bloom": "BloomForCausalLM", "cohere": "CohereForCausalLM", "falcon": "FalconForCausalLM",
    "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM",
    "gpt2": "GPT2LMHeadModel", "gpt_neox": "GPTNeoXForCausalLM", "granite": "GraniteForCausalLM",
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "olmo2": "Olmo2ForCausalLM", "phi": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM", "stablelm": "StableLmForCausalLM", "starcoder2": "Starcoder2ForCausalLM",
}  # fmt: skip
# Of those what GGUF can say: it keeps neither activations nor, for many, windows.
MODELS = [
    "bloom_six", "cohere_scaled", "falcon_one_key", "gemma2_capped", "gemma3_scaled",
    "gemma_legacy", "gpt_neox_serial", "granite_scaled", "llama_biased", "llama_scaled",
    "minimal", "mistral_yarn", "olmo2_grouped", "phi3_longrope", "phi_partial", "qwen2_biased", "qwen3_heads",
    "smollm3_interval", "stablelm_serial", "starcoder2_untied",
]  # fmt: skip

# What GGUF can say and the converter leaves out.
MORE_KEYS = {
    "falcon_one_key": lambda w: w.add_rope_freq_base(2000.0),
    "gemma2_capped": lambda w: w.add_rope_freq_base(900.0),
    "gemma3_scaled": lambda w: (w.add_rope_freq_base_swa(200.0), w.add_sliding_window_pattern(3)),
    "gemma_legacy": lambda w: w.add_rope_freq_base(2000.0),
    "gpt_neox_serial": lambda w: (
        w.add_rope_freq_base(900.0), w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR),
        w.add_rope_scaling_factor(2.0)),
    "phi_partial": lambda w: w.add_rope_freq_base(3000.0),
    "stablelm_serial": lambda w: w.add_rope_freq_base(2000.0),
}  # fmt: skip
# What it cannot say is what llama.cpp takes for granted; then the logits are computed again, of these configurations.
PATCHES = {
    "bloom_six": {"seq_length": 96},
    "gemma2_capped": {"query_pre_attn_scalar": 10},
    "gemma3_scaled": {"query_pre_attn_scalar": 12},
    "gemma_legacy": {},  # only rounded, as below
    "smollm3_interval": {"no_rope_layer_interval": 4},
}


def import_converter(llama_cpp):
    sys.path[:0] = [str(llama_cpp / "gguf-py"), str(llama_cpp)]
    global gguf, get_model_class, ModelBase
    import gguf
    from conversion import get_model_class
    from conversion.base import ModelBase

    logging.disable(logging.CRITICAL)


def write_logits(model, vocabulary, out, count=14):
    for name, weight in model.named_parameters():
        if "gemma" in out.name and name.endswith("norm.weight"):  # the converter adds 1 in the type of the file
            weight.data = (weight.data.half() + 1).float() - 1
    ids = torch.randint(0, vocabulary, (count,), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        logits = model.eval()(ids[None]).logits[0].float().contiguous()
    save_file({"input_ids": ids, "logits": logits}, out.with_suffix(".safetensors"))


def convert(folder, out):
    """The converter wants keys that Transformers fills in, and a tokenizer, which these models have not."""
    raw = json.loads((folder / "config.json").read_text()) | PATCHES.get(folder.name, {})
    architecture = ARCHITECTURES[raw["model_type"]]
    full = AutoConfig.from_pretrained(folder).to_dict() | raw | {"architectures": [architecture]}
    full.setdefault("n_ctx", full.get("n_positions"))
    parameters = full.get("rope_parameters") or {}
    full["rotary_pct"] = full.get("rotary_pct") or parameters.get("partial_rotary_factor", 0.25)
    if full.get("multi_query") and not full.get("new_decoder_architecture"):
        full["num_kv_heads"] = 1
    full = {key: value for key, value in full.items() if value is not None}
    vocabulary = [f"t{i}" for i in range(raw["vocab_size"])]
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for file in folder.glob("*.safetensors*"):
            if file.name != "expected.safetensors":
                shutil.copy(file, copy)
        if folder.name in PATCHES:
            (copy / "config.json").write_text(json.dumps(raw))
            write_logits(AutoModelForCausalLM.from_pretrained(copy, dtype=torch.float32), raw["vocab_size"], out)
        (copy / "config.json").write_text(json.dumps(full))
        # Gemma 3's counts its tokens.
        words = {"model": {"vocab": vocabulary}, "added_tokens": []}
        (copy / "tokenizer.json").write_text(json.dumps(words))
        loaded = full | ModelBase.load_hparams(copy, False)
        converter = get_model_class(architecture)


        class Own(converter):
            model_arch = converter.model_arch

            def set_vocab(self):
                pass

            def set_gguf_parameters(self):
                super().set_gguf_parameters()
                MORE_KEYS.get(folder.name, lambda writer: None)(self.gguf_writer)

        wide = raw["model_type"] in ("llama", "gpt2")
        kind = gguf.LlamaFileType.ALL_F32 if wide else gguf.LlamaFileType.MOSTLY_F16
        Own(copy, kind, out, hparams=loaded).write()


def permuted(weight, heads):
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def write_quantized(out, kind):
    """A Llama whose rows are whole blocks, in one type of block, with the logits of what they stand for."""
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False)  # fmt: skip
    model = AutoModelForCausalLM.from_config(config)
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(1)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(300)
    add_byte_tokens(writer)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    for name, tensor in model.state_dict().items():
        base, suffix = name.rsplit(".", 1)
        weight = tensor.numpy().astype(np.float32)
        weight = weight * 8 if weight.ndim == 2 else weight + np.linspace(-0.3, 0.3, weight.size, dtype=np.float32)
        for part, heads in (("q_proj", 4), ("k_proj", 2)):
            weight = permuted(weight, heads) if part in name else weight
        stored = kind if weight.ndim == 2 and "embed" not in name else gguf.GGMLQuantizationType.F32
        if weight.ndim == 2 and "embed" in name:
            stored = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(f"{names.get_name(base)}.{suffix}", gguf.quants.quantize(weight, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_logits(AutoModelForCausalLM.from_pretrained(out.parent, gguf_file=out.name, dtype=torch.float32), 300, out, 4)


def byte_alphabet():
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return bytes_to_unicode()


def add_byte_tokens(writer):
    """256 bytes, some merges, and control tokens, up to 300."""
    alphabet = list(byte_alphabet().values())
    merges = ["t h", "th e", "Ġ the", "i n", "Ġ a", "a n", "an d", "Ġ and", "1 2", "12 3", "e r", "Ġ i", "o n", "Ċ Ċ"]
    tokens = alphabet + [merge.replace(" ", "") for merge in merges]
    controls = ["<|begin|>", "<|im_end|>", "<|user|>"]
    plain = 300 - len(controls)
    tokens += [f"unused{i}" for i in range(plain - len(tokens))] + controls
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * plain + [3, 3, 4])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(297)
    writer.add_eos_token_id(298)
    writer.add_chat_template("{{ messages }}")


TEXTS = [
    "Hello, world!", "the and in the 123", " leading and  two  blanks ", "naïve façade — 東京 🙂", "tab\tand\nlines\n\n\n",
    "don't we'll I'M", "1234567 12 3.14", "a<|user|>b", "", "ﬁ ½ Ǆ", "\u00a0nbsp", "\u2581mark", "x" * 70, "été où",
]  # fmt: skip


def write_sentence_piece(out):
    import sentencepiece

    corpus = [line for line in (FIXTURES.parents[1] / "README.md").read_text().splitlines() if line]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, model_type="bpe", vocab_size=600, byte_fallback=True,
        character_coverage=0.99, normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<|user|>"], minloglevel=2)  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_tokenizer_model("llama")
    count = processor.get_piece_size()
    kind = lambda i: 2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 6 if processor.is_byte(i) else 1
    writer.add_token_list([processor.id_to_piece(i) for i in range(count)])
    writer.add_token_scores([processor.get_score(i) for i in range(count)])
    writer.add_token_types([4 if processor.id_to_piece(i) == "<|user|>" else kind(i) for i in range(count)])
    writer.add_bos_token_id(processor.bos_id())
    writer.add_eos_token_id(processor.eos_id())
    writer.add_unk_token_id(processor.unk_id())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    # Text behind a user-defined token begins anew, with a blank, in llama.cpp and Transformers but not here.
    texts = [text for text in TEXTS if "<|user|>" not in text]
    cases = [{"text": text, "ids": [processor.bos_id(), *processor.encode(text)]} for text in texts]
    out.with_suffix(".json").write_text(json.dumps(cases, ensure_ascii=True, indent=0) + "\n")


def write_byte_level(out, folder, pre):
    """The tokens of a fixture's tokenizer.json, with the ids that the `tokenizers` library gives for it."""
    from tokenizers import Tokenizer

    source = json.loads((folder / "tokenizer.json").read_text())
    tokens = {id: text for text, id in source["model"]["vocab"].items()}
    types = dict.fromkeys(tokens, 1)
    for token in source["added_tokens"]:
        tokens[token["id"]] = token["content"]
        types[token["id"]] = 3 if token["special"] else 4
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([tokens[i] for i in range(len(tokens))])
    writer.add_token_types([types[i] for i in range(len(tokens))])
    merges = source["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_add_bos_token(False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    cases = [{"text": text, "ids": library.encode(text, add_special_tokens=False).ids} for text in TEXTS]
    out.with_suffix(".json").write_text(json.dumps(cases, ensure_ascii=True, indent=0) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_cpp", type=Path)
    parser.add_argument("names", nargs="*", help="beginnings of the names of those to make [all]")
    arguments = parser.parse_args()
    import_converter(arguments.llama_cpp)
    OUT.mkdir(exist_ok=True)
    kinds = gguf.GGMLQuantizationType
    made = {name: lambda out, name=name: convert(FIXTURES / "models" / name, out) for name in MODELS}
    for kind in (kinds.Q8_0, kinds.Q4_0):
        made[f"quantized_{kind.name.lower()}"] = lambda out, kind=kind: write_quantized(out, kind)
    made["tokens_sentencepiece"] = write_sentence_piece
    for name, pre in (("llama3", "llama-bpe"), ("qwen2", "qwen2")):
        folder = FIXTURES / "tokenizers" / name
        made[f"tokens_{name}"] = lambda out, folder=folder, pre=pre: write_byte_level(out, folder, pre)
    for name, make in made.items():
        if not arguments.names or name.startswith(tuple(arguments.names)):
            make(OUT / f"{name}.gguf")
            print(name, (OUT / f"{name}.gguf").stat().st_size)


if __name__ == "__main__":
    main()
