// What a step of a model takes on a GPU at least, kernel by kernel, counted from its plan: no GPU is needed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/units.h"
#include "assay/plan/plan.h"

namespace assay {

struct GpuStep {
  std::string gpu;                    // a name of known_gpus()
  std::int64_t rows = 1, past = 512;  // new tokens of a step, and tokens before them
};

// An operation, or several that are alike, one for each layer.
struct PredictedKernel {
  std::string name, kind;  // "attention.*", "matmul"
  std::size_t count = 0;   // operations
  int launches_each = 0;   // 0: the multiplication or attention behind does it
  double bytes = 0, flops = 0;
  Seconds seconds;
  std::string_view bound;  // "launches", "memory", "compute"
};

struct GpuPrediction {
  std::string_view gpu, source;  // source: where its rates come from
  std::vector<PredictedKernel> kernels;
  std::int64_t nodes = 0;  // launches of all kernels: nodes of the step's graph
  double bytes = 0;
  Seconds seconds;                   // that all kernels take, one after the other
  double read_bytes_per_second = 0;  // which the GPU reaches
  bool is_in_l2 = false;             // the L2 cache holds all that the step reads
};

std::vector<std::string_view> known_gpus();  // "a100", "h100-pcie", "h100", "h200"
// Throws FieldError ("gpu") for a GPU that is not known.
GpuPrediction predict_gpu_step(const Plan& plan, const GpuStep& step);

}  // namespace assay
