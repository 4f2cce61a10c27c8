#!/usr/bin/env python3
"""Writes tests/fixtures/dynamic_int8.safetensors: ONNX Runtime's dynamic quantization of tensors and of a model.

usage: tools/make_dynamic_int8_fixtures.py        (needs onnxruntime, optimum, torch)

NAME.x [rows, columns], NAME.codes and NAME.code, its [scale, zero point], are of DynamicQuantizeLinear. model.logits are
of quantize_dynamic, per channel, of the matrices in the blocks of tests/fixtures/models/base.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from optimum.onnxruntime import ORTModelForCausalLM
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"


def session_of(model):
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def quantizer():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, None])
    outputs = [helper.make_tensor_value_info("codes", TensorProto.UINT8, [None, None]),
               helper.make_tensor_value_info("scale", TensorProto.FLOAT, []),
               helper.make_tensor_value_info("zero_point", TensorProto.UINT8, [])]  # fmt: skip
    node = helper.make_node("DynamicQuantizeLinear", ["x"], [o.name for o in outputs])
    graph = helper.make_graph([node], "g", [x], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return session_of(model.SerializeToString())


def tensors(out):
    generator = np.random.default_rng(5)
    normal = generator.normal(0, 1, (21, 75))
    cases = {
        "normal": normal,
        "outliers": np.where(generator.random(normal.shape) < 0.01, normal * 20, normal),
        "positive": np.abs(normal) + 0.5,
        "negative": -np.abs(normal) - 0.25,
        "one_sided": np.where(normal > 0, normal * 3, normal * 0.05),
        "whole": np.rint(generator.uniform(-51, 204, normal.shape)) / 2,  # half of them between two codes
        "tiny": normal * 1e-30,
        "zeros": normal * 0,
    }
    cases["whole"][0, :2] = (-51, 204)
    session = quantizer()
    for name, x in cases.items():
        x = x.astype(np.float32)
        codes, scale, zero_point = session.run(None, {"x": x})
        out[f"{name}.x"], out[f"{name}.codes"] = torch.from_numpy(x), torch.from_numpy(codes)
        out[f"{name}.code"] = torch.tensor([float(scale), float(zero_point)])


def model_logits(out):
    model = FIXTURES / "models" / "base"
    ids = load_file(model / "expected.safetensors")["input_ids"].numpy().astype(np.int64)[None]
    with tempfile.TemporaryDirectory() as name:
        plain, quantized = Path(name) / "model.onnx", Path(name) / "quantized.onnx"
        ORTModelForCausalLM.from_pretrained(model, export=True, use_cache=False).save_pretrained(name)
        others = [node.name for node in onnx.load(plain).graph.node if node.op_type != "Gemm"]
        quantize_dynamic(plain, quantized, per_channel=True, weight_type=QuantType.QInt8,
                         op_types_to_quantize=["MatMul"], nodes_to_exclude=others)  # fmt: skip
        count = sum(node.op_type == "DynamicQuantizeLinear" for node in onnx.load(quantized).graph.node)
        print(f"{count} products")
        positions = np.arange(ids.shape[1], dtype=np.int64)[None]
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": positions}
        out["model.logits"] = torch.from_numpy(session_of(str(quantized)).run(None, feeds)[0][0])


def main():
    out = {}
    tensors(out)
    model_logits(out)
    save_file({k: v.contiguous() for k, v in out.items()}, FIXTURES / "dynamic_int8.safetensors")
    for name, tensor in out.items():
        print(f"{name:20} {str(tensor.dtype):14} {tuple(tensor.shape)}")


if __name__ == "__main__":
    main()
