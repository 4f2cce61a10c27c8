#!/usr/bin/env python3
"""Perplexity of a GPT-2 folder under ONNX Runtime's own quantization, static and dynamic, to hold `--precision int8-static`
and `int8-dynamic --input-scale per-tensor` against.

usage: tools/onnxruntime_ptq_reference.py MODEL CALIBRATION TEXT [--window 512]   (needs optimum, onnxruntime, torch)

The matrices of the blocks alone, as int8-static has them: unsigned codes of inputs, per-output int8 weights, outputs
left in float32. Both texts are cut into whole windows; their ids are written to DIR (--keep DIR), for

    assay perplexity MODEL DIR/text.ids --ids --context 512 --stride 512 --precision int8-static --calibrator minmax \\
        --calibration DIR/calibration.txt

whose result differs in nothing but the rounding of biases and of ties. Of dynamic quantization, which looks at the
inputs of a whole window, likewise: a step of Assay's takes up to 512 tokens, so `--window` is that at most.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.calibrate import CalibrationDataReader
from optimum.onnxruntime import ORTModelForCausalLM
from tokenizers import Tokenizer

METHODS = {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile,
           "entropy": CalibrationMethod.Entropy}  # fmt: skip


def session_of(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def windows_of(tokenizer, file, size):
    ids = np.array(tokenizer.encode(Path(file).read_text(encoding="utf-8"), add_special_tokens=False).ids)
    return [ids[i : i + size][None].astype(np.int64) for i in range(0, len(ids) - size + 1, size)]


def feed(ids):
    positions = np.arange(ids.shape[1], dtype=np.int64)[None]
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": positions}


class Windows(CalibrationDataReader):
    def __init__(self, windows):
        self.left = iter(windows)

    def get_next(self):
        ids = next(self.left, None)
        return None if ids is None else feed(ids)


def perplexity(path, windows):
    session, loss, count = session_of(path), 0.0, 0
    for ids in windows:
        logits = torch.from_numpy(session.run(None, feed(ids))[0])[0].double()
        targets = torch.from_numpy(ids[0])[1:]
        loss += torch.nn.functional.cross_entropy(logits[:-1], targets, reduction="sum").item()
        count += len(targets)
    return np.exp(loss / count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("calibration")
    parser.add_argument("text")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--keep", type=Path)
    a = parser.parse_args()
    tokenizer = Tokenizer.from_file(f"{a.model}/tokenizer.json")
    calibration, text = (windows_of(tokenizer, file, a.window) for file in (a.calibration, a.text))
    if a.keep:
        a.keep.mkdir(parents=True, exist_ok=True)
        np.savetxt(a.keep / "text.ids", np.concatenate(text, axis=1), fmt="%d")
        whole = tokenizer.decode(np.concatenate(calibration, axis=1)[0].tolist())
        (a.keep / "calibration.txt").write_text(whole, encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ORTModelForCausalLM.from_pretrained(a.model, export=True, use_cache=False).save_pretrained(folder)
        plain = folder / "model.onnx"
        nodes = onnx.load(plain).graph.node
        products = [node.name for node in nodes if node.op_type == "Gemm"]
        print(f"float32     {perplexity(plain, text):.4f}   ({len(products)} products)")
        for method in METHODS:
            quantized = folder / f"{method}.onnx"
            quantize_static(
                plain, quantized, Windows(calibration), quant_format=QuantFormat.QDQ, op_types_to_quantize=["Gemm"],
                nodes_to_quantize=products, per_channel=True, activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8, calibrate_method=METHODS[method],
                extra_options={"WeightSymmetric": True, "ActivationSymmetric": False,
                               "CalibTensorRangeSymmetric": False, "OpTypesToExcludeOutputQuantization": ["Gemm"]},
            )  # fmt: skip
            print(f"{method:11} {perplexity(quantized, text):.4f}")
        # It makes products of each Gemm before it chooses: what is left out is named.
        quantized, others = folder / "dynamic.onnx", [node.name for node in nodes if node.op_type != "Gemm"]
        quantize_dynamic(
            plain, quantized, per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"],
            nodes_to_exclude=others,
        )  # fmt: skip
        print(f"dynamic     {perplexity(quantized, text):.4f}")


if __name__ == "__main__":
    main()
