// Writes a quantized model folder: one that Transformers with bitsandbytes loads, or int8 with its
// calibration (checkpoint/int8_checkpoint.h), which Assay alone reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assay/config/run_config.h"
#include "assay/quant/reconstruction.h"
#include "assay/results/results.h"

namespace assay {

// What is being done, how many of how many tensors are, and the seconds that are left; unset: not known yet.
// Called several times a second.
using QuantizeProgress = std::function<void(const std::string& now, std::int64_t done, std::int64_t all,
                                            std::optional<double> seconds_left)>;

struct QuantizeOptions {
  // The precision is nf4, fp4, nf4-dq, fp4-dq, llm-int8, int8-dynamic or int8-static; a dtype that is not set
  // is the model's own. Or float32 or bfloat16: then nothing is quantized (plain_folder.h). What a folder
  // cannot hold (an LM head in another format, a KV cache, ...) is an error.
  RunConfig config = {.precision = Preset::nf4};
  bool replaces = false;  // a model folder that stands at the target
  QuantizeProgress on_progress = {};
  std::function<bool()> should_stop = {};
};

struct QuantizedTensor {
  std::string name;
  std::string type = {};                           // in a GGUF file: "Q4_K"
  std::int64_t rows = 0, columns = 0;              // outputs and inputs
  std::int64_t bytes_before = 0, bytes_after = 0;  // in the files, scales and state included
  std::int64_t non_finite = 0;                     // numbers that were taken as 0
  ReconstructionError error;                       // against the weights as the model's files have them
};

struct QuantizeReport {
  std::string precision;  // with what changes it: "int8-static, SmoothQuant 0.5"
  std::string dtype;      // the type of everything that is not quantized
  std::filesystem::path path;
  std::vector<QuantizedTensor> tensors;
  CoverageFacts coverage;
  std::uint64_t file_bytes_before = 0, file_bytes_after = 0;  // the sizes of the weight files
  std::uint64_t tensor_bytes_after = 0;  // in the file that was written: no header, keys or tokenizer
  std::int64_t parameters = 0;           // how many the model has, tied ones once
  double seconds = 0;
  std::string calibration_sha256;          // the hash of the text; empty: none was read
  std::string calibration_change;          // what became of its line ends, as TextFile has it
  double calibration_s = 0;                // the part of `seconds` for running the text
  std::vector<std::string> files;          // that were written
  std::vector<std::string> warnings = {};  // what of the model is not in them, as clauses
};

// Quantizes the modules that Transformers would (less what `modules` leaves out), as it would: the weights
// rounded to the dtype first, then quantized with the outputs as rows. int8-dynamic and
// int8-static are not rounded first, and norms and biases stay float32: the folder, read, gives the logits of
// its model quantized at load with the same dtype (float32 or bfloat16), bit for bit where the same
// kernels calibrated. Some rows of a tensor are in memory at a time (some MB for each thread), of double
// quantization also the scales of all; but calibrating takes the model in float32. The disk needs room for
// the folder once. `out` appears complete or not at all. Throws FieldError for what is asked wrong, Error for
// a model that is quantized already, a text that cannot be calibrated on, weights that are not finite, a
// target that exists, and where should_stop said so.
QuantizeReport quantize_model(const std::string& candidate, const std::filesystem::path& out,
                              const QuantizeOptions& options);

}  // namespace assay
