#!/usr/bin/env python3
"""Writes SentencePiece models and what Transformers makes of them, for the tests of text/ and base/.

tests/fixtures/piece_merges.json: lists of pieces with scores, and the merges that `generate_merges` of Transformers
makes of them by score (`scored`: as for a GGUF file), by place (`placed`: as for tokenizer.model) and as SpmConverter
ranks them (`ranked`). Among the pieces are scores that are equal, characters of several bytes and runs of one.

tests/fixtures/tokenizer_folders/NAME: small tokenizers as folders have them: Unigram and WordPiece in tokenizer.json, and
SentencePiece's tokenizer.model for the classes of Transformers that read it, trained on the texts of models/demo; and
tests/fixtures/tokenizer_folders.json, what AutoTokenizer makes of texts with them:

    cases  {name: {category: digest}}: of all texts of a category of tokenizer_cases.json, one after the other
    sweep  {name: {number: digest}}: of blocks of its sweep: the first eight, and one in five of the others
    texts  {name: [[text, ids, decoded, skipped]]}: special tokens written out and skipped

tests/fixtures/special_tokens.json: [{name, patch, files, text, ids, decoded, skipped}]: what AutoTokenizer makes of `text`
with tests/fixtures/tokenizers/one_word/tokenizer.json, where `patch` replaces its parts, and with `files` beside it.

A digest is the start of the SHA-256 of the ids and the decoded text, as in make_tokenizer_fixtures.py.
"""

import io
import json
import random
import tempfile
from pathlib import Path

import sentencepiece
from make_tokenizer_fixtures import EXTRA, digest_of_all, sweep_text
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer
from transformers.tokenization_utils_base import generate_merges

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/fixtures"


def ranked(pieces, scores):
    """As SpmConverter.build_tokenizer_from_spm_proto ranks normal pieces."""
    normal = {piece: (score, i) for i, (piece, score) in enumerate(zip(pieces, scores))}
    splits = ((piece, at) for piece in normal for at in range(1, len(piece)))
    found = [(-normal[piece][0], normal[piece][1], piece[:at], piece[at:]) for piece, at in splits if piece[:at] in normal and piece[at:] in normal]
    return [[left, right] for _, _, left, right in sorted(found)]


def merge_lists():
    rng = random.Random(7)
    yield "runs", ["a" * n for n in (1, 2, 3, 4, 5, 8)], [-3.0, -1.0, -2.0, -1.0, -5.0, 0.0]
    yield "ties", ["<s>", "s", ">", "s>", "<", "ab", "a", "b", "abab", "ba", "aba", "bab"], [0.0] * 12
    words = "▁the ▁then ▁them en he hen ▁t th é né ▁né née 中文 中 文 😀😀 😀 ▁ ▁▁ ▁▁▁ t h e n m".split()
    yield "words", words, [-float(i) for i in range(len(words))]
    letters = [*"abé中", *{"".join(rng.choices("abé中", k=rng.randint(2, 6))) for _ in range(120)}]
    letters = sorted(set(letters), key=lambda text: (len(text), text))
    rng.shuffle(letters)
    yield "random", letters, [-float(rng.randint(0, 12)) / 4 for _ in letters]


def make_merges():
    cases = {}
    for name, pieces, scores in merge_lists():
        assert len(set(pieces)) == len(pieces)
        vocab = {piece: i for i, piece in enumerate(pieces)}
        cases[name] = {"pieces": pieces, "scores": scores, "scored": generate_merges(vocab, dict(zip(pieces, scores))),
                       "placed": generate_merges(vocab), "ranked": ranked(pieces, scores)}  # fmt: skip
    write(FIXTURES / "piece_merges.json", cases)


# What the map of characters replaces: full-width letters, ligatures, a letter with a mark, blanks, a control character, and
# a character that becomes many.
RULES = {chr(0xFF21 + i): chr(65 + i) for i in range(26)} | {chr(0xFF41 + i): chr(97 + i) for i in range(26)}
RULES |= {"\ufb01": "fi", "\ufb02": "fl", "e\u0301": "\u00e9", "a\u0300": "\u00e0", "\u00aa": "a", "\u00a0": " ", "\u3000": " ", "\t": " ",
          "\u200b": "", "\x01": "", "\ufdfa": "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647", "\u00b2": "2", "\r\n": "\n", "\u2460": "1", "\u212b": "\u00c5"}  # fmt: skip
MORE = ["<pad>", "a<mask>b", "<extra_id_0> x <extra_id_99>", "  two  blanks  ", "\uff21\uff42c \ufb01ne", "cafe\u0301 \u00aa\u0301 \u00aa", "\ufdfa",
        "<ud> a<ud>b", "the<tool>ferry", "<tool><tool> <tool>x", "\u2581the", "\u2581\u2581 a", "\u4e2d\u6587\u4e2d", "x\u4e2dy", "[CLS] a [SEP]", "unaffable", "don't stop.", "a , b . c ! n't",
        "\x01\x02a", "<start_of_turn>user\nhi<end_of_turn>", "ab" * 120, "e\u0301e\u0301", "\r\n\r\n", "0x41 <0x41> <0xFF>"]  # fmt: skip


