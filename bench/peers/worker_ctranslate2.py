#!/usr/bin/env python3
"""CTranslate2 as a worker. It generates by itself: steps are timed between its calls back."""

import json
import time
from pathlib import Path

import protocol

a = protocol.arguments(__doc__)


def convert(model, out):
    from ctranslate2.converters import TransformersConverter

    if a.form == "float32":
        TransformersConverter(model).convert(out, force=True)
    else:
        # From the folder's own source: a converted model is no input to the converter.
        source = Path(model).with_name(Path(model).name.removesuffix("-ctranslate2"))
        TransformersConverter(str(source)).convert(out, quantization=a.form, force=True)


class CTranslate2:
    def __init__(self, folder, precision, threads):
        import ctranslate2

        if precision not in ("float32", "int8"):
            raise ValueError(f"{precision}: CTranslate2 runs float32 and int8 here")
        known = ctranslate2.get_supported_compute_types("cpu")
        kind = "int8_bfloat16" if precision == "int8" and "int8_bfloat16" in known else precision
        self.generator = ctranslate2.Generator(
            str(folder), device="cpu", compute_type=kind, inter_threads=1, intra_threads=threads
        )
        self.weight_bytes = (Path(folder) / "model.bin").stat().st_size
        self.words = json.loads((Path(folder) / "vocabulary.json").read_text(encoding="utf-8"))
        self.threads = threads
        self.label = f"CTranslate2 {ctranslate2.__version__}"
        if precision != "float32":
            self.label += f" ({self.generator.compute_type})"

    def generate(self, ids, new_tokens, on_token=None):
        results = self.generator.generate_batch(
            [[self.words[i] for i in row] for row in ids],
            min_length=new_tokens,
            max_length=new_tokens,
            sampling_topk=1,
            beam_size=1,
            include_prompt_in_result=False,
            callback=on_token,
        )
        return [result.sequences_ids[0] for result in results]

    def prefill(self, ids):
        return [row[0] for row in self.generate(ids, 1)]

    def decode(self, ids, new_tokens):
        ends = {}  # for each step: when its last sequence's id was handed out

        def on_token(result):
            ends[result.step] = time.perf_counter()
            return False

        out = self.generate(ids, new_tokens + 1, on_token)
        times = [ends[step] for step in sorted(ends)]
        return [later - earlier for earlier, later in zip(times, times[1:])], out

    def logits(self, ids):
        import numpy as np

        return np.array(self.generator.forward_batch([ids], return_log_probs=False))[0, -1]


if __name__ == "__main__":
    convert(*a.convert) if a.convert else protocol.serve(CTranslate2)
