#include "assay/backend/cuda/probes.h"

#include <algorithm>
#include <cmath>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/kernels/step_kernels.h"
#include "assay/backend/cuda/run/launch_tuning.h"
#include "assay/base/format.h"

namespace assay::cuda {

namespace {

constexpr std::int64_t kProbeBlock = 256;  // threads

struct ProductProbe {
  std::string_view name;
  Kernel<MultiplyProbeArgs> StepKernels::*kernel;
  std::uint32_t a, b;               // 1 and 2^-10 (of int8: 1 and 1): zeros need less power
  std::int64_t operations_of_warp;  // in a round
};

constexpr std::int64_t mma(std::int64_t k) {
  return std::int64_t{2} * kProbeChains * 16 * 8 * k;
}
ProductProbe probe_of(ProductKind kind) {
  switch (kind) {
    case ProductKind::float32_fma:
      return {"float32 FMA", &StepKernels::multiply_float32, 0x3f800000U, 0x3a800000U,
              std::int64_t{2} * kProbeFmas * 32};
    case ProductKind::tf32:
      return {"tf32 mma.sync", &StepKernels::multiply_tf32, 0x3f800000U, 0x3a800000U, mma(8)};
    case ProductKind::float16:
      return {"float16 mma.sync", &StepKernels::multiply_f16, 0x3c003c00U, 0x14001400U, mma(16)};
    case ProductKind::bfloat16:
      return {"bfloat16 mma.sync", &StepKernels::multiply_bf16, 0x3f803f80U, 0x3a803a80U, mma(16)};
    case ProductKind::int8:
      break;
  }
  return {"int8 mma.sync", &StepKernels::multiply_s8, 0x01010101U, 0x01010101U, mma(32)};
}

}  // namespace

std::string_view name_of(ProductKind kind) {
  return probe_of(kind).name;
}

ProductKind product_of(Multiply multiply) {
  switch (multiply) {
    case Multiply::int8:
      return ProductKind::int8;
    case Multiply::tf32:
      return ProductKind::tf32;
    case Multiply::float16:
      return ProductKind::float16;
    case Multiply::bfloat16:
      return ProductKind::bfloat16;
    case Multiply::float32:
    case Multiply::bfloat16_x2:
    case Multiply::bfloat16_x3:
      break;
  }
  return ProductKind::float32_fma;
}

bool has_product(const DeviceFacts& facts, ProductKind kind) {
  return has_bfloat16(facts) || (kind != ProductKind::bfloat16 && kind != ProductKind::tf32);
}

Seconds Probes::time_of(const std::function<void()>& work) {
  runtime_->synchronize();
  const std::uint64_t begin = runtime_->record();
  work();
  const std::uint64_t end = runtime_->record();
  runtime_->synchronize();
  return runtime_->between(begin, end);
}

double Probes::seconds_each(Seconds each, std::int64_t& known,
                            const std::function<void(std::int64_t)>& work) {
  constexpr std::int64_t kMaxRounds = std::int64_t{1} << 40;
  constexpr double kMostGrowth = 64;  // few rounds are mostly the launch
  constexpr double kMargin = 1.25;    // so that no second guess is needed
  constexpr double kMuchLonger = 4;   // than asked: fewer rounds will do
  if (known == 0) work(1);            // kernels are loaded when they first run
  for (std::int64_t rounds = std::max<std::int64_t>(1, known);;) {
    const double seconds = time_of([&] { work(rounds); }).value;
    const double wanted = seconds > 0 ? kMargin * each.value / seconds : kMostGrowth;
    const auto other =
        static_cast<std::int64_t>(std::ceil(static_cast<double>(rounds) * std::min(wanted, kMostGrowth)));
    if (seconds >= each.value || rounds >= kMaxRounds) {
      known = seconds > kMuchLonger * each.value ? std::max<std::int64_t>(1, other) : rounds;
      return std::min(seconds, time_of([&] { work(rounds); }).value) / static_cast<double>(rounds);
    }
    rounds = std::min(kMaxRounds, std::max(rounds + 1, other));
  }
}

double Probes::bytes_per_second(Bytes working_set, Seconds each) {
  constexpr std::int64_t kUnit = 1 << 16, kMax = std::int64_t{4} << 30;
  const std::int64_t room = std::min(kMax, runtime_->memory_info().free.value / 8),
                     bytes = std::max(kUnit, std::min(working_set.value, room) / kUnit * kUnit),
                     blocks =
                         std::max<std::int64_t>(1, std::min<std::int64_t>(8LL * runtime_->facts().processors,
                                                                          bytes / 16 / kProbeBlock));
  const OwnedMemory data(runtime_, bytes), sums(runtime_, blocks * kProbeBlock * 4);
  runtime_->fill(data.get(), 0x5a, bytes);
  const double seconds = seconds_each(each, passes_[bytes], [&](std::int64_t passes) {
    launch(*runtime_, runtime_->step_kernels().read_probe,
           {.grid_x = static_cast<std::uint32_t>(blocks), .block = static_cast<std::uint32_t>(kProbeBlock)},
           ReadProbeArgs{data.get(), bytes, passes, sums.at<std::uint32_t>(0)});
  });
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

double Probes::operations_per_second(ProductKind kind, Seconds each) {
  const ProductProbe probe = probe_of(kind);
  const std::int64_t blocks = 4LL * runtime_->facts().processors;
  const OwnedMemory sums(runtime_, blocks * kProbeBlock * 4);
  const double seconds = seconds_each(each, rounds_[kind], [&](std::int64_t rounds) {
    launch(*runtime_, runtime_->step_kernels().*probe.kernel,
           {.grid_x = static_cast<std::uint32_t>(blocks), .block = static_cast<std::uint32_t>(kProbeBlock)},
           MultiplyProbeArgs{probe.a, probe.b, rounds, sums.at<float>(0)});
  });
  const std::int64_t warps = blocks * kProbeBlock / 32;
  return seconds > 0 ? static_cast<double>(warps * probe.operations_of_warp) / seconds : 0;
}

Seconds Probes::launch_time(int launches) {
  const auto run = [&] {
    for (int i = 0; i < launches; ++i)
      launch(*runtime_, runtime_->step_kernels().nothing, {.block = 32}, NothingArgs{});
  };
  run();
  return {time_of(run).value / launches};
}

Seconds Probes::graph_node_time(int nodes) {
  launch(*runtime_, runtime_->step_kernels().nothing, {.block = 32}, NothingArgs{});
  runtime_->begin_capture();
  for (int i = 0; i < nodes; ++i)
    launch(*runtime_, runtime_->step_kernels().nothing, {.block = 32}, NothingArgs{});
  const std::unique_ptr<Graph> graph = runtime_->end_capture();
  runtime_->replay(*graph);
  return {time_of([&] { runtime_->replay(*graph); }).value / nodes};
}

}  // namespace assay::cuda

namespace assay {

GpuRooflines measure_gpu_rooflines(const Device& device, const std::shared_ptr<cuda::Runtime>& runtime,
                                   Seconds each) {
  const cuda::DeviceFacts& facts = runtime->facts();
  cuda::Probes probes(runtime);
  GpuRooflines found;
  found.device = device.text();
  found.name = facts.name;
  found.kernels = fmt::format("sm_{}{}", facts.major, facts.minor);
  found.bus_id = facts.bus_id;
  found.processors = facts.processors;
  found.memory = {facts.memory_bytes};
  found.l2 = {facts.l2_bytes};
  found.memory_bytes_per_second = probes.bytes_per_second({std::int64_t{4} << 30}, each);
  found.l2_bytes_per_second = probes.bytes_per_second({facts.l2_bytes / 2}, each);
  for (const cuda::ProductKind kind : cuda::kProducts)
    if (cuda::has_product(facts, kind))
      found.products.push_back({name_of(kind), probes.operations_per_second(kind, each)});
  found.launch = probes.launch_time();
  found.graph_node = probes.graph_node_time();
  for (const cuda::KeptLaunch& kept : cuda::kept_launches_of(facts))
    found.launches.push_back({kept.product, cuda::text_of(kept.chosen.choice), kept.chosen.gain});
  return found;
}

}  // namespace assay
