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


def predicted(name, kind, count, us, launches=1):
    return {"name": name, "kind": kind, "count": count, "launches_each": launches, "seconds": us * count * 1e-6}


class Predictions(unittest.TestCase):
    KERNELS = [predicted("embed", "embedding", 1, 0.1, 0), predicted("qkv", "matmul", 2, 2.0, 2), predicted("attention", "attention", 2, 4.0),
               predicted("head", "matmul", 1, 10.0), predicted("choice", "choice", 1, 1.0, 2)]  # fmt: skip

    @staticmethod
    def step(extra=()):
        names = [("order_inputs", 0.5), ("ordered_codes<Bfloat16, 0>", 1.5), ("attend_step<64>", 6.0), ("merge_step_chunks", 2.0),
                 ("ordered_codes<Bfloat16, 0>", 4.0), ("attend_step<64>", 8.0), *extra, ("coded_int8<1>", 20.0),
                 ("best_keys", 1.0), ("next_token", 0.5)]  # fmt: skip
        return [(name, 8, 60, us) for name, us in names]

    def test_stand_beside_operations_in_the_order_of_a_step(self):
        self.assertEqual(gpu_check_predicted.compared([self.step(), self.step()], self.KERNELS),
                         {"qkv": (2, 3.0, 2.0), "attention": (2, 8.0, 4.0), "head": (1, 20.0, 10.0), "choice": (1, 1.5, 1.0)})  # fmt: skip

    def test_are_left_out_where_the_step_has_other_operations(self):
        self.assertIsNone(gpu_check_predicted.compared([self.step([("attend_step<64>", 1.0)])], self.KERNELS))

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
