#include "assay/harness/predict.h"
#include "assay/plan/cost.h"

#include <algorithm>
#include <map>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/harness/make_case.h"
#include "assay/harness/roofline.h"
#include "assay/harness/sweep.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/session/resolve.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

class Predictor {
 public:
  // `measures_once`: the first configuration's roofline stands for all.
  Predictor(const ExperimentContext& context, const ModelSource& source, const ReachedPeaks& peaks_of,
            bool measures_once)
      : context_(context), source_(source), peaks_of_(peaks_of), measures_once_(measures_once) {}

  PredictedCase operator()(const Case& spec) {
    PredictedCase predicted{spec, 0, {}, ""};
    try {
      const std::vector<std::int64_t> tokens = tokens_of(spec);
      const auto all = static_cast<std::int64_t>(tokens.size());
      const std::int64_t size = spec.batch_size == 0 ? all : std::min(all, spec.batch_size);
      for (std::int64_t first = 0; first < all; first += size)
        predicted.seconds +=
            seconds_of(spec, {tokens.begin() + first, tokens.begin() + std::min(all, first + size)});
      const std::int64_t longest = depth_of(spec) + *std::max_element(tokens.begin(), tokens.end());
      if (context_.predicted_memory)
        predicted.memory = context_.predicted_memory(spec.configuration, size, longest + spec.new_tokens - 1);
      predicted.why_not = context_.sessions->why_not(spec.configuration).value_or("");
    } catch (const Error& error) {
      predicted.why_not = error.what();
    }
    return predicted;
  }

 private:
  struct Peaks {
    Plan plan;
    Roofline::Peaks reached;
  };

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
    if (!first_ || !measures_once_) first_ = peaks_of_(at->second.plan, precision, configuration);
    at->second.reached = *first_;
    return at->second;
  }

  double seconds_of(const Case& spec, std::vector<std::int64_t> tokens) {
    const Peaks& peaks = peaks_for(spec.configuration);
    BatchShape shape{std::move(tokens), spec.new_tokens, spec.uses_cache};
    if (spec.random_prompts) {
      constexpr std::int64_t kRows = 512;  // Program::max_rows() of every device
      shape.depth = depth_of(spec);
      shape.rows_per_step = kRows;
    }
    double seconds = 0;
    for (const PhaseCosts& costs : step_costs(peaks.plan, shape))
      seconds += peaks.reached.seconds(total_cost(costs));
    return seconds;
  }

  const ExperimentContext& context_;
  const ModelSource& source_;
  const ReachedPeaks peaks_of_;
  const bool measures_once_;
  std::map<std::string, Peaks> peaks_;
  std::optional<Roofline::Peaks> first_;  // where it stands for all
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
  constexpr Seconds kTime{0.02};
  constexpr std::int64_t kMax = std::int64_t{1} << 28;
  if (backend->pool() == nullptr) return usual_share(device_peaks(*backend, read, precision, kTime));
  ReadProbe probe({std::min(read.value, kMax)}, *backend->pool());
  return usual_share(host_peaks(probe, *backend->pool(),
                                peak_instruction(precision, isa_from_name(backend->kernels())), kTime));
}

std::vector<PredictedCase> predict_cases(const ExperimentContext& context, const ModelSource& source,
                                         const std::vector<Case>& cases, const ReachedPeaks& peaks_of) {
  Predictor predictor(context, source, peaks_of, false);
  std::vector<PredictedCase> all;
  for (const Case& spec : cases) all.push_back(predictor(spec));
  return all;
}

std::function<double(const Case&)> seconds_predictor(const ExperimentContext& context,
                                                     const ModelSource& source,
                                                     const ReachedPeaks& peaks_of) {
  auto predictor = std::make_shared<Predictor>(context, source, peaks_of, true);
  return [predictor](const Case& spec) { return (*predictor)(spec).seconds; };
}

}  // namespace assay
