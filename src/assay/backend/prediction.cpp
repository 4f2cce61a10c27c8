#include "assay/backend/prediction.h"

#include <algorithm>
#include <iterator>

#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/plan/operation_groups.h"

namespace assay {

namespace {

// Bytes per second that reading reaches, dense operations per second of the data sheet, and seconds from one
// node of a graph to the next. Those of an H200 were measured by `assay machine` but for the operations; the
// others' reading is what is published of them, their nodes are those of an H200 with and without
// programmatic launch.
struct KnownGpu {
  const char* name;
  double read, bfloat16, int8, tf32, float32, node;
};
constexpr KnownGpu kGpus[] = {
    {"a100", 1.75e12, 312e12, 624e12, 156e12, 19.5e12, 0.95e-6},
    {"h100-pcie", 2.02e12, 756e12, 1513e12, 378e12, 51e12, 0.5e-6},
    {"h100", 3.05e12, 989e12, 1979e12, 495e12, 67e12, 0.5e-6},
    {"h200", 4.53e12, 989e12, 1979e12, 495e12, 67e12, 0.5e-6},
};
// What mma.sync, and what multiply-adds in float32 reach of the data sheet on an H200: 554 of 989, 47 of 67.
constexpr double kOfPeak = 0.56, kOfFloat32 = 0.7;

const KnownGpu& known_gpu(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kGpus), std::end(kGpus), [&](const KnownGpu& gpu) { return name == gpu.name; });
  if (found == std::end(kGpus))
    throw FieldError("gpu", "expected {}, found '{}'", fmt::join(known_gpus(), ", "), name);
  return *found;
}

double rate_of(const KnownGpu& gpu, const OperationGroup& group) {
  if (group.kind != "matmul") return kOfFloat32 * gpu.float32;
  if (is_int8(group.format)) return kOfPeak * gpu.int8;
  if (group.multiply == Multiply::tf32) return kOfPeak * gpu.tf32;
  if (group.format == formats::kFloat32) return kOfFloat32 * gpu.float32;
  return kOfPeak * gpu.bfloat16;
}

// Kernels of one operation, as backend/cuda launches them.
int launches_of(const OperationGroup& group, const GpuStep& step, bool rounds_inputs) {
  constexpr std::int64_t kChunk = 256;
  if (group.kind == "attention") return step.past + step.rows > kChunk ? 3 : 2;  // store, attend, merge
  if (group.kind != "matmul") return 1;
  const int norm = group.name == "lm_head" ? 1 : 0;
  return norm + 1 + (!rounds_inputs ? 0 : group.format == formats::kLlmInt8 ? 3 : 1);
}

}  // namespace

std::vector<std::string_view> known_gpus() {
  std::vector<std::string_view> names;
  for (const KnownGpu& gpu : kGpus) names.emplace_back(gpu.name);
  return names;
}

GpuPrediction predict_gpu_step(const Plan& plan, const GpuStep& step) {
  const KnownGpu& gpu = known_gpu(step.gpu);
  GpuPrediction prediction;
  prediction.gpu = gpu.name;
  prediction.read_bytes_per_second = gpu.read;
  // What the matrix multiplication behind it makes of its inputs is no kernel.
  const std::vector<bool> is_fused = fused_on_gpu(plan, step.rows);
  const std::vector<bool> rounds = rounds_inputs_on_gpu(plan, step.rows);
  const auto is_kernel = [&](std::size_t op) { return op >= is_fused.size() || !is_fused[op]; };
  for (const OperationGroup& group : operation_groups(plan, step.rows, step.past, 1)) {
    const auto kernels_of_group = std::ranges::count_if(group.operations, is_kernel);
    const auto bytes = static_cast<double>((group.cost.weight_bytes + group.cost.kv_bytes).value);
    const int launches =
        kernels_of_group > 0 ? launches_of(group, step, rounds[group.operations.front()]) : 0;
    const double reading = bytes / gpu.read, computing = group.cost.flops.value / rate_of(gpu, group),
                 waiting = static_cast<double>(kernels_of_group * launches) * gpu.node;
    const Seconds seconds{waiting + std::max(reading, computing)};
    prediction.kernels.push_back({.name = group.name,
                                  .kind = std::string(group.kind),
                                  .count = group.operations.size(),
                                  .launches_each = launches,
                                  .bytes = bytes,
                                  .flops = group.cost.flops.value,
                                  .seconds = seconds,
                                  .bound = waiting >= std::max(reading, computing) ? "launches"
                                           : reading >= computing                  ? "memory"
                                                                                   : "compute"});
    prediction.seconds = prediction.seconds + seconds;
    prediction.bytes += bytes;
  }
  return prediction;
}

}  // namespace assay
