// Static post-training quantization as Optimum does it with ONNX Runtime: calibrate on a text, then multiply
// 8-bit activations whose scales and zero points are fixed.
#pragma once

#include <string>

#include "assay/session/load.h"

namespace assay {

struct StaticPtq {
  LoadedModel loaded;    // ready to generate, to score and to time
  std::string sentence;  // backend, precision and scheme, in words
};

// Takes a model by its id (a folder, a cache entry or demo), or of one that is loaded: its folder is read
// again, on its backend. Of the configuration, the precision is int8-static whatever it says. Throws Error
// where the model cannot be loaded or the text is missing, empty or too short, FieldError for a value that is
// none.
StaticPtq run_static_ptq_optimum(const std::string& id, RunConfig config = {});
StaticPtq run_static_ptq_optimum(const LoadedModel& model, RunConfig config = {});

}  // namespace assay
