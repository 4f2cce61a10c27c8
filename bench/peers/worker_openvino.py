#!/usr/bin/env python3
"""OpenVINO as a worker, on the stateful graph that optimum-intel exports, cut so that it computes the logits of the last
position.

INFERENCE_PRECISION_HINT decides the arithmetic, bfloat16 of quantized weights; keys and values are kept in the same one,
not in 8 bits.
"""

import json
from pathlib import Path

import protocol

a = protocol.arguments(__doc__)
import numpy as np  # noqa: E402  (after the settings it reads)
from cases import some_ids  # noqa: E402

HINTS = {"float32": "f32", "bfloat16": "bf16"}
# For weights: the arguments of nncf.compress_weights; the embedding and the head stay in int8 but for int4-all.
COMPRESSIONS = {
    "int8": {"mode": "int8_sym"},
    "int4": {"mode": "int4_sym", "group_size": 64},
    "int4-all": {"mode": "int4_sym", "group_size": 64, "all_layers": True},
    "nf4": {"mode": "nf4", "group_size": 64},
}
CALIBRATION_PROMPTS, CALIBRATION_LENGTH = 8, 64


def convert(model, out):
    if a.form != "float32":
        return quantize(Path(model) / "openvino_model.xml", Path(out))
    from optimum.intel import OVModelForCausalLM

    exported = OVModelForCausalLM.from_pretrained(model, export=True, load_in_8bit=False, compile=False)
    exported.save_pretrained(out)
    del exported
    keep_last_position(Path(out))


def keep_last_position(folder):
    """Puts the choice of the last position before the product that gives the logits."""
    import openvino as ov
    from openvino import opset8 as ops

    # From a file that goes when the new one is there: constants are read from it while that is written.
    old = folder / "all_positions"
    for suffix in (".xml", ".bin"):
        (folder / f"openvino_model{suffix}").rename(old.with_suffix(suffix))
    model = ov.Core().read_model(old.with_suffix(".xml"))
    node = model.output("logits").get_node().input_value(0).get_node()
    while node.get_type_name() != "MatMul":  # conversions may follow it
        node = node.input_value(0).get_node()
    hidden = node.input_value(0)
    last, axis = ops.constant([-1], dtype=np.int64), ops.constant(1, dtype=np.int64)
    node.input(0).replace_source_output(ops.gather(hidden, last, axis).output(0))
    model.validate_nodes_and_infer_types()
    ov.save_model(model, folder / "openvino_model.xml", compress_to_fp16=False)
    del model
    for suffix in (".xml", ".bin"):
        old.with_suffix(suffix).unlink()


def quantize(source, out):
    import nncf
    import openvino as ov

    model = ov.Core().read_model(source)
    if a.form == "w8a8":
        names = {name for port in model.inputs for name in port.get_names()}
        vocab = json.loads(source.with_name("config.json").read_text(encoding="utf-8"))["vocab_size"]
        prompts = [some_ids(CALIBRATION_LENGTH, seed, vocab) for seed in range(CALIBRATION_PROMPTS)]
        feeds = [{n: v for n, v in feed(np.array([ids]), 0).items() if n in names} for ids in prompts]
        model = nncf.quantize(
            model, nncf.Dataset(feeds), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(feeds)
        )
    else:
        how = COMPRESSIONS[a.form]
        model = nncf.compress_weights(model, **how | {"mode": nncf.CompressWeightsMode(how["mode"])})
    ov.save_model(model, out / source.name, compress_to_fp16=False)


def feed(ids, past):
    """Inputs of new ids [batch, rows] after `past` others; not every export has all of them."""
    batch, rows = ids.shape
    return {
        "input_ids": ids,
        "attention_mask": np.ones((batch, past + rows), np.int64),
        "position_ids": np.tile(np.arange(past, past + rows, dtype=np.int64), (batch, 1)),
        "beam_idx": np.arange(batch, dtype=np.int32),
    }


class OpenVino:
    def __init__(self, folder, precision, threads):
        import openvino as ov

        core = ov.Core()
        model = core.read_model(str(Path(folder) / "openvino_model.xml"))
        self.weight_bytes = (Path(folder) / "openvino_model.bin").stat().st_size
        # For quantized weights bfloat16 too, which held to AVX2 ends the process.
        hint = HINTS.get(precision, "f32" if a.isa == "avx2" else "bf16")
        compiled = core.compile_model(
            model,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": hint,
                "KV_CACHE_PRECISION": hint,
                "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": 1,
                "ENABLE_CPU_PINNING": True,
                "PERFORMANCE_HINT": "LATENCY",
            },
        )
        self.request = compiled.create_infer_request()
        self.inputs = {name for port in compiled.inputs for name in port.get_names()}
        self.threads = threads
        self.kernels = str(compiled.get_property("INFERENCE_PRECISION_HINT"))
        self.label = f"OpenVINO {ov.__version__.split('-')[0]}"
        logits = compiled.output("logits").get_partial_shape()
        self.has_all_positions = not (logits[1].is_static and logits[1].get_length() == 1)

    def run(self, ids):
        """One forward pass over new ids [batch, rows]: [batch, 1, vocab], valid until the next."""
        feeds = feed(ids, self.length)
        self.length += ids.shape[1]
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
