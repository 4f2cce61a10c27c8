"""Which peers take part where all are held to an instruction set."""

import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401  (puts the modules on the path)
import models
from participants import Participant, Setting


def why_not(peer, isa):
    return Participant(peer, Setting("float32", 2, isa, "124m"), {0, 1}, None).why_not()


class Held(unittest.TestCase):
    def test_a_peer_takes_part_where_it_can_be_held(self):
        self.assertEqual(why_not("llama.cpp", "native"), "")
        self.assertEqual(why_not("llama.cpp", "avx2"), "")
        self.assertEqual(why_not("llama.cpp", "avx512"), "is not built for avx512 alone")
        self.assertEqual(why_not("onnxruntime", "native"), "")
        self.assertEqual(why_not("onnxruntime", "avx2"), "cannot be limited to an instruction set")
        self.assertEqual(why_not("torch", "avx512"), "")

    def test_the_build_of_an_instruction_set_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            peers = Path(folder)
            held = peers / "llama.cpp" / "build-avx2" / "bin" / "worker"
            held.parent.mkdir(parents=True)
            held.touch()
            self.assertEqual(models.llama_program(peers, "worker", "avx2"), held)
            self.assertEqual(models.llama_program(peers, "worker"), held)
            with self.assertRaisesRegex(OSError, "setup.sh --only llama.cpp$"):
                models.llama_program(peers, "worker", "native")


if __name__ == "__main__":
    unittest.main()
