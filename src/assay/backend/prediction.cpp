#include "assay/backend/prediction.h"

#include <algorithm>
#include <iterator>

#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/plan/operation_groups.h"

namespace assay {

namespace {

// Rates that kernels reach: reading from memory and from the L2 cache in bytes per second, mma.sync and
// multiply-adds in float32 in operations per second, and seconds from one node of a graph to the next.
struct KnownGpu {
  const char *name, *source;
  double read, l2_read, l2_bytes;  // l2_read 0: not known
  double bfloat16, int8, tf32, float32, node;
};
constexpr const char* kMeasured = "measured on an NVIDIA H200";
constexpr const char* kPublished = "data sheet, and the shares of it that an NVIDIA H200 reached";
// What an H200 reached of the data sheet it shares with an H100 (mma.sync 554 of 989, multiply-adds 47 of 67
// TFLOP/s), where nothing was measured.
constexpr double kOfPeak = 0.56, kOfFloat32 = 0.7;
// The H200's are those of `assay machine` there; its node is what a node of a decode step took beyond its
// bytes, in bfloat16, by differences of graphs (1.6 to 3.2 us, 124M and 1.1B): an empty one takes 0.4, the
// rest is the wait for the node in front, the first loads and the last sums. Reading of the others is what is
// published of them, their nodes are those of the H200, an A100's without programmatic launch.
constexpr KnownGpu kGpus[] = {
    {"a100", kPublished, 1.75e12, 0, 40 << 20, kOfPeak * 312e12, kOfPeak * 624e12, kOfPeak * 156e12,
     kOfFloat32 * 19.5e12, 2.9e-6},
    {"h100-pcie", kPublished, 2.02e12, 0, 50 << 20, kOfPeak * 756e12, kOfPeak * 1513e12, kOfPeak * 378e12,
     kOfFloat32 * 51e12, 2.4e-6},
    {"h100", kPublished, 3.05e12, 0, 50 << 20, kOfPeak * 989e12, kOfPeak * 1979e12, kOfPeak * 495e12,
     kOfFloat32 * 67e12, 2.4e-6},
    {"h200", kMeasured, 4.53e12, 12.3e12, 50 << 20, 554e12, 1090e12, 277e12, 47e12, 2.4e-6},
};

const KnownGpu& known_gpu(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kGpus), std::end(kGpus), [&](const KnownGpu& gpu) { return name == gpu.name; });
  if (found == std::end(kGpus))
    throw FieldError("gpu", "expected {}, found '{}'", fmt::join(known_gpus(), ", "), name);
  return *found;
}

double rate_of(const KnownGpu& gpu, const OperationGroup& group) {
  if (group.kind != "matmul") return gpu.float32;
  if (is_int8(group.format)) return gpu.int8;
  if (group.multiply == Multiply::tf32) return gpu.tf32;
  if (group.format == formats::kFloat32) return gpu.float32;
  return gpu.bfloat16;
}

// The angles of positions, the highest logit, and what writes the embedding that a decode step begins with.
void add_choice(GpuPrediction& prediction, const GpuStep& step, int of_tables, double node) {
  const int launches = of_tables + (step.rows > 1 ? 1 : 2);
  const Seconds seconds{launches * node};
  prediction.kernels.push_back({.name = "next_token",
                                .kind = "choice",
                                .count = 1,
                                .launches_each = launches,
                                .bytes = 0,
                                .flops = 0,
                                .seconds = seconds,
                                .bound = "launches"});
  prediction.nodes += launches;
  prediction.seconds = prediction.seconds + seconds;
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
  prediction.source = gpu.source;
  const auto groups = operation_groups(plan, step.rows, step.past, 1);
  double all_bytes = 0;
  for (const OperationGroup& group : groups)
    all_bytes += static_cast<double>((group.cost.weight_bytes + group.cost.kv_bytes).value);
  // What fits into half of the L2 cache is there from the step before.
  prediction.is_in_l2 = gpu.l2_read > 0 && all_bytes <= gpu.l2_bytes / 2;
  prediction.read_bytes_per_second = prediction.is_in_l2 ? gpu.l2_read : gpu.read;
  const GpuNodes nodes = nodes_on_gpu(plan, step.rows, step.past + step.rows);
  for (const OperationGroup& group : groups) {
    int launches = 0, most = 0;
    for (const std::size_t op : group.operations) {
      launches += nodes.of_operations[op];
      most = std::max(most, nodes.of_operations[op]);
    }
    const auto bytes = static_cast<double>((group.cost.weight_bytes + group.cost.kv_bytes).value);
    const double reading = bytes / prediction.read_bytes_per_second,
                 computing = group.cost.flops.value / rate_of(gpu, group), waiting = launches * gpu.node;
    const Seconds seconds{waiting + std::max(reading, computing)};
    prediction.kernels.push_back({.name = group.name,
                                  .kind = std::string(group.kind),
                                  .count = group.operations.size(),
                                  .launches_each = most,
                                  .bytes = bytes,
                                  .flops = group.cost.flops.value,
                                  .seconds = seconds,
                                  .bound = waiting >= std::max(reading, computing) ? "launches"
                                           : reading >= computing                  ? "memory"
                                                                                   : "compute"});
    prediction.nodes += launches;
    prediction.seconds = prediction.seconds + seconds;
    prediction.bytes += bytes;
  }
  add_choice(prediction, step, nodes.of_tables, gpu.node);
  return prediction;
}

}  // namespace assay
