#!/usr/bin/env python3
"""ONNX Runtime as a worker, on the graph that optimum exports, cut so that it computes the logits of the last position.

The session is driven directly, outputs bound to memory: no copy and no framework stands in the measured time.
"""

import json
import shutil
from pathlib import Path

import protocol

a = protocol.arguments(__doc__)
import numpy as np  # noqa: E402  (after the settings it reads)
from cases import some_ids  # noqa: E402

CALIBRATION_PROMPTS, CALIBRATION_LENGTH = 8, 64


def convert(model, out):
    if a.form != "float32":
        return quantize(Path(model), Path(out))
    from optimum.onnxruntime import ORTModelForCausalLM

    ORTModelForCausalLM.from_pretrained(model, export=True).save_pretrained(out)
    keep_last_position(Path(out) / "model.onnx")


def keep_last_position(file):
    """Puts a slice of the last position before the product that gives the logits. Weights in files of their own stay
    there, untouched."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load(file, load_external_data=False)
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    node = makers["logits"]
    while node.op_type not in ("MatMul", "Gemm"):  # casts and the like may follow it
        node = makers[node.input[0]]
    for name, value in (("starts", -1), ("ends", 2**63 - 1), ("axes", 1)):
        graph.initializer.append(helper.make_tensor(f"last_position_{name}", TensorProto.INT64, [1], [value]))
    inputs = [node.input[0], *(f"last_position_{name}" for name in ("starts", "ends", "axes"))]
    at = list(graph.node).index(node)
    graph.node.insert(at, helper.make_node("Slice", inputs, ["last_position"], name="last_position"))
    node.input[0] = "last_position"
    logits = next(each for each in graph.output if each.name == "logits")
    logits.type.tensor_type.shape.dim[1].dim_value = 1
    onnx.save(model, file)


def heads_of(config):
    """Of keys and values."""
    return config["n_head"] if "n_head" in config else config["num_key_value_heads"]


def head_dim_of(config):
    if config.get("head_dim"):
        return config["head_dim"]
    if "n_head" in config:
        return config["n_embd"] // config["n_head"]
    return config["hidden_size"] // config["num_attention_heads"]


def is_large(source):
    """Whether the weights lie in files of their own, as protobuf's limit of 2 GB demands."""
    return any(source.parent.glob(source.name + "_data"))


def quantize(folder, out):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "config.json", out)
    source, target = with_head_of_its_own(folder / "model.onnx"), out / "model.onnx"
    if a.form == "int8-dynamic":
        quantize_dynamic(
            source, target, per_channel=True, weight_type=QuantType.QInt8, use_external_data_format=is_large(source)
        )  # fmt: skip
    else:
        quantize_static_products(source, target, json.loads((folder / "config.json").read_text()))
    for file in folder.glob("head_of_its_own.onnx*"):
        file.unlink()


