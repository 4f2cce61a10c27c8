#include "assay/harness/roofline.h"
#include "assay/plan/cost.h"

#include <algorithm>
#include <cmath>

#include "assay/base/memory.h"
#include "assay/model/model.h"

namespace assay {

std::optional<PeakInstruction> peak_instruction(const Precision& precision, Isa isa) {
  // Products of n parts with n parts count n (n + 1) / 2 of bfloat16.
  const Multiply multiply = multiply_of(precision);
  const int parts = planes_of(multiply);
  ProductKind kind = isa >= Isa::avx512 ? ProductKind::avx512_float32 : ProductKind::avx2_float32;
  if (multiply == Multiply::int8 || precision.has_int8_activations)
    kind = isa == Isa::amx      ? ProductKind::amx_int8
           : isa >= Isa::avx512 ? ProductKind::avx512_vnni
           : has_avx2_vnni()    ? ProductKind::avx2_vnni
                                : ProductKind::avx2_int8;
  else if (isa >= Isa::avx512bf16 && multiply != Multiply::float32)
    return PeakInstruction{isa == Isa::amx ? ProductKind::amx_bfloat16 : ProductKind::avx512_bfloat16,
                           parts * (parts + 1) / 2};
  return why_not_usable(kind) ? std::nullopt : std::optional(PeakInstruction{kind, 1});
}

Multiply multiply_of(const Precision& precision) {
  return precision.arithmetic_of(precision.weights).multiply;
}

namespace {

// Adds up what the sequences of a step cost.
class StepCost {
 public:
  explicit StepCost(const Plan& plan) : plan_(&plan) {}

  std::int64_t rows() const { return rows_; }

  // `ends`: sequences whose next token is chosen from these rows, 0 or 1.
  void add(std::int64_t rows, std::int64_t past, std::int64_t ends) {
    const PhaseCosts own = costs_by_phase(*plan_, rows, past, ends);
    for (std::size_t i = 0; i < kOpClasses; ++i) {
      costs_[i].kv_bytes = costs_[i].kv_bytes + own[i].kv_bytes;
      costs_[i].flops = costs_[i].flops + own[i].flops;
    }
    rows_ += rows;
    ends_ += ends;
  }

  PhaseCosts whole() const {
    PhaseCosts all = costs_;
    const PhaseCosts weights = costs_by_phase(*plan_, rows_, 0, ends_);
    for (std::size_t i = 0; i < kOpClasses; ++i) all[i].weight_bytes = weights[i].weight_bytes;
    return all;
  }

