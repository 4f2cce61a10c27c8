// Writes a quantized model folder that Transformers with bitsandbytes loads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "assay/measure/results.h"
#include "assay/quant/reconstruction.h"
#include "assay/quant/selection.h"

namespace assay {

struct QuantizeOptions {
  std::string precision = "nf4";  // nf4, fp4, nf4-dq, fp4-dq or llm-int8
  std::string remainder = {};     // float32, bfloat16 or float16; empty: as the model is
  ModuleSelection modules = {};
  double outlier_threshold = -1;   // of llm-int8, for whoever loads the folder; negative: 6
  bool replaces = false;           // a model folder that stands at the target
  bool allows_non_finite = false;  // NaN and infinity are quantized as 0
  int threads = 0;                 // 0 = default_thread_count()
  std::function<void(const std::string& now, std::int64_t done, std::int64_t all)> on_progress = {};
  std::function<bool()> should_stop = {};
};

struct QuantizedTensor {
  std::string name;
  std::int64_t rows = 0, columns = 0;              // outputs and inputs
  std::int64_t bytes_before = 0, bytes_after = 0;  // in the files, scales and state included
  std::int64_t non_finite = 0;                     // numbers that were taken as 0
  ReconstructionError error;                       // against the weights as the model's files have them
};

struct QuantizeReport {
  std::string precision, remainder;
  std::filesystem::path path;
  std::vector<QuantizedTensor> tensors;
  CoverageFacts coverage;
  std::uint64_t file_bytes_before = 0, file_bytes_after = 0;  // of the weight files
  std::int64_t parameters = 0;                                // of the model, tied ones once
  double seconds = 0;
  std::vector<std::string> files;  // that were written
};

// Quantizes the modules that Transformers would (less what `modules` leaves out), as it would: the weights
// rounded to the remainder's type first, then quantized with the outputs as rows. One tensor is in memory at
// a time. `out` appears complete or not at all. Throws UsageError for what is asked wrong, Error for a model
// that is quantized already, weights that are not finite, a target that exists, and where should_stop said
// so.
QuantizeReport quantize_model(const std::string& candidate, const std::filesystem::path& out,
                              const QuantizeOptions& options);

}  // namespace assay
