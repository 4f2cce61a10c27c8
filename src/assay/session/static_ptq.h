// Static post-training quantization as Optimum has it on ONNX Runtime: calibrate on a text, then a model
// whose products take 8-bit inputs in fixed codes.
#pragma once

#include <filesystem>
#include <string>

#include "assay/session/load.h"

namespace assay {

struct StaticPtqOptions {
  std::filesystem::path calibration;  // a text file; empty: the one that ships
  Calibrator calibrator = Calibrator::percentile;
  double smoothing = -1;       // SmoothQuant's alpha; negative: none
  std::string remainder;       // float32 (empty) or bfloat16: everything that is not quantized
  std::string quantized_head;  // int8, nf4 or fp4; empty: the head stays as the remainder
};

struct StaticPtq {
  LoadedModel loaded;    // ready to generate, to score and to time
  std::string sentence;  // backend, precision and scheme, in words
};

// Of a model by its id (a folder, a cache entry or demo), or of one that is loaded: its folder is read again,
// on its backend. Throws Error where the model cannot be loaded or the text is missing, empty or too short,
// UsageError for an option that is none.
StaticPtq run_static_ptq_optimum(const std::string& id, const StaticPtqOptions& options = {},
                                 const BackendOptions& backend = {});
StaticPtq run_static_ptq_optimum(const LoadedModel& model, const StaticPtqOptions& options = {});

}  // namespace assay
