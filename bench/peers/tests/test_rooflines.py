"""What a case reads and computes at least, against counts by hand."""

import unittest

import support  # noqa: F401  (puts the modules on the path)
from cases import Case
from rooflines import SHAPES, need


class Shapes(unittest.TestCase):
    def test_have_the_weights_of_the_models_that_they_are_named_for(self):
        for name, millions in (("124m", 124.44), ("llama-1b", 1100.05), ("qwen3-0.6b", 596.05), ("qwen3-4b", 4022.47)):
            shape = SHAPES[name]
            total = sum(dims[0] * (dims[1] if len(dims) > 1 else 1) for _, dims in shape.tensors())
            self.assertAlmostEqual(total / 1e6, millions, places=2)

    def test_a_window_bounds_what_all_but_every_sixth_layer_sees(self):
        shape = SHAPES["gemma3-1b"]
        self.assertEqual(shape.seen([512]), 512)
        self.assertAlmostEqual(shape.seen([1000]), (4 * 1000 + 22 * 512) / 26)
        self.assertEqual(SHAPES["qwen3-0.6b"].seen([1000, 1]), 1001)


class Needs(unittest.TestCase):
    def test_of_a_decode_step(self):
        found = need("qwen3-0.6b", Case("d", "decode", 15, 1), "bfloat16")
        weights = 2 * 596_049_920 + 2 * SHAPES["qwen3-0.6b"].vector_elements()  # norms are in float32
        self.assertEqual(found.bytes, weights + 2 * 2 * 28 * 8 * 128 * 16)
        self.assertEqual(found.tokens, 1)

    def test_of_a_prefill(self):
        shape = SHAPES["124m"]
        found = need("124m", Case("p", "prefill", 4), "float32")
        products = 2 * 4 * shape.body_weights() + 2 * 50257 * 768
        self.assertEqual(found.operations, products + 12 * 4 * 768 * (1 + 2 + 3 + 4))


if __name__ == "__main__":
    unittest.main()
