#include "assay/harness/predict.h"
#include "assay/plan/cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "assay/backend/backend.h"
#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/harness/make_case.h"
#include "assay/harness/roofline.h"
#include "assay/harness/sweep.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/session/resolve.h"
#include "assay/statistics/statistics.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

class Predictor {
 public:
  // Which configurations' rooflines are measured.
  enum class Measures { each, once, by_arithmetic };
  Predictor(const ExperimentContext& context, const ModelSource& source, const ReachedPeaks& peaks_of,
            Measures how_often)
      : context_(context), source_(source), peaks_of_(peaks_of), how_often_(how_often) {}

  PredictedCase operator()(const Case& spec) {
    PredictedCase predicted{spec, 0, {}, ""};
    try {
      const std::vector<std::int64_t> tokens = tokens_of(spec);
      const auto all = static_cast<std::int64_t>(tokens.size());
      const std::int64_t size = spec.batch_size == 0 ? all : std::min(all, spec.batch_size);
      const Phases phases = phases_of(spec, tokens);
      predicted.seconds = phases.prefill_s + phases.decode_s;
      const std::int64_t longest = depth_of(spec) + *std::max_element(tokens.begin(), tokens.end());
      if (context_.predicted_memory)
        predicted.memory = context_.predicted_memory(spec.configuration, size, longest + spec.new_tokens - 1);
      predicted.why_not = context_.sessions->why_not(spec.configuration).value_or("");
    } catch (const Error& error) {
      predicted.why_not = error.what();
    }
    return predicted;
  }

  CaseCost cost_of(const Case& spec) {
    CaseCost cost;
    try {
      const std::vector<std::int64_t> tokens = tokens_of(spec);
      cost.longest_prompt = depth_of(spec) + *std::max_element(tokens.begin(), tokens.end());
      if (context_.sessions->why_not(spec.configuration)) return cost;
      const Phases phases = phases_of(spec, tokens);
      cost.prefill_s = phases.prefill_s;
      cost.decode_s = phases.decode_s;
      cost.load_s = load_s_of(spec.configuration);
      cost.head_row_s = head_row_s_of(peaks_for(spec.configuration));
      cost.vocab = peaks_for(spec.configuration).plan.vocab;
      cost.memory_share = context_.sessions->memory_share(spec.configuration);
    } catch (const Error&) {
      return cost;  // it fails at once
    }
    return cost;
  }

  // Starting a worker, reading the files, converting or quantizing each weight, packing.
  double load_s_of(const RunConfig& configuration) {
    constexpr double kStart_s = 0.15, kBytesPerSecond = 2e9, kConvert_s = 0.5e-9, kQuantize_s = 1.5e-9,
                     kSearch_s = 1e-7;  // by one thread
    const Peaks& peaks = peaks_for(configuration);
    const ContextModel model = context_.model_of(configuration);
    const ModelSource& source = model.source ? *model.source : source_;
    const auto weights = static_cast<double>(peaks.plan.parameters());
    const bool is_made = peaks.precision.is_quantized() && !peaks.precision.is_stored;
    const double made_s = peaks.precision.has_any(is_searched_for)
                              ? kSearch_s / configuration.threads.value_or(default_thread_count())
                              : kQuantize_s;
    double all = kStart_s + static_cast<double>(source.weight_file_bytes()) / kBytesPerSecond +
                 static_cast<double>(cost_of_step(peaks.plan).weight_bytes.value) / kBytesPerSecond +
                 weights * (is_made ? made_s : kConvert_s);
    if (peaks.precision.needs_calibration()) all += calibration_s_of(peaks);
    return all;
  }

 private:
  struct Peaks {
    Plan plan;
    Precision precision;
    Roofline::Peaks reached;
  };
  struct Phases {
    double prefill_s = 0, decode_s = 0;
  };

  static Cost cost_of_step(const Plan& plan) { return assay::cost_of(plan, 1, 0, 1); }

  // As many rows of the LM head are computed together as scorer.h does.
  static double head_row_s_of(const Peaks& peaks) {
    constexpr std::int64_t kRows = 32;
    const PhaseCosts costs = costs_by_phase(peaks.plan, kRows, 0, kRows);
    return peaks.reached.seconds(costs[static_cast<std::size_t>(OpClass::head)]) / kRows;
  }

  // The text that ships has some thousands of tokens.
  static double calibration_s_of(const Peaks& peaks) {
    constexpr double kTokens = 3500;
    constexpr std::int64_t kWindow = 512;
    return kTokens / static_cast<double>(kWindow) *
           peaks.reached.seconds(assay::cost_of(peaks.plan, kWindow, 0, 1));
  }

