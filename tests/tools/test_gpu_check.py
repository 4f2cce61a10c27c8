"""What bench/gpu_check.py and bench/gpu_peers.py make of what other programs print."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import gpu_check_correct  # noqa: E402
import gpu_check_predicted  # noqa: E402
import gpu_check_times  # noqa: E402

HEAD = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'


def launch(number, kernel, ns, grid=8, registers=32, unit="ns"):
    rows = ("gpu__time_duration.sum", unit, ns), ("launch__grid_size", "", grid), ("launch__registers_per_thread", "register/thread", registers)  # fmt: skip
    return "".join(f'"{number}","7","{kernel}","{name}","{unit}","{value}"\n' for name, unit, value in rows)


class Nodes(unittest.TestCase):
    def test_are_read_with_thousands_separators_and_units(self):
        text = '==PROF== Connected\n{"ids": [1]}\n' + HEAD
        text += launch(0, "void assay::cuda::device::gpu::gemm_tiles<assay::HalfTiles<assay::Float16>, 1, 4>(assay::GemmArgs)", "1,179,200", "1,056", 229)
        text += launch(1, "next_token(NextTokenArgs)", "8.5", unit="us")
        self.assertEqual(gpu_check_times.read_launches(text),
                         [("gemm_tiles<HalfTiles<Float16>, 1, 4>", 1056.0, 229.0, 1179.2), ("next_token", 8.0, 32.0, 8.5)])  # fmt: skip

    def test_of_whole_decode_steps_alone_are_counted(self):
        step = [("qkv", 8, 60, 3.0), ("o", 8, 60, 2.0), ("next_token", 1, 76, 1.0)]
        prefill = [("gemm", 64, 200, 99.0), ("next_token", 1, 76, 1.0)]
        slower = [("qkv", 8, 60, 5.0), ("o", 8, 60, 4.0), ("next_token", 1, 76, 1.0)]
        steps = gpu_check_times.decode_steps(prefill + step + slower + slower + step[:1])
        self.assertEqual(steps, [step, slower, slower])
        self.assertEqual(gpu_check_times.table_of_nodes(steps),
                         {("qkv", 8, 60): (1, 5.0), ("o", 8, 60): (1, 4.0), ("next_token", 1, 76): (1, 1.0)})  # fmt: skip
        self.assertEqual(gpu_check_times.decode_steps(step), [])


def predicted(name, kind, us):
    return {"name": name, "kind": kind, "count": 2, "seconds": us * 1e-6}


def measured(name, kind, us, nodes, bytes=0):
    return {"name": name, "kind": kind, "count": 2, "nodes": nodes, "seconds": us * 1e-6, "bytes": bytes, "flops": 0}


class Lines:
    def __init__(self):
        self.lines = {}

    def add(self, what, passed, **facts):
        self.lines[what] = {key: round(value, 9) for key, value in facts.items()}


class Predictions(unittest.TestCase):
    KERNELS = [predicted("embed", "embedding", 0.1), predicted("qkv", "matmul", 4.0), predicted("qkv", "norm", 0),
               predicted("next_token", "choice", 1.0)]  # fmt: skip
    OPERATIONS = [measured("embed", "embedding", 0, 0), measured("qkv", "matmul", 6.0, 4, 3000), measured("next_token", "choice", 1.5, 2)]

    def test_stand_beside_the_operations_that_have_nodes(self):
        rows = gpu_check_predicted.compared(self.OPERATIONS, self.KERNELS)
        self.assertEqual([(row["name"], row["nodes"], round(row["predicted us"], 9), round(row["measured / predicted"], 9)) for row in rows],
                         [("qkv", 4, 4.0, 1.5), ("next_token", 2, 1.0, 1.5)])  # fmt: skip
        self.assertNotIn("predicted us", gpu_check_predicted.compared(self.OPERATIONS, None)[0])

    def test_stand_beside_whole_steps(self):
        report = Lines()
        profile = {"operations": self.OPERATIONS, "step_s": 10.2e-6}
        gpu_check_predicted.add_nodes(report, "1b nf4", profile, self.KERNELS, {"memory_read_gb_per_s": 2.0})
        self.assertEqual(report.lines, {
            "1b nf4 qkv": {"count": 2, "nodes": 4, "us": 6.0, "predicted us": 4.0, "measured / predicted": 1.5, "GB/s": 0.5,
                           "% of read rate": 25.0},
            "1b nf4 next_token": {"count": 2, "nodes": 2, "us": 1.5, "predicted us": 1.0, "measured / predicted": 1.5, "GB/s": 0,
                                  "% of read rate": 0},
            "1b nf4, a step": {"nodes": 6, "us": 10.2, "us of nodes": 7.5, "predicted us": 5.1, "measured / predicted": 2.0}})  # fmt: skip
        report = Lines()
        gpu_check_predicted.add_nodes(report, "demo", profile, None, None)
        self.assertEqual(report.lines["demo, a step"], {"nodes": 6, "us": 10.2, "us of nodes": 7.5})

    def test_are_asked_for_by_the_name_of_the_gpu(self):
        self.assertEqual(gpu_check_predicted.gpu_of("NVIDIA H100 PCIe"), "h100-pcie")
        self.assertEqual(gpu_check_predicted.gpu_of("NVIDIA H100 80GB HBM3"), "h100")
        self.assertIsNone(gpu_check_predicted.gpu_of("Tesla T4"))


class Suites(unittest.TestCase):
    def test_are_those_of_the_backend_with_their_parameters(self):
        listing = "Running main()\nCudaKernels.\n  Embeds\nBasic/CudaModel.  # TypeParam\n  Runs/base  # GetParam() = 1\nLlama.\n  Runs\n"
        self.assertEqual(gpu_check_correct.suites_of(listing), ["CudaKernels", "Basic/CudaModel"])


class Bounds(unittest.TestCase):
    def test_of_the_default_dtype_allow_more_than_the_strict_ones(self):
        for precision, bound in gpu_check_correct.STRICT.items():
            self.assertLess(bound, gpu_check_correct.DEFAULT.get(precision, 1), precision)


if __name__ == "__main__":
    unittest.main()
