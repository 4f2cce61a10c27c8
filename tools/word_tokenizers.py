"""Tokenizers whose tokens are words, or say where in a word they stand, for make_tokenizer_fixtures.py."""

import json

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def word_kinds(lines, finish, special):
    """Kinds whose tokens say where in a word they stand, and one whose tokens are words."""
    kinds = {}

    # The first GPT: the last token of a word ends in </w>.
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizers.Lowercase(), pre_tokenizers.Whitespace(), decoders.BPEDecoder()
    kinds["word_suffix"] = finish(train_words(tokenizer, 450, special, lines))
    kinds["word_suffix"].post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=False, add_prefix_space=False)

    # A prefix where a word goes on; characters without a token are the bytes of themselves and of the prefix.
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
    kinds["word_prefix"] = finish(train_words(tokenizer, 700, special + BYTES, lines), {"single": "<s> $A", "pair": "<s> $A <s> $B", "special_tokens": [("<s>", 1)]}, byte_fallback=True, fuse_unk=True)

    # CLIP: bytes in the alphabet, and a suffix.
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="+", end_of_word_suffix="</w>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    kinds["byte_affixes"] = finish(train_words(tokenizer, 900, special, lines))
    kinds["byte_affixes"].post_processor = processors.Sequence([processors.ByteLevel(), processors.RobertaProcessing(("</s>", 2), ("<s>", 1))])

    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(lines, trainers.WordLevelTrainer(vocab_size=400, special_tokens=special, show_progress=False))
    kinds["words"] = finish(json.loads(tokenizer.to_str()))
    kinds["words"].post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 1))
    return kinds


def train_words(tokenizer, size, special, lines):
    model = json.loads(tokenizer.to_str())["model"]
    affixes = {key: model[key] for key in ("continuing_subword_prefix", "end_of_word_suffix") if model[key]}
    alphabet = pre_tokenizers.ByteLevel.alphabet() if len(affixes) == 2 else []
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False, initial_alphabet=alphabet, **affixes)
    tokenizer.train_from_iterator(lines, trainer)
    return json.loads(tokenizer.to_str())


def state(component):
    return json.loads(component.__getstate__())


def word_variants():
    """(name, base, what replaces the parts of the base), as variants() of make_tokenizer_fixtures.py"""
    pre, norm = pre_tokenizers, normalizers
    bytes_only = pre.ByteLevel(add_prefix_space=False, use_regex=False)

    def steps(*all_steps):
        return {"pre_tokenizer": state(pre.Sequence(list(all_steps)))}

    bytes_first = {"normalizer": state(norm.Sequence([norm.NFC(), norm.ByteLevel()]))}
    yield "bytes_first", "llama3", bytes_first | {"pre_tokenizer": state(pre.Split("\u0120", "isolated")), "decoder": state(decoders.ByteLevel())}
    yield "fixed_length", "llama3", steps(pre.FixedLength(3), bytes_only)
    yield "fixed_characters", "one_word", {"normalizer": None} | steps(pre.FixedLength(6))
    around_all = [processors.BertProcessing(("</s>", 2), ("<s>", 1)), processors.ByteLevel(), processors.RobertaProcessing(("<unk>", 0), ("</s>", 2))]
    yield "around_twice", "llama3", {"post_processor": state(processors.Sequence(around_all))}