  Phases phases_of(const Case& spec, const std::vector<std::int64_t>& tokens) {
    const auto all = static_cast<std::int64_t>(tokens.size());
    const std::int64_t size = spec.batch_size == 0 ? all : std::min(all, spec.batch_size);
    Phases phases;
    for (std::int64_t first = 0; first < all; first += size)
      add_batch(spec, {tokens.begin() + first, tokens.begin() + std::min(all, first + size)}, phases);
    return phases;
  }

  static std::int64_t depth_of(const Case& spec) {
    return spec.random_prompts ? spec.random_prompts->depth : 0;
  }

  std::vector<std::int64_t> tokens_of(const Case& spec) const {
    const ContextModel model = context_.model_of(spec.configuration);
    if (spec.random_prompts)
      return std::vector<std::int64_t>(static_cast<std::size_t>(spec.sequences()),
                                       spec.random_prompts->tokens);
    std::vector<std::int64_t> tokens;
    for (const Prompt& prompt : spec.prompts) {
      const auto* text = std::get_if<std::string>(&prompt);
      std::vector<TokenId> ids =
          text != nullptr ? encode(model.tokenizer.get(), *text) : std::get<std::vector<TokenId>>(prompt);
      truncate(ids, model.context_length - spec.new_tokens, spec.truncation, model.tokenizer.get());
      tokens.push_back(static_cast<std::int64_t>(ids.size()));
      if (tokens.back() + spec.new_tokens > model.context_length)
        throw Error("{} of the prompt and {} new ones exceed the model's context of {}",
                    counted(tokens.back(), "token"), spec.new_tokens, model.context_length);
    }
    return tokens;
  }

  const Peaks& peaks_for(const RunConfig& configuration) {
    const auto [at, is_new] = peaks_.try_emplace(configuration.key());
    if (!is_new) return at->second;
    const ContextModel model = context_.model_of(configuration);
    const ModelSource& source = model.source ? *model.source : source_;
    const ModelSpec spec = spec_from_source(source);
    const Precision precision =
        resolve(resolve(configuration), source, spec, source.path().string()).dtype.precision;
    at->second.plan = plan_forward(spec, precision);
    at->second.precision = precision;
    at->second.reached = reached(at->second.plan, precision, configuration);
    return at->second;
  }

  Roofline::Peaks reached(const Plan& plan, const Precision& precision, const RunConfig& configuration) {
    if (how_often_ == Measures::each) return peaks_of_(plan, precision, configuration);
    if (how_often_ == Measures::once) {
      if (!first_) first_ = peaks_of_(plan, precision, configuration);
      return *first_;
    }
    // A matrix multiplication of one kind, beside a working set within an octave.
    const auto bytes = static_cast<double>(std::max<std::int64_t>(1, cost_of_step(plan).weight_bytes.value));
    const std::string key =
        fmt::format("{} {} {} {}", static_cast<int>(multiply_of(precision)), std::lround(std::log2(bytes)),
                    device_of(configuration).text(), configuration.threads.value_or(0));
    const auto [at, is_new] = shared_.try_emplace(key);
    if (is_new) at->second = peaks_of_(plan, precision, configuration);
    return at->second;
  }

  void add_batch(const Case& spec, std::vector<std::int64_t> tokens, Phases& phases) {
    const Peaks& peaks = peaks_for(spec.configuration);
    BatchShape shape{std::move(tokens), spec.new_tokens, spec.uses_cache};
    if (spec.random_prompts) {
      constexpr std::int64_t kRows = 512;  // Program::max_rows() of every device
      shape.depth = depth_of(spec);
      shape.rows_per_step = kRows;
    }
    const std::vector<PhaseCosts> steps = step_costs(peaks.plan, shape);
    const std::size_t decoded = static_cast<std::size_t>(std::max<std::int64_t>(1, spec.new_tokens)) - 1;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool is_decode = spec.uses_cache && i + decoded >= steps.size();
      (is_decode ? phases.decode_s : phases.prefill_s) += peaks.reached.seconds(total_cost(steps[i]));
    }
  }

  const ExperimentContext& context_;
  const ModelSource& source_;
  const ReachedPeaks peaks_of_;
  const Measures how_often_;
  std::map<std::string, Peaks> peaks_;
  std::optional<Roofline::Peaks> first_;  // where it stands for all
  std::map<std::string, Roofline::Peaks> shared_;
};

}  // namespace

Roofline::Peaks usual_share(const Roofline::Peaks& measured) {
  constexpr double kOfMemory = 0.7, kOfCompute = 0.3;
  return {kOfMemory * measured.bytes_per_second, kOfCompute * measured.operations_per_second};
}

