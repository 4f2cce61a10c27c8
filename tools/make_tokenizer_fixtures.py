#!/usr/bin/env python3
"""Writes hard strings and their token ids by the `tokenizers` library, for the tests of text/.

tests/fixtures/tokenizer_cases.json: two tokenizers: `demo` (models/demo/tokenizer.json) and `gpt2` (vocab.json and merges.txt of the development
data, set up as GPT2TokenizerFast does: byte-level BPE, no space put before the text, <|endoftext|> special).
No special tokens are added around a text; those inside it are found. What the file holds:

    cases   [{category, text, demo, gpt2}]: a text over 300 characters is {"repeat": part, "times": count};
            over 64 ids are {"n": count, "sha256": of the ids as little-endian int32}
    sweep   [{first, last, demo, gpt2}]: each code point in three places, for the regex's classes: the text
            is the concatenation of f"a{c}1{c} {c}" for c in first..last (no surrogates), ids as a digest
    novel   {demo, gpt2}: heldout/novel.txt of the development data, ids as digests

The regex of tokenizers 0.23 (Oniguruma) follows Unicode 16 for \\p{L} and \\p{N}. Its \\s is the White_Space
property: U+0009-000D, 0020, 0085, 00A0, 1680, 2000-200A, 2028, 2029, 202F, 205F, 3000, and so neither
U+001C-001F nor U+180E, U+200B, U+FEFF. Letters newer than Unicode 12 are kept in a category of their own.

tests/fixtures/tokenizers/KIND/tokenizer.json: a small tokenizer of each kind in use, trained on the texts of
models/demo, and tests/fixtures/tokenizer_kinds.json, what they make of texts:

    cases   {kind: [digest]}: of the texts of tokenizer_cases.json, in its order
    sweep   {kind: [digest]}: of the texts of its sweep, in its order
    texts   [{text, kinds: {kind: {with, without, decoded, skipped}}}]: ids with and without special tokens
            around the text, and the text of the former, special tokens written out and skipped
    decode  {kind: [[ids, decoded, skipped]]}: of ids drawn at random, byte tokens above all

tests/fixtures/tokenizer_variants.json: the tokenizers llama3 and one_word of these with other steps around their
model, by whatever the library can do and by what models have that people use:

    variants  {name: {base, patch, cases: {category: digest}, sweep: {number: digest}}}: `patch` replaces parts of
              the base's tokenizer.json, a digest is of all texts of a category of tokenizer_cases.json, one after
              the other, or of a text of its sweep: the first four, and one in ten of the others

--check PROGRAM compares the ids that `PROGRAM tokenize` gives with those of the library for 1 MB of mixed text, for
every kind and variant.

A digest is the start of the SHA-256 of the ids with special tokens around them, as little-endian int32,
followed by the decoded text. --kinds writes this second part alone, which needs no development data.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from word_tokenizers import word_kinds, word_variants

ROOT = Path(__file__).resolve().parent.parent
LONGEST_TEXT, MOST_IDS = 300, 64
END = "<|endoftext|>"

# A word or two in each script, combining marks, joiners and all.
WORDS = """
Hello naïve Straße İstanbul œuvre Ðorđe Łódź Đắk Việt Ελληνικά Ἀρχιμήδης Привет Ёлка Ѳита Українська Հայերեն
ქართული Ⴀⴀ עברית שָׁלוֹם العربية مُحَمَّد فارسی‌ها اردو ܣܘܪܝܝܐ ދިވެހި ߒߞߏ हिन्दी क्षत्रिय नमस्ते श्री‍ বাংলা
ক্ষ ਪੰਜਾਬੀ ગુજરાતી ଓଡ଼ିଆ தமிழ் ஸ்ரீ తెలుగు ಕನ್ನಡ മലയാളം ക്ഷ සිංහල ශ්‍රී ภาษาไทย น้ำ ที่นี่ ພາສາລາວ བོད་སྐད་
မြန်မာ က္ခ 한국어 한글 가각 ㄱㄴㄷ አማርኛ ትግርኛ ᏣᎳᎩ ᏣᎳᎩꭰ ᓀᐦᐃᔭᐍᐏᐣ ᚁᚂ ᚠᚢᚦ ខ្មែរ ᠮᠣᠩᠭᠣᠯ 中文 汉字漢字 𠀀𠀁𪚥 日本語
ひらがな カタカナ ﾊﾝｶｸ ゕゖ 々〆〇 ㄅㄆㄇ 彝语ꆈꌠ ꦧꦱꦗꦮ ᬩᬮᬶ ᜏᜒᜃᜅ᜔ ⴰⵎⴰⵣⵉⵖ ꓡꓲꓢꓴ 𐌰𐌱𐍉 𐤀𐤁 𒀀𒁀 𓀀𓂀 𐎀𐎁 𞤀𞤣𞤤 𝒜𝒷𝕮𝖉 𝟘𝟙𝟚
𝔘𝔫𝔦 Ａｂｃ ｆｕｌｌ ªº ǅǈǋ ʰʷˠ ˈɪpə ﬁﬂ ﷺ
""".split()
# The White_Space characters, and others that look like them but are not.
BLANKS = [*"\t\n\v\f\r \x85\xa0\u1680", *map(chr, range(0x2000, 0x200B)), *"\u2028\u2029\u202f\u205f\u3000",
          *"\x1c\x1d\x1e\x1f\u180e\u200b\u200c\u200d\u2060\ufeff\u00ad\u2800\u3164"]  # fmt: skip
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'VE", "'M", "'LL", "'D",
                "'Re", "'lL", "'x", "'sx", "'llama", "''s", "'", "\u2019s", "\u2018t", "\u2019ll", "`s", "'\u0301s"]  # fmt: skip
DIGITS = ["0", "42", "1234567890", "3.14159", "1,000,000", "-273.15e+10", "0x7fFF", "1st2nd", "\u00bd\u00bc\u2153", "x\u00b2\u00b3",
          "H\u2082O", "\u2160\u2161\u2162\u216b", "\u2180\u2188", "\u2460\u2473\u24ff", "\u0660\u0661\u0669", "\u06f0\u06f9", "\u0966\u096f", "\u09e6\u09f4",
          "\u0e50\u0e59", "\u1040", "\u17e0\u17f0", "\uff10\uff19", "\u3007\u4e00\u4e8c\u4e09", "\u3021\u3029", "\U0001d7ce\U0001d7ff", "\U00010107\U00010130",
          "\u0bf0\u0bf1\u0bf2", "\u2189", "\u2cfd", "\U0001f100\U0001f10c", "\U0001fbf0"]  # fmt: skip
EMOJI = ["😀", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🏴‍☠️", "🇫🇷🇯🇵", "🇫", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
         "❤️", "❤", "☺︎", "1️⃣", "#️⃣", "👋🏻👋🏿", "🧑🏾‍🤝‍🧑🏻", "🫠", "🪿", "©️", "™", "\ufe0f", "\u200d", "🏽", "♀️"]  # fmt: skip
PUNCTUATION = ["!", "!!!", "...", "\u2026", "?!", "--", "\u2014", "---", "\"", "\"\"\"", "\u201cquoted\u201d", "\u00abquoted\u00bb", "(a)", "[b]", "{c}",
               "$5", "\u20ac5", "5%", "#tag", "@name", "a&b", "*a*", "_a_", "__init__", "a_b", "~", "^", "|", "\\", "\\n", "//",
               "<>", "<=>", "\u00a1hola!", "\u00bfque?", "\u3002\u3001", "\uff01\uff1f", "\u300c\u6f22\u300d", "\u0964\u0965", "\u060c\u061f", "\u05be", "\u00b7",
               "\u2022 a", "\u2192", "\u2200x\u2203y", "\u222b\u2211", "\u2500\u2502\u2588", "\u00a7\u00b6", "\u00b0C", "\u00b1\u00d7\u00f7", "\ufffd", "\ufffc", "\uffff", "\U0010ffff"]  # fmt: skip
CODE = ["int main(void) { return 0; }", "for (int i = 0; i < n; ++i)\n\tsum += a[i];\n", "def f(x):\n    return x**2\n",
        "    if x:\n        pass\n\n\n    else:\n\t\tpass", "a->b::c<d>(e&&f||!g)", "x = {'a': 1, \"b\": [2, 3]}", "#include <vector>\r\n",
        "SELECT * FROM t WHERE id='1';--", "/* comment */ // end", "<div class=\"a\">&nbsp;</div>", "s/\\d+/\\1/g", "0b1010_0101ULL",
        "https://example.org/a/b?c=d&e=%20f#g", "http://xn--e1afmkfd.example/~user/", "mail.name+tag@example.co.uk", "C:\\dir\\file.txt",
        "/usr/lib/x.so.1", "192.168.0.1:8080", "2026-01-31T12:34:56Z", "v1.2.3-rc4", "camelCaseWord SNAKE_CASE kebab-case",
        "{{template}} ${VAR} %s %d", "\\u0041\\x00", "$$\\frac{1}{2}$$", "| a | b |\n|---|---|\n", "- [ ] todo\n  - [x] done"]  # fmt: skip
ENGLISH = ["It's the dog's, isn't it?", "They've said we'll go; I'd rather he'd not, I'm sure you're right.", "DON'T SHOUT, IT'S RUDE!",
           "rock 'n' roll 'tis '90s", "  leading", "trailing  ", "two  blanks", "a b c d e", "Mr. Smith paid $3.50 (or so).",
           "antidisestablishmentarianism", "supercalifragilisticexpialidocious", "= Robert <unk> =\n", "1 @,@ 000 @-@ year @.@ 5",
           "Once upon a time,\nin a land far, far away,\n\nthere lived", "x" * 60, "The quick brown fox jumps over the lazy dog."]  # fmt: skip
# First letters or digits of blocks that came with each version, and the last characters of older ones.
RECENT = {
    13: "\u08be\u08c7\u9ffc\ua7c7\ua7ca\ua7f5\uab68\U00010e80\U00010ea9\U00010fb0\U00011900\U0001193f\U00011950\U00011959\U00018b00\U0002a6dd\U00030000\U0003134a\U0001fbf5",
    14: "\u0870\u088e\u0c5d\u0cdd\u2c2f\u2c5f\u9ffd\u9fff\ua7c0\ua7d0\ua7f2\U00010570\U00010780\U00012f90\U00016a70\U0001df00\U0001e290\U0001e7e0\U0002b738",
    15: "\U00011f02\U00011f04\U00011f50\U00011f59\U00013441\U0001d2c0\U0001df25\U0001e030\U0001e4d0\U0001e4f0\U0002b739\U00031350\U000323af\U0002ebf0\U0002ee5d",
    16: "\u1c89\u1c8a\ua7cb\ua7cd\ua7da\ua7dc\U000105c0\U00010d40\U00010d4a\U00010ec2\U00011380\U000113d1\U000116d0\U00011bc0\U00011bf0\U00013460\U000143fa\U00016100\U00016130\U00016d40\U00016d70\U00018cff\U0001ccf0\U0001e5d0\U0001e5f1",
    17: "\ua7ce\ua7d2\ua7f1\U00010940\U00016ea0\U00018d80\U0002b73a\U0002ceae\U00033479",
}  # fmt: skip
# Blocks to draw from at random. The order and the bounds fix what the seed gives, so: append only.
BLOCKS = [(0x00, 0x7F), (0x20, 0x7E), (0x80, 0x17F), (0x180, 0x2FF), (0x300, 0x36F), (0x370, 0x52F), (0x531, 0x5F4),
          (0x600, 0x7FF), (0x900, 0xDFF), (0xE01, 0xFFF), (0x1000, 0x11FF), (0x1200, 0x18AF), (0x1D00, 0x1FFF),
          (0x2000, 0x206F), (0x2070, 0x218F), (0x2190, 0x2BFF), (0x2C00, 0x2DFF), (0x2E80, 0x33FF), (0x3400, 0x9FEF),
          (0xA000, 0xABF9), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0xF900, 0xFFFD), (0x10000, 0x1018E), (0x10280, 0x10A9F),
          (0x11000, 0x11AFF), (0x12000, 0x1246E), (0x13000, 0x1342E), (0x1B000, 0x1B2FB), (0x1D000, 0x1D7FF),
          (0x1E800, 0x1E95F), (0x1F000, 0x1FAFF), (0x20000, 0x2A6D6), (0x2F800, 0x2FA1D), (0xE0001, 0xE01EF),
          (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)]  # fmt: skip


def make_texts():
    """(category, text) in order, with repeats. A text is a string, or (part, times)."""
    for word in WORDS:
        yield from (("scripts", form) for form in (word, f" {word}", f"{word} {word}!", f"a{word}1{word}", f"\n\n{word}'s"))
    for mark in "\u0300\u0301\u0308\u0327\u20dd\u0489\u064b\u05b0\u093f\u0e34\u1ab0\ufe20\U0001d165":
        yield from (("marks", form) for form in (mark, f" {mark}", f"e{mark}", f"e{mark * 3}x", f"1{mark}2", f"!{mark}?", mark * 20))
    yield from (("marks", text) for text in ("cafe\u0301", "caf\u00e9", "Z\u0351\u036b\u0343a\u0300\u0301\u0302l\u0334\u0335g\u0336o\u0337", "\u1112\u1161\u11ab\u1100\u1173\u11af"))
    for emoji in EMOJI:
        yield from (("emoji", form) for form in (emoji, f" {emoji}", f"a{emoji}b", f"{emoji}{emoji}", f"ok {emoji}, {emoji}1"))
    for blank in BLANKS:
        forms = (blank, f"{blank}a", f"a{blank}", f"a{blank}b", f"{blank}{blank}a", f"a {blank}b", f"a{blank} b", f"{blank}1",
                 f"1{blank}{blank}!", f"\n{blank}\na", f"a{blank}'s", f"  {blank}  ")  # fmt: skip
        yield from (("blanks", form) for form in forms)
    for count in range(1, 41):
        yield from (("runs", form) for form in (" " * count, f"a{' ' * count}b", f"{' ' * count}\n", f"{chr(10) * count}a"))
    for code in [*range(0x20), *range(0x7F, 0xA0)]:
        yield from (("controls", form) for form in (chr(code), f"a{chr(code)}b", f" {chr(code)}{chr(code)} "))
    for text in ("\r\n", "\r\n\r\n", "a\r\nb", "a\r\n b", "a \r\n\r\n  b", "\r\r\n\n", "\n\r", "a\n", "a\n\n", "\n a", "\n  a\n", "a\r", " \r\n", "\t\r\n\tx", "\x00", "a\x00b", "\x00\x00"):
        yield "lines", text
    for short in CONTRACTIONS:
        yield from (("contractions", form) for form in (short, f"it{short}", f"IT{short} A", f" {short}", f"1{short}", f"!{short}", f"\u00e9{short}{short}"))
    for number in DIGITS:
        yield from (("digits", form) for form in (number, f" {number}", f"a{number}b", f"{number} {number}", f"{number}'s"))
    for marks in PUNCTUATION:
        yield from (("punctuation", form) for form in (marks, f" {marks}", f"a{marks}b", f"{marks * 4} x"))
    yield from (("code", text) for part in CODE for text in (part, f"  {part}", f"{part}\n{part}"))
    yield from (("english", text) for part in ENGLISH for text in (part, part.upper(), f"\n{part}\n"))
    for form in (END, f"a{END}b", f" {END} ", f"{END}{END}", f"{END} {END}", f"\n{END}\n", END[:-1], END[1:], f"<{END}>", f"<|{END}|>", "<|endoftext |>",
                 "<|ENDOFTEXT|>", "<|EndOfText|>", "<|end<|endoftext|>oftext|>", "<|endoftext|", "|>", "<|", "endoftext", f"it{END}'s", f"it'{END}s",
                 f"  {END}  a", f"a{END}\u0301", f"\u00e9{END}\u4e2d", "<|endoftext\u200b|>", "<|endof", "<|pad|>", "<s></s>", "[CLS]", f"1{END}2{END}3",
                 END * 5, f"{END}\r\n{END}", f"{END[:5]}{END}{END[5:]}"):  # fmt: skip
        yield "special", form
    for part, times in (("a", 10000), ("ab", 5000), ("the", 3334), ("\u00e9", 4000), ("\u4e2d", 4000), ("😀", 2500), (" ", 5000), ("\n", 5000), ("\t", 3000),
                        ("1", 10000), ("!", 10000), ("=", 4000), ("-", 1000), ("a ", 3000), (" a", 3000), ("\r\n", 2000), ("\u0301", 3000), ("\u00a0", 2000),
                        ("\u3000", 2000), (END, 300), (f"x{END} ", 200), ("it's ", 1000), ("abcdefghijklmnopqrstuvwxyz", 400), ("\x00", 1000),
                        ("Hello, world! ", 300), ("qzx", 3000), ("\U0010fffd", 1000), ("\u0e01\u0e34", 2000), ("aA1 ", 1000), ("  \n", 1000)):  # fmt: skip
        yield "long", (part, times)
    for version, letters in RECENT.items():
        yield "recent_unicode", f"Unicode {version}: {letters}"
        for c in letters:
            yield from (("recent_unicode", form) for form in (c, f"a{c}", f"1{c} {c}"))
    rng = random.Random(2019)
    for _ in range(350):
        blocks = rng.choices(BLOCKS, k=rng.randint(1, 3))
        yield "fuzz", "".join(chr(rng.randint(*rng.choice(blocks))) for _ in range(rng.randint(1, 16)))
    parts = [BLANKS, CONTRACTIONS, DIGITS, PUNCTUATION, WORDS, [" ", "  ", "\n", "a", "The", "ing", END, "<|", "|>", "'", "\U0001f600"]]
    for _ in range(450):
        yield "mixed", "".join(rng.choice(rng.choice(parts)) for _ in range(rng.randint(2, 7)))


def digest(ids):
    return {"n": len(ids), "sha256": hashlib.sha256(np.array(ids, dtype="<i4").tobytes()).hexdigest()}


def encode_all(tokenizers, text):
    return {name: tokenizer.encode(text, add_special_tokens=False).ids for name, tokenizer in tokenizers.items()}


def make_cases(tokenizers):
    seen = set()
    for category, recipe in make_texts():
        if recipe in seen:
            continue
        seen.add(recipe)
        text = recipe if isinstance(recipe, str) else recipe[0] * recipe[1]
        assert len(text) <= LONGEST_TEXT or not isinstance(recipe, str), text
        stored = text if len(text) <= LONGEST_TEXT else {"repeat": recipe[0], "times": recipe[1]}
        encoded = encode_all(tokenizers, text)
        for tokenizer in tokenizers:
            # Byte-level BPE loses nothing, special tokens included: a free check of the reference itself.
            assert tokenizers[tokenizer].decode(encoded[tokenizer], skip_special_tokens=False) == text
        yield {"category": category, "text": stored} | {
            name: ids if len(ids) <= MOST_IDS else digest(ids) for name, ids in encoded.items()
        }


def sweep_text(first, last):
    return "".join(f"a{c}1{c} {c}" for c in map(chr, range(first, last + 1)) if not "\ud800" <= c <= "\udfff")


def make_sweep(tokenizers):
    # Planes 4 to 13 are empty, and 15 and 16 are private use throughout.
    step = 0x1000
    for first in [*range(0, 0x40000, step), 0xE0000, 0xF0000, 0x10F000]:
        last = first + step - 1
        if text := sweep_text(first, last):
            yield {"first": first, "last": last} | {name: digest(ids) for name, ids in encode_all(tokenizers, text).items()}


MARK = "\u2581"  # a blank, as SentencePiece writes it
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# What stands beside the special tokens; their flags show in what becomes of the blanks and words around them.
ADDED = [AddedToken("<l>", lstrip=True, normalized=False), AddedToken("<r>", rstrip=True, normalized=False),
         AddedToken("<both>", lstrip=True, rstrip=True, normalized=False, special=True),
         AddedToken("the", single_word=True, normalized=False), AddedToken("ferry", normalized=True),
         AddedToken("two words", normalized=True), AddedToken("<n>", lstrip=True, rstrip=True, normalized=True)]  # fmt: skip
BEFORE = {"single": "<s> $A", "pair": "<s> $A <s> $B", "special_tokens": [("<s>", 1)]}
AROUND = {"single": "<s> $A </s>", "pair": "<s> $A </s> $B", "special_tokens": [("<s>", 1), ("</s>", 2)]}
EXTRA = ["", " ", "  ", "a", " a", "a ", "ferry", " ferry", "a ferry", "aferryb", "two words", "a two words b", "the", "other the other", " the",
         "<s>", "<s>a", "<s> a", "a<s>b", "a <s> b", " <s> ", "<s><s>", "<s>the</s>", "a<l>b", "a  <l>  b", "a<r>b", "a  <r>  b", "a  <both>  b", "\n<both>\na",
         "a <n> b", "x<n>y", "<l> ferry", "<s>ferry two words", "<unk>", "a<unk>b", "</s", f"{MARK}", f"a{MARK}b", f"{MARK} {MARK}", f"{MARK}a", f" {MARK}a",
         "<0x41>", "a<0x0A>b", "\n", "\t\t", "a\r\nb", "\x00", "a\x00b", "\u00e9", "caf\u00e9 na\u00efve", "\u4e2d\u6587", "a\u4e2db\u6587c", "😀", "a😀b 👩‍💻", "e\u0301",
         "1234567 12 1", "IT'S it's WE'LL '\u017f", "  many   blanks    here     ", "The ferry at Harrowmouth had been kept by a Penhallick for so many years.",
         "She said:\n\n  \"It is not\tthe rowing\", he'd say... 1,000,000!!!\r\n", "\U0001d7d8\u0660\u00b2x", "\u3000\u00a0\u2003a",
         # Normal form C: composed, put in order, singletons, what is never composed, Hangul, marks that block, an added token with a mark behind it.
         "cafe\u0301 nai\u0308ve A\u030angstro\u0308m", "\u1e9b\u0323 q\u0307\u0323 a\u0323\u0302", "\u212b\u2126\u212a \u1f71\u0344", "\u0958 \u2adc \ufb1d \U0001d15f",
         "\u1112\u1161\u11ab\u1100\u1173\u11af \uac00\u11a8 \u1100\uac00", "a\u05b0\u0301 e\u0334\u0301 a\u0300\u0301\u0302\u0328\u0327", "\u0301a \u0300 <s>\u0301b",
         "a\u0315\u0300\u05ae\u0062 \u0f71\u0f72\u0f74 \u0cc6\u0cc2\u0cd5", "the\u0301 ferry\u0323", "<n>\u0338 \u003e\u0338 =\u0338", "\uf900\U0002f800\u3099\u304b\u3099"]  # fmt: skip


def byte_level(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentencepiece_decoder(strips):
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strips else []))


def train(tokenizer, size, special, lines):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if special == SPECIAL else [])  # fmt: skip
    tokenizer.train_from_iterator(lines, trainer)
    return json.loads(tokenizer.to_str())


def all_merges(vocab):
    """The merges as files converted from SentencePiece have them: every two tokens that join to a third."""
    pieces = sorted((text for text in vocab if len(text) > 1 and text not in SPECIAL and text not in BYTES), key=vocab.get)
    splits = ((piece[:at], piece[at:]) for piece in pieces for at in range(1, len(piece)))
    return [list(split) for split in splits if split[0] in vocab and split[1] in vocab]


def finish(file, template=None, **model):
    """With the model's options set, and the tokens that are only added."""
    file["model"].update(model)
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] in SPECIAL]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.add_tokens(ADDED)
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(**template)
    return tokenizer


