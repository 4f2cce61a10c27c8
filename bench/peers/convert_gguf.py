#!/usr/bin/env python3
"""llama.cpp's convert_hf_to_gguf.py for a model whose vocabulary it cannot know.

usage: convert_gguf.py CHECKOUT MODEL OUT TYPE
"""

import runpy
import sys
from pathlib import Path

checkout, model, out, kind = sys.argv[1:]
sys.path[:0] = [checkout, str(Path(checkout) / "gguf-py")]
try:
    from conversion.base import TextModel  # where the converter is a package
except ImportError:
    import convert_hf_to_gguf

    TextModel = convert_hf_to_gguf.TextModel

# It names the splitting of text by a hash of what the tokenizer makes of a sample.
TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
# For Llama it asks for sentencepiece first, although the folder holds a byte-level vocabulary.
TextModel._set_vocab_sentencepiece = lambda self, add_to_gguf=True: self._set_vocab_gpt2()
sys.argv = ["convert_hf_to_gguf.py", model, "--outfile", out, "--outtype", kind]
runpy.run_path(str(Path(checkout) / "convert_hf_to_gguf.py"), run_name="__main__")