 private:
  const Plan* plan_;
  PhaseCosts costs_{};
  std::int64_t rows_ = 0, ends_ = 0;
};

// As run_in_steps() cuts it.
std::vector<PhaseCosts> prefill_in_steps(const Plan& plan, const BatchShape& shape) {
  std::vector<PhaseCosts> steps;
  StepCost step(plan);
  for (const std::int64_t prompt : shape.prompt_tokens)
    for (std::int64_t first = 0; first < prompt;) {
      if (step.rows() == shape.rows_per_step) {
        steps.push_back(step.whole());
        step = StepCost(plan);
      }
      const std::int64_t own = std::min(shape.rows_per_step - step.rows(), prompt - first);
      step.add(own, shape.depth + first, first + own == prompt ? 1 : 0);
      first += own;
    }
  steps.push_back(step.whole());
  return steps;
}

}  // namespace

std::vector<PhaseCosts> step_costs(const Plan& plan, const BatchShape& shape) {
  std::vector<PhaseCosts> steps;
  const bool is_cut = shape.rows_per_step > 0 && shape.new_tokens > 0;
  if (is_cut) steps = prefill_in_steps(plan, shape);
  for (std::int64_t made = is_cut ? 1 : 0; made < shape.new_tokens; ++made) {
    StepCost step(plan);
    const bool reads_all = made == 0 || !shape.uses_cache;
    for (const std::int64_t prompt : shape.prompt_tokens) {
      const std::int64_t own = reads_all ? prompt + made : 1;
      step.add(own, shape.depth + prompt + made - own, 1);
    }
    steps.push_back(step.whole());
  }
  return steps;
}

Cost total_cost(const PhaseCosts& costs) {
  Cost total;
  for (const Cost& cost : costs) total += cost;
  return total;
}

double Roofline::Peaks::seconds(const Cost& cost) const {
  const double reading =
      bytes_per_second > 0 ? static_cast<double>((cost.weight_bytes + cost.kv_bytes).value) / bytes_per_second
                           : 0;
  const double computing = operations_per_second > 0 ? cost.flops.value / operations_per_second : 0;
  return std::max(reading, computing);
}

bool Roofline::Peaks::is_memory_bound(const Cost& cost) const {
  return bytes_per_second > 0 &&
         (operations_per_second <= 0 ||
          static_cast<double>((cost.weight_bytes + cost.kv_bytes).value) / bytes_per_second >=
              cost.flops.value / operations_per_second);
}

ProbePlan plan_probe(Bytes working_set, Bytes weights, Bytes available) {
  // A working set far beyond every cache reads as fast as a larger one.
  constexpr std::int64_t kMax = std::int64_t{1} << 30, kMin = std::int64_t{1} << 16;
  const std::int64_t room = available.value > 0 ? std::min(kMax, available.value / 4) : kMax;
  const auto size = static_cast<double>(std::clamp(working_set.value, kMin, std::max(kMin, room)));
  ProbePlan plan;
  plan.eighths = std::lround(8 * std::log2(size));
  const double rounded = std::exp2(static_cast<double>(plan.eighths) / 8);
  constexpr double kNear = 1.09;
  const auto own = static_cast<double>(weights.value);
  plan.reads_weights = own <= rounded * kNear;  // else the step reads less of them, or they are too large
  if (!plan.reads_weights)
    plan.buffer = {static_cast<std::int64_t>(rounded)};
  else if (own * kNear < rounded)
    plan.buffer = {static_cast<std::int64_t>(rounded - own)};
  return plan;
}

Roofline::Roofline(const Model& model)
    : backend_(model.backend()),
      precision_(model.precision()),
      pool_(backend_.pool()),
      weights_(model.program().step_weights()) {
  if (pool_ != nullptr)
    product_ = peak_instruction(model.precision(), isa_from_name(model.backend().kernels()));
}

ReadProbe& Roofline::probe_for(Bytes working_set) {
  const ProbePlan plan =
      plan_probe(working_set, ReadProbe::read_of(weights_, pool_->size()), available_memory());
  auto& probe = probes_[plan.eighths];
  if (probe == nullptr)
    probe = std::make_unique<ReadProbe>(plan.buffer, *pool_, plan.reads_weights ? weights_ : MemoryRegions{});
  return *probe;
}

Roofline::Peaks device_peaks(Backend& backend, Bytes working_set, const Precision& precision, Seconds each) {
  const DeviceRates rates =
      backend.measure_rates(working_set, multiply_of(precision), each).value_or(DeviceRates{});
  return {rates.bytes_per_second, rates.operations_per_second};
}

Roofline::Peaks host_peaks(ReadProbe& probe, ThreadPool& pool, const std::optional<PeakInstruction>& product,
                           Seconds each) {
  constexpr int kStreams = 4;  // as the kernels walk the weights
  Roofline::Peaks peaks;
  peaks.bytes_per_second = probe.bytes_per_second(kStreams, each);
  if (product) peaks.operations_per_second = operations_per_second(product->kind, pool, each) / product->each;
  return peaks;
}

Roofline::Peaks best_of(int windows, const std::function<Roofline::Peaks()>& measure) {
  Roofline::Peaks best = measure();
  for (int i = 1; i < windows; ++i) {
    const Roofline::Peaks next = measure();
    best.bytes_per_second = std::max(best.bytes_per_second, next.bytes_per_second);
    best.operations_per_second = std::max(best.operations_per_second, next.operations_per_second);
  }
  return best;
}

Roofline::Peaks Roofline::measure(Bytes working_set, Seconds each) {
  // A device's events resolve a microsecond, and each run of a case waits for this: a millisecond is enough.
  constexpr double kOfDevice = 1.0 / 8;
  if (pool_ == nullptr) return device_peaks(backend_, working_set, precision_, {kOfDevice * each.value});
  Peaks peaks = host_peaks(probe_for(working_set), *pool_, product_, each);
  if (pool_->size() > 1) peaks.round_trip = phase_round_trip(*pool_, {0.001});
  return peaks;
}

Seconds Roofline::window_beside_run(Bytes working_set) const {
  const auto last = pool_ == nullptr ? runs_.end() : runs_.find(working_set.value);
  return last == runs_.end() ? kLongestWindow : std::clamp(last->second, kShortestWindow, kLongestWindow);
}

void Roofline::note_run(Bytes working_set, Seconds took) {
  runs_[working_set.value] = took;
}

Bytes Roofline::held() const {
  Bytes all;
  for (const auto& [size, probe] : probes_) all = all + probe->held();
  return all;
}

}  // namespace assay