def make_kinds(lines):
    kinds = {}

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = byte_level(LLAMA3), decoders.ByteLevel()
    file = train(tokenizer, 600, SPECIAL, lines)
    # Some words can then be found whole, but not be made by merges.
    file["model"]["merges"] = [merge for i, merge in enumerate(file["model"]["merges"]) if i % 5 != 4]
    kinds["llama3"] = finish(file, BEFORE, ignore_merges=True)

    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.NFC(), byte_level(QWEN2)
    kinds["qwen2"] = finish(train(tokenizer, 500, SPECIAL, lines), AROUND)
    template = kinds["qwen2"].post_processor
    kinds["qwen2"].post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])

    # Llama 2: merges stay within words, runs of blanks apart, as SentencePiece trains them.
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), sentencepiece_decoder(True)
    file = train(tokenizer, 520, SPECIAL + BYTES, lines)
    vocab = file["model"]["vocab"]
    for run in (2, 4):
        vocab[MARK * run] = len(vocab)
    file["model"]["merges"] = all_merges(vocab)
    file["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]}  # fmt: skip
    file["pre_tokenizer"] = None
    kinds["llama2"] = finish(file, BEFORE, byte_fallback=True, fuse_unk=True)

    # Merges across words: the whole text is one word.
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    tokenizer.decoder = sentencepiece_decoder(True)
    kinds["one_word"] = finish(train(tokenizer, 600, SPECIAL + BYTES, lines), BEFORE, byte_fallback=True, fuse_unk=True)

    # The newer form of Llama 2; bytes from 0xC0 on have no token, so that many characters are unknown.
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(prepend_scheme="first", split=False), sentencepiece_decoder(False)
    kinds["metaspace_first"] = finish(train(tokenizer, 500, SPECIAL + BYTES[:0xC0], lines), BEFORE, byte_fallback=True, fuse_unk=True)

    for scheme in ("always", "never"):
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(prepend_scheme=scheme), decoders.Metaspace(prepend_scheme=scheme)
        kinds[f"metaspace_{scheme}"] = finish(train(tokenizer, 400, SPECIAL, lines), AROUND if scheme == "always" else None)
    return kinds | word_kinds(lines, finish, SPECIAL)


def short_digest(tokenizer, text):
    ids = tokenizer.encode(text).ids
    decoded = tokenizer.decode(ids, skip_special_tokens=False)
    return hashlib.sha256(np.array(ids, dtype="<i4").tobytes() + decoded.encode()).hexdigest()[:8]


def text_case(kinds, text):
    made = {}
    for name, tokenizer in kinds.items():
        ids = tokenizer.encode(text).ids
        made[name] = {"with": ids, "without": tokenizer.encode(text, add_special_tokens=False).ids,
                      "decoded": tokenizer.decode(ids, skip_special_tokens=False), "skipped": tokenizer.decode(ids)}  # fmt: skip
    return {"text": text, "kinds": made}


def random_ids(tokenizer, rng):
    """Ids of ordinary, special and byte tokens, the last often such as make characters together."""
    parts = [[i] for i in range(tokenizer.get_vocab_size())]
    characters = [[tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in text.encode()] for text in ("\u00e9", "\u4e2d", "😀", "\n")]
    characters = [ids for ids in characters if None not in ids]
    loose = [[i] for ids in characters for i in ids]
    special = [[tokenizer.token_to_id(text)] for text in (*SPECIAL, "<both>")]
    for _ in range(60):
        pools = [pool for pool in (parts, characters, characters, loose, special) if pool]
        ids = sum((rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 8))), [])
        yield [ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids)]


