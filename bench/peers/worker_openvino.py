#!/usr/bin/env python3
"""OpenVINO as a worker, on the stateful graph that optimum-intel exports.

INFERENCE_PRECISION_HINT decides the arithmetic; keys and values are kept in the same one, not in 8 bits.
"""

from pathlib import Path

import protocol

a = protocol.arguments(__doc__)
import numpy as np  # noqa: E402  (after the settings it reads)

HINTS = {"float32": "f32", "bfloat16": "bf16"}


def convert(model, out):
    from optimum.intel import OVModelForCausalLM

    OVModelForCausalLM.from_pretrained(model, export=True, load_in_8bit=False, compile=False).save_pretrained(
        out
    )


class OpenVino:
    def __init__(self, folder, precision, threads):
        import openvino as ov

        if precision not in HINTS:
            raise ValueError(f"{precision}: expected one of {', '.join(HINTS)}")
        core = ov.Core()
        model = core.read_model(str(Path(folder) / "openvino_model.xml"))
        compiled = core.compile_model(
            model,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": HINTS[precision],
                "KV_CACHE_PRECISION": HINTS[precision],
                "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": 1,
                "PERFORMANCE_HINT": "LATENCY",
            },
        )
        self.request = compiled.create_infer_request()
        self.inputs = {name for port in compiled.inputs for name in port.get_names()}
        self.threads = threads
        self.kernels = str(compiled.get_property("INFERENCE_PRECISION_HINT"))
        self.label = f"OpenVINO {ov.__version__.split('-')[0]} (all logits)"

    def run(self, ids):
        """One forward pass over new ids [batch, rows]: [batch, rows, vocab], valid until the next."""
        batch, rows = ids.shape
        self.length += rows
        feeds = {
            "input_ids": ids,
            "attention_mask": np.ones((batch, self.length), np.int64),
            "position_ids": np.tile(np.arange(self.length - rows, self.length, dtype=np.int64), (batch, 1)),
            "beam_idx": np.arange(batch, dtype=np.int32),
        }
        self.request.infer({n: v for n, v in feeds.items() if n in self.inputs}, share_inputs=True)
        return self.request.get_tensor("logits").data

    def prefill(self, ids):
        self.request.reset_state()
        self.length = 0
        return self.run(np.array(ids, np.int64))[:, -1].argmax(-1).tolist()

    def step(self, last):
        return self.run(np.array(last, np.int64)[:, None])[:, -1].argmax(-1).tolist()

    def logits(self, ids):
        self.prefill([ids])
        return self.request.get_tensor("logits").data[0, -1]


if __name__ == "__main__":
    convert(*a.convert) if a.convert else protocol.serve(OpenVino)