Roofline::Peaks usual_peaks(const Plan& plan, const Precision& precision, const RunConfig& configuration) {
  const ResolvedRun run = resolve(configuration, {.pins_caller = true});
  const auto backend = make_backend(run.device, run.backend);
  const Bytes read = cost_of(plan, 1, 0, 1).weight_bytes;
  constexpr Seconds kTime{0.002};  // a device's events resolve a microsecond
  constexpr int kWindows = 5;
  constexpr std::int64_t kMax = std::int64_t{1} << 28;
  if (backend->pool() == nullptr) return usual_share(device_peaks(*backend, read, precision, kTime));
  ReadProbe probe({std::min(read.value, kMax)}, *backend->pool());
  const auto instruction = peak_instruction(precision, isa_from_name(backend->kernels()));
  return usual_share(
      best_of(kWindows, [&] { return host_peaks(probe, *backend->pool(), instruction, kTime); }));
}

std::vector<PredictedCase> predict_cases(const ExperimentContext& context, const ModelSource& source,
                                         const std::vector<Case>& cases, const ReachedPeaks& peaks_of) {
  Predictor predictor(context, source, peaks_of, Predictor::Measures::each);
  std::vector<PredictedCase> all;
  for (const Case& spec : cases) all.push_back(predictor(spec));
  return all;
}

CostOf cost_predictor(const ExperimentContext& context, const ModelSource& source,
                      const SpeedFactors& factors, const ReachedPeaks& peaks_of) {
  auto predictor = std::make_shared<Predictor>(context, source, peaks_of, Predictor::Measures::by_arithmetic);
  return [predictor, factors](const Case& spec) {
    CaseCost cost = predictor->cost_of(spec);
    cost.load_s *= factors.load;
    cost.beside_run_s = factors.beside_run_s;
    cost.prefill_s *= factors.prefill;
    cost.head_row_s *= factors.prefill;
    cost.decode_s *= factors.decode;
    return cost;
  };
}

SpeedFactors measure_factors(const ExperimentContext& context, const ModelSource& source,
                             const ReachedPeaks& peaks_of) {
  constexpr std::int64_t kPrompt = 64, kNew = 5;
  const std::int64_t room = std::max<std::int64_t>(1, context.context_length - kNew);
  Case spec = baseline_case(context, Scenario::baseline, "a short prompt",
                            {std::vector<TokenId>(static_cast<std::size_t>(std::min(kPrompt, room)))},
                            std::max<std::int64_t>(1, std::min(kNew, context.context_length - room)));
  const CaseCost predicted = cost_predictor(context, source, {}, peaks_of)(spec);
  // What starts a process counts too: for a small model it is most of the time.
  constexpr double kShortLoad_s = 10;
  double load_s = context.sessions->facts(context.baseline).model.load_s;
  if (context.sessions->have_processes() && load_s < kShortLoad_s) {
    context.sessions->drop(context.baseline);
    const TimePoint begin = Clock::now();
    context.sessions->of(context.baseline);
    load_s = elapsed(begin, Clock::now()).value;
  }
  Session& session = context.sessions->of(context.baseline);
  session.run(spec);  // the first touches pages
  // A single run of a small model takes milliseconds, which any interruption multiplies.
  constexpr std::size_t kRuns = 7;
  constexpr double kEnough_s = 2;
  std::vector<double> prefill, decode, beside;
  const TimePoint first = Clock::now();
  do {
    const TimePoint begin = Clock::now();
    const Sample run = session.run(spec);
    prefill.push_back(run.prefill_s);
    decode.push_back(run.decode_s());
    beside.push_back(std::max(0.0, elapsed(begin, Clock::now()).value - run.total_latency_s));
  } while (prefill.size() < kRuns && elapsed(first, Clock::now()).value < kEnough_s);
  const auto factor = [](double measured, double from_peaks) {
    constexpr double kMost = 5;  // beyond it something else was measured
    return from_peaks > 0 && measured > 0 ? std::clamp(measured / from_peaks, 1 / kMost, kMost) : 1;
  };
  return {factor(load_s, predicted.load_s), factor(statistics::median(prefill), predicted.prefill_s),
          factor(statistics::median(decode), predicted.decode_s), statistics::median(beside)};
}

std::function<double(const Case&)> seconds_predictor(const ExperimentContext& context,
                                                     const ModelSource& source,
                                                     const ReachedPeaks& peaks_of) {
  auto predictor = std::make_shared<Predictor>(context, source, peaks_of, Predictor::Measures::once);
  return [predictor](const Case& spec) { return (*predictor)(spec).seconds; };
}

}  // namespace assay