def line(value):
    """ASCII with escapes: no editor, diff or terminal can change what a line says."""
    return json.dumps(value, separators=(",", ":"))


def state(component):
    """A component as the library writes it."""
    return None if component is None else json.loads(component.__getstate__())


CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])  # fmt: skip
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")
# Where expressions differ in what they do between matches: empty ones, anchors, what is looked at, kept or ignored.
REGEXES = {"empty": "x*", "ahead": "(?=e)", "behind": "(?<=[aeiou])[^aeiou]", "line_start": "^.", "line_end": ".$", "word_bounds": r"\b",
           "keep": r"a\Kb", "previous": r"\G ", "caseless": "(?i)straße|the|ſ", "possessive": r"\w++", "atomic": r"(?>a+|.)", "back": r"(.)\1+",
           "classes": r"[\p{Han}\p{Hiragana}]+|[[:alpha:]]+|[\d&&[^0-4]]|\h", "lines": r"\R|\s", "clusters": r"\X", "dots": r"(?m:.{3})", "marks": r"\p{M}+|\p{P}|\p{S}|\p{Cf}"}  # fmt: skip


def variants():
    """(name, base, what replaces the parts of the base)"""
    pre, norm = pre_tokenizers, normalizers
    behaviors = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
    bytes_only = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2 = pre.ByteLevel(add_prefix_space=False)

    def split(pattern, behavior="isolated", invert=False):
        return pre.Split(Regex(pattern), behavior, invert)

    def steps(*all_steps):
        return {"pre_tokenizer": state(pre.Sequence(list(all_steps)))}

    def normal(*all_steps):
        return {"normalizer": state(norm.Sequence(list(all_steps)))}

    around = {"post_processor": state(processors.TemplateProcessing(**AROUND))}
    yield "neox", "llama3", normal(norm.NFC()) | {"pre_tokenizer": state(gpt2), "post_processor": state(processors.ByteLevel())}
    yield "opt", "llama3", {"normalizer": None, "pre_tokenizer": state(gpt2)} | around
    yield "cohere", "llama3", normal(norm.NFC()) | steps(pre.Digits(True), gpt2)
    yield "starcoder2", "llama3", steps(pre.Digits(True), gpt2)
    yield "falcon", "llama3", steps(pre.Punctuation("contiguous"), gpt2, pre.Digits(False), split("[0-9][0-9][0-9]"))
    yield "bloom", "llama3", steps(split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), bytes_only)
    yield "cl100k", "llama3", steps(split(CL100K), bytes_only)
    yield "cl100k_removed", "llama3", steps(split(CL100K, "removed", True), bytes_only)
    yield "llama3_removed", "llama3", steps(split(LLAMA3, "removed", True), bytes_only)
    yield "o200k", "llama3", steps(split(O200K), bytes_only)
    yield "tekken", "llama3", steps(split(TEKKEN), bytes_only)
    yield "deepseek", "llama3", steps(split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"), split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), pre.Digits(True), bytes_only)
    for behavior in behaviors:
        for invert in (False, True):
            yield f"{behavior}_{invert}".lower(), "llama3", steps(split("[aeiou]|\\s", behavior, invert), bytes_only)
        yield f"punctuation_{behavior}", "llama3", steps(pre.Punctuation(behavior), bytes_only)
        yield f"text_{behavior}", "llama3", steps(pre.Split("e", behavior), bytes_only)
    for name, pattern in REGEXES.items():
        yield f"regex_{name}", "llama3", steps(split(pattern), bytes_only)
        # Where nothing is replaced by something the library fails. Oniguruma 6.9.8 has older rules for clusters and
        # [[:alpha:]], and characters newer than its tables look alike to a back-reference.
        if name not in ("empty", "ahead", "word_bounds", "clusters", "classes", "back"):
            yield f"replace_{name}", "llama3", normal(norm.Replace(Regex(pattern), "-"))
    yield "text_empty", "llama3", steps(pre.Split("", "isolated"), bytes_only)
    for name, step in {"whitespace": pre.Whitespace(), "whitespace_split": pre.WhitespaceSplit(), "delimiter": pre.CharDelimiterSplit("e"), "digits": pre.Digits(False)}.items():
        yield name, "llama3", steps(step, bytes_only)
    yield "prefix_each", "llama3", steps(pre.Digits(True), pre.ByteLevel(add_prefix_space=True))
    yield "bytes_twice", "llama3", steps(gpt2, pre.Sequence([bytes_only, pre.Digits(True)]))
    yield "nfd", "llama3", normal(norm.NFD())
    yield "nfkc", "llama3", normal(norm.NFKC())
    yield "nfkd_lower", "llama3", normal(norm.NFKD(), norm.Lowercase())
    yield "lower_accents", "llama3", normal(norm.Lowercase(), norm.Sequence([norm.NFD(), norm.StripAccents()]))
    yield "accents", "llama3", normal(norm.StripAccents())
    yield "strip", "llama3", normal(norm.Strip())
    yield "strip_right", "llama3", normal(norm.Strip(left=False), norm.Replace("the", "a"))
    gemma = normal(norm.Replace(" ", MARK))
    yield "gemma", "one_word", gemma | {"pre_tokenizer": state(pre.Split(" ", "merged_with_previous")), "decoder": state(sentencepiece_decoder(False))}
    yield "marks_and_digits", "one_word", {"normalizer": None} | steps(pre.Metaspace(), pre.Digits(True))
    yield "lines_and_marks", "one_word", {"normalizer": None} | steps(split("\\n+"), pre.Metaspace(prepend_scheme="first"))
    yield "words_and_marks", "one_word", {"normalizer": None} | steps(pre.WhitespaceSplit(), pre.Metaspace(split=False))
    yield "marks_and_o200k", "one_word", {"normalizer": None} | steps(pre.Metaspace(prepend_scheme="never", split=False), split(O200K))
    yield from word_variants()


def patched(folder, base, patch):
    file = json.loads((folder / "tokenizers" / base / "tokenizer.json").read_text(encoding="ascii"))
    return file | patch


def write_variants(folder):
    cases = json.loads((folder / "tokenizer_cases.json").read_text(encoding="ascii"))
    texts = {}
    for case in cases["cases"]:
        text = case["text"]
        texts.setdefault(case["category"], []).append(text if isinstance(text, str) else text["repeat"] * text["times"])
    blocks = [sweep_text(block["first"], block["last"]) for block in cases["sweep"]]
    rows = []
    for name, base, patch in variants():
        tokenizer = Tokenizer.from_str(json.dumps(patched(folder, base, patch)))
        numbers = [i for i in range(len(blocks)) if i < 4 or i % 10 == len(rows) % 10]
        digests = {category: digest_of_all(tokenizer, part) for category, part in texts.items()}
        sweep = {i: digest_of_all(tokenizer, [blocks[i]]) for i in numbers}
        rows.append(f"{line(name)}:{line({'base': base, 'patch': patch, 'cases': digests, 'sweep': sweep})}")
    out = folder / "tokenizer_variants.json"
    out.write_text('{"variants":{\n' + ",\n".join(rows) + "\n}}\n", encoding="ascii")
    print(f"{len(rows)} variants, {out.stat().st_size} bytes")


def digest_of_all(tokenizer, texts):
    sha = hashlib.sha256()
    for text in texts:
        ids = tokenizer.encode(text).ids
        sha.update(np.array(ids, dtype="<i4").tobytes() + tokenizer.decode(ids, skip_special_tokens=False).encode())
    return sha.hexdigest()[:8]


def check_mixed_text(program, folder, demo):
    """Ids of 1 MB: prose, the hard texts, and runs of random characters, in random order."""
    rng = random.Random(1024)
    prose = (demo / "texts" / "evaluate.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    parts = prose + [recipe if isinstance(recipe, str) else recipe[0] * 40 for _, recipe in make_texts()]
    pieces, size = [], 0
    while size < 1_000_000:
        blocks = rng.choices(BLOCKS, k=2)
        fuzz = "".join(chr(rng.randint(*rng.choice(blocks))) for _ in range(rng.randint(1, 40)))
        pieces.append(rng.choice(rng.choice([prose, parts, [fuzz]])))
        size += len(pieces[-1].encode())
    text = "".join(pieces)
    folders = [(name.parent.name, json.loads(name.read_text(encoding="ascii"))) for name in sorted((folder / "tokenizers").glob("*/tokenizer.json"))]
    folders += [(name, patched(folder, base, patch)) for name, base, patch in variants()]
    bad = 0
    for name, file in folders:
        with tempfile.TemporaryDirectory() as made:
            Path(made, "tokenizer.json").write_text(json.dumps(file), encoding="ascii")
            Path(made, "text").write_bytes(text.encode())
            ran = subprocess.run([program, "tokenize", made, f"{made}/text"], capture_output=True, text=True, check=False)
        ours = [int(word) for word in ran.stdout.split()] if ran.returncode == 0 else []
        theirs = Tokenizer.from_str(json.dumps(file)).encode(text).ids
        first = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
        is_equal = ours == theirs
        bad += not is_equal
        print(f"{name}: {len(theirs)} ids, " + ("equal" if is_equal else f"they differ from number {first} on: {ours[first:first+8]}, {theirs[first:first+8]} {ran.stderr}"))
    return bad


def write_kinds(folder, demo):
    lines = [text for name in ("calibrate", "evaluate") for text in (demo / "texts" / f"{name}.txt").read_text(encoding="utf-8").splitlines()]
    kinds = make_kinds(lines)
    for name, tokenizer in kinds.items():
        path = folder / "tokenizers" / name / "tokenizer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(json.loads(tokenizer.to_str()), indent=0) + "\n", encoding="ascii")
    cases = json.loads((folder / "tokenizer_cases.json").read_text(encoding="ascii"))
    texts = [text if isinstance(text, str) else text["repeat"] * text["times"] for text in (case["text"] for case in cases["cases"])]
    blocks = [(block["first"], block["last"]) for block in cases["sweep"]]
    rng = random.Random(2023)
    parts = {
        "cases": {name: [short_digest(tokenizer, text) for text in texts] for name, tokenizer in kinds.items()},
        "sweep": {name: [short_digest(tokenizer, sweep_text(*block)) for block in blocks] for name, tokenizer in kinds.items()},
        "decode": {name: list(random_ids(tokenizer, rng)) for name, tokenizer in kinds.items()},
    }
    rows = [f"{line(key)}:{{\n" + ",\n".join(f"{line(name)}:{line(part)}" for name, part in value.items()) + "\n}" for key, value in parts.items()]
    rows.append('"texts":[\n' + ",\n".join(line(text_case(kinds, text)) for text in EXTRA) + "\n]")
    out = folder / "tokenizer_kinds.json"
    out.write_text("{" + ",\n".join(rows) + "}\n", encoding="ascii")
    print(f"{len(kinds)} kinds, {out.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, metavar="DIR", default=ROOT / "models" / "demo")
    parser.add_argument("--data", type=Path, default=os.environ.get("ASSAY_DEV_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--out", type=Path, metavar="DIR", default=ROOT / "tests" / "fixtures")
    parser.add_argument("--kinds", action="store_true", help="write only the second part, by the first as it is")
    parser.add_argument("--variants", action="store_true", help="write only the variants, by the other parts as they are")
    parser.add_argument("--check", metavar="PROGRAM", help="compare the ids of 1 MB of text, and write nothing")
    args = parser.parse_args()
    if args.check:
        sys.exit(1 if check_mixed_text(args.check, args.out, args.demo) else 0)
    if args.variants:
        return write_variants(args.out)
    if not args.kinds:
        write_cases(args)
    write_kinds(args.out, args.demo)
    write_variants(args.out)


def write_cases(args):
    from perplexity_reference import load_tokenizer

    data = Path(args.data)
    tokenizers = {"demo": load_tokenizer(args.demo), "gpt2": load_tokenizer(data / "gpt2-tokenizer")}
    novel = (data / "heldout" / "novel.txt").read_bytes().decode("utf-8")
    parts = {
        "cases": list(make_cases(tokenizers)),
        "sweep": list(make_sweep(tokenizers)),
        "novel": [{name: digest(ids) for name, ids in encode_all(tokenizers, novel).items()}],
    }

    blocks = [f"{line(name)}:[\n" + ",\n".join(map(line, parts[name])) + "\n]" for name in ("cases", "sweep")]
    text = "{" + ",\n".join([*blocks, f'"novel":{line(parts["novel"][0])}']) + "}\n"
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "tokenizer_cases.json").write_text(text, encoding="ascii")
    print(f"{len(parts['cases'])} cases, {len(parts['sweep'])} blocks, {len(text)} bytes")


if __name__ == "__main__":
    main()