def train_pieces(lines, kind, size, **options):
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules.tsv")
        codes = lambda text: " ".join(f"{ord(c):X}" for c in text)
        rules.write_text("".join(f"{codes(a)}\t{codes(b)}\n" for a, b in sorted(RULES.items())), encoding="ascii")
        out = io.BytesIO()
        if options.pop("has_map", True):
            options["normalization_rule_tsv"] = str(rules)
        else:
            options["normalization_rule_name"] = "identity"
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, model_type=kind, vocab_size=size,
                                                 hard_vocab_limit=False, character_coverage=1.0, minloglevel=2, num_threads=1, **options)  # fmt: skip
        return out.getvalue()


def map_of(model):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return proto.normalizer_spec.precompiled_charsmap


def unigram_json(lines, charsmap):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Replace("  ", " ")])
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer.train_from_iterator(lines, trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>", "<mask>"], unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def unigram_bytes_json(lines):
    """Few letters of its own, so that bytes stand for most; ties among its scores."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.train_from_iterator(lines, trainers.UnigramTrainer(vocab_size=200, special_tokens=["<unk>", "<s>"], unk_token="<unk>", show_progress=False))
    file = json.loads(tokenizer.to_str())
    vocab = [[piece, round(score)] for piece, score in file["model"]["vocab"]] + [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    file["model"].update(vocab=vocab, byte_fallback=True)
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    return tokenizer


def word_piece_json(lines, **bert):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(**bert), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False))
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=not bert["lowercase"])
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def folders(lines):
    base = {"tokenizer_class": "PreTrainedTokenizerFast"}
    llama = train_pieces(lines, "bpe", 520, byte_fallback=True, has_map=False, remove_extra_whitespaces=False, user_defined_symbols=["<ud>"])
    gemma = train_pieces(lines, "bpe", 540, byte_fallback=True, has_map=False, remove_extra_whitespaces=False, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
                         bos_piece="<bos>", eos_piece="<eos>", control_symbols=["<mask>", "<start_of_turn>"], user_defined_symbols=["\u2581\u2581", "\u2581\u2581\u2581"])  # fmt: skip
    t5 = train_pieces(lines, "unigram", 300, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    any_bpe = train_pieces(lines, "bpe", 560, byte_fallback=True, user_defined_symbols=["<tool>", "<too"], control_symbols=["<ctl>"])
    any_unigram = train_pieces(lines, "unigram", 300, remove_extra_whitespaces=False, add_dummy_prefix=False, user_defined_symbols=["<tool>"], pad_id=3)
    yield "unigram", unigram_json(lines, map_of(t5)), base
    yield "unigram_bytes", unigram_bytes_json(lines), base
    yield "word_piece", word_piece_json(lines, lowercase=True), base
    yield "word_piece_cased", word_piece_json(lines, lowercase=False, strip_accents=True, handle_chinese_chars=False), base
    yield "llama", llama, {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True}
    yield "llama_legacy", llama, {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "legacy": True}
    yield "llama_no_prefix", llama, {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False, "pad_token": "<pad>"}
    yield "gemma", gemma, {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True}
    yield "t5", t5, {"tokenizer_class": "T5Tokenizer", "extra_ids": 100}
    yield "any_bpe", any_bpe, base | {"add_bos_token": True}
    yield "any_unigram", any_unigram, base | {"legacy": False}


def make_folders():
    lines = [text for name in ("calibrate", "evaluate") for text in (ROOT / f"models/demo/texts/{name}.txt").read_text(encoding="utf-8").splitlines()]
    hard = json.loads((FIXTURES / "tokenizer_cases.json").read_text(encoding="ascii"))
    categories = {}
    for case in hard["cases"]:
        text = case["text"]
        categories.setdefault(case["category"], []).append(text if isinstance(text, str) else text["repeat"] * text["times"])
    blocks = [sweep_text(block["first"], block["last"]) for block in hard["sweep"]]
    made = {"cases": {}, "sweep": {}, "texts": {}}
    for number, (name, tokenizer, config) in enumerate(folders(lines)):
        folder = FIXTURES / "tokenizer_folders" / name
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(tokenizer, bytes):
            (folder / "tokenizer.model").write_bytes(tokenizer)
        else:
            (folder / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), separators=(",", ":")) + "\n", encoding="ascii")
        write(folder / "tokenizer_config.json", config)
        backend = AutoTokenizer.from_pretrained(folder).backend_tokenizer
        made["cases"][name] = {category: digest_of_all(backend, texts) for category, texts in categories.items()}
        made["sweep"][name] = {i: digest_of_all(backend, [blocks[i]]) for i in range(len(blocks)) if i < 8 or i % 5 == number % 5}
        made["texts"][name] = [[text, ids, backend.decode(ids, skip_special_tokens=False), backend.decode(ids)] for text in EXTRA + MORE for ids in [backend.encode(text).ids]]
    rows = [f'"{key}":{{\n' + ",\n".join(f'"{name}":{json.dumps(part, separators=(",", ":"))}' for name, part in value.items()) + "\n}" for key, value in made.items()]
    (FIXTURES / "tokenizer_folders.json").write_text("{" + ",\n".join(rows) + "}\n", encoding="ascii")


def token(content, number=None, **flags):
    made = {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return ({} if number is None else {"id": number}) | made | flags


def special_cases(base):
    first = base["added_tokens"][:3]
    size = len(base["model"]["vocab"])
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    bare = {"added_tokens": first}

    def case(name, text, patch=bare, special_map=None, added=None, **more):
        files = {"tokenizer_config.json": config | more}
        if special_map:
            files["special_tokens_map.json"] = special_map
        if added:
            files["added_tokens.json"] = added
        return {"name": name, "patch": patch, "files": files, "text": text}

    def add(*tokens):
        return {"added_tokens": first + list(tokens)}

    stripping = dict(lstrip=True, rstrip=True)
    yield case("out of order", "<|x|><|y|>", add(token("<|y|>", size + 1), token("<|x|>", size)))
    yield case("gap", "<|x|> a", add(token("<|x|>", size + 5)))
    yield case("twice", "<|x|> a", add(token("<|x|>", size), token("<|x|>", size + 1, special=False, normalized=True)))
    yield case("same id", "<|y|><|x|> a", add(token("<|x|>", size), token("<|y|>", size)))
    yield case("taken id", "<|x|> a", add(token("<|x|>", 10)))
    yield case("of the model", "a<|x|> a", add(token("a", 9)))
    yield case("decoder", "a  <|z|>  b", added_tokens_decoder={str(size): token("<|z|>", special=False, **stripping)})
    yield case("decoder, other id", "a  <|z|>  b", added_tokens_decoder={str(size + 10): token("<|z|>", special=False)})
    yield case("decoder, other flags", "a  </s>  b", added_tokens_decoder={"2": token("</s>", **stripping)})
    yield case("decoder over added", "a  <|x|>  b", add(token("<|x|>", size, special=False)), added_tokens_decoder={str(size): token("<|x|>", **stripping)})
    yield case("decoder, other text", "a  <|q|>  b", add(token("<|x|>", size, special=False)), added_tokens_decoder={str(size): token("<|q|>")})
    yield case("decoder hides map", "a <|n|> b", special_map={"pad_token": "<|n|>"}, added_tokens_decoder={})
    yield case("decoder hides added", "a <|n|> b", added={"<|n|>": size}, added_tokens_decoder={})
    yield case("decoder, named", "a <|n|> b", pad_token="<|n|>", added_tokens_decoder={str(size): token("<|n|>", special=False)})
    yield case("added file", "a  <|n|>  b", added={"<|n|>": size + 5, "<|m|>": size})
    yield case("added file, special", "a  <|n|>  b", added={"<|n|>": size}, pad_token="<|n|>")
    yield case("pad", "a [PAD] b", pad_token="[PAD]")
    yield case("pad with flags", "a  <|n|>  b", pad_token={"__type": "AddedToken"} | token("<|n|>", lstrip=True, normalized=True))
    yield case("map", "a  <|n|>  b", special_map={"pad_token": "<|n|>"})
    yield case("map with flags", "a  <|n|>  b", special_map={"pad_token": {"content": "<|n|>", "lstrip": True, "rstrip": False, "normalized": True, "single_word": False}})
    yield case("map, further", "a  <|n|>  b", special_map={"additional_special_tokens": ["<|n|>"]})
    yield case("further", "a <|x|> b <|y|>", additional_special_tokens=["<|x|>", "<|y|>"])
    yield case("extra", "a  <|n|>  <|m|> b", extra_special_tokens=["<|n|>", {"__type": "AddedToken", "content": "<|m|>", "lstrip": True}])
    yield case("extra by name", "a  <|n|>  b", extra_special_tokens={"image_token": "<|n|>"})
    yield case("of one model", "a <|n|> b", image_token="<|n|>")
    yield case("further of the model", "a b", additional_special_tokens=["a"])
    yield case("bos is new", "a<|b|> b", bos_token="<|b|>")
    yield case("split special", "<s>a</s> <|x|>", add(token("<|x|>", size, special=False)), split_special_tokens=True)
    yield case("around", "a b", add_bos_token=False, add_eos_token=True)
    yield case("named of the file", "a<|x|> b", add(token("<|x|>", size, special=False)), pad_token="<|x|>")


def make_special():
    base = json.loads((FIXTURES / "tokenizers/one_word/tokenizer.json").read_text(encoding="ascii"))
    cases = []
    for case in special_cases(base):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in ({"tokenizer.json": base | case["patch"]} | case["files"]).items():
                write(Path(folder, name), content)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = tokenizer(case["text"]).input_ids
        cases.append(case | {"ids": ids, "decoded": tokenizer.decode(ids), "skipped": tokenizer.decode(ids, skip_special_tokens=True)})
    path = FIXTURES / "special_tokens.json"
    path.write_text('{"cases":[\n' + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]}\n", encoding="ascii")


def write(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make_merges()
    make_folders()
    make_special()