def with_head_of_its_own(source):
    """A file beside `source` in which the head multiplies a constant of its own, as the quantizer demands, and not the
    transposed embedding; `source` where it does already."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(source, load_external_data=False)
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    held = {tensor.name: tensor for tensor in graph.initializer}
    head = next(node for node in graph.node if "last_position" in node.input)
    transpose = makers.get(head.input[1])
    if transpose is None or transpose.op_type != "Transpose" or transpose.input[0] not in held:
        return source
    embedding = numpy_helper.to_array(held[transpose.input[0]], base_dir=str(source.parent))
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(embedding.T), "head_weight"))
    head.input[1] = "head_weight"
    target = source.with_name("head_of_its_own.onnx")
    if is_large(source):
        target.with_name(target.name + "_data").touch()  # says to is_large() that there are such files
    onnx.save(model, target)
    return target


def quantize_static_products(source, target, config):
    """Matrix multiplications with weights, the LM head among them; their outputs stay float32."""
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    graph = onnx.load(source, load_external_data=False).graph
    held = {tensor.name for tensor in graph.initializer}
    products = [n.name for n in graph.node if n.op_type in ("Gemm", "MatMul") and n.input[1] in held]
    past = np.zeros((1, heads_of(config), 0, head_dim_of(config)), np.float32)
    inputs = [i.name for i in graph.input]
    feeds = []
    for seed in range(CALIBRATION_PROMPTS):
        ids = np.array([some_ids(CALIBRATION_LENGTH, seed, config["vocab_size"])], np.int64)
        known = feed(ids, 0)
        feeds.append({name: known.get(name, past) for name in inputs})

    class Reader:  # what quantize_static asks of a CalibrationDataReader
        left = iter(feeds)

        def get_next(self):
            return next(self.left, None)

    quantize_static(
        source, target, Reader(), quant_format=QuantFormat.QDQ, op_types_to_quantize=["Gemm", "MatMul"],
        nodes_to_quantize=products, per_channel=True, activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8, use_external_data_format=is_large(source),
        extra_options={"OpTypesToExcludeOutputQuantization": ["Gemm", "MatMul"]},
    )  # fmt: skip


def feed(ids, past):
    """Inputs of new ids [batch, rows] after `past` others, but for the keys and values."""
    batch, rows = ids.shape
    return {
        "input_ids": ids,
        "attention_mask": np.ones((batch, past + rows), np.int64),
        "position_ids": np.tile(np.arange(past, past + rows, dtype=np.int64), (batch, 1)),
    }


class OnnxRuntime:
    def __init__(self, folder, precision, threads):
        import onnxruntime as ort

        if precision == "bfloat16":
            raise ValueError(f"{precision}: ONNX Runtime runs float32 and int8 here")
        if a.isa:
            raise ValueError("ONNX Runtime cannot be limited to an instruction set")
        self.ort = ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.session = ort.InferenceSession(
            str(Path(folder) / "model.onnx"), options, ["CPUExecutionProvider"]
        )
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        self.heads, self.head_dim = heads_of(config), head_dim_of(config)
        self.vocab = config["vocab_size"]
        self.weight_bytes = sum(file.stat().st_size for file in Path(folder).glob("model.onnx*"))
        self.inputs = {i.name for i in self.session.get_inputs()}
        self.past = sorted(name for name in self.inputs if name.startswith("past_key_values"))
        self.threads = threads
        self.label = f"ONNX Runtime {ort.__version__}"
        logits = next(each for each in self.session.get_outputs() if each.name == "logits")
        self.has_all_positions = logits.shape[1] != 1
        self.kept = {}  # logits buffers by shape

    def run(self, ids, past, length):
        """One forward pass over new ids [batch, rows] after `length` cached ones: [batch, rows or 1, vocab]."""
        batch, rows = ids.shape
        binding = self.session.io_binding()
        for name, value in feed(ids, length).items():
            if name in self.inputs:
                binding.bind_cpu_input(name, np.ascontiguousarray(value))
        for name in self.past:
            binding.bind_ortvalue_input(name, past[name])
        shape = (batch, rows if self.has_all_positions else 1, self.vocab)
        logits = self.kept.setdefault(shape, np.empty(shape, np.float32))
        binding.bind_output("logits", "cpu", 0, np.float32, shape, logits.ctypes.data)
        for name in self.past:
            binding.bind_output(name.replace("past_key_values", "present"), "cpu")
        self.session.run_with_iobinding(binding)
        present = binding.get_outputs()[1:]
        return logits, dict(zip(self.past, present))

    def prefill(self, ids):
        empty = np.zeros((len(ids), self.heads, 0, self.head_dim), np.float32)
        past = {name: self.ort.OrtValue.ortvalue_from_numpy(empty) for name in self.past}
        self.length = len(ids[0])
        logits, self.state = self.run(np.array(ids, np.int64), past, 0)
        return logits[:, -1].argmax(-1).tolist()

    def step(self, last):
        logits, self.state = self.run(np.array(last, np.int64)[:, None], self.state, self.length)
        self.length += 1
        return logits[:, -1].argmax(-1).tolist()

    def logits(self, ids):
        self.prefill([ids])
        return self.kept[1, len(ids) if self.has_all_positions else 1, self.vocab][0, -1]


if __name__ == "__main__":
    convert(*a.convert) if a.convert else protocol.serve(OnnxRuntime)
