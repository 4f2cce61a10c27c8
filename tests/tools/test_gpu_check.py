"""What bench/gpu_check.py and bench/gpu_peers.py make of what other programs print."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import gpu_check_correct  # noqa: E402
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
