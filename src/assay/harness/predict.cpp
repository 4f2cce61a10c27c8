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
#include "assay/session/load_parts.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

// The share of the roofline that steps usually reach.
constexpr double kOfMemory = 0.7, kOfCompute = 0.3;

class Predictor {
 public:
  // `measures_once`: the first configuration's roofline stands for all.
  Predictor(const ExperimentContext& context, const ModelFolder& folder, bool measures_once = false)
      : context_(context), folder_(folder), spec_(spec_from_folder(folder)), measures_once_(measures_once) {}

  PredictedCase operator()(const Case& what) {
    PredictedCase predicted{what, 0, {}, ""};
    try {
      const std::vector<std::int64_t> tokens = tokens_of(what);
      const auto all = static_cast<std::int64_t>(tokens.size());
      const std::int64_t size = what.batch_size == 0 ? all : std::min(all, what.batch_size);
      for (std::int64_t first = 0; first < all; first += size)
        predicted.seconds +=
            seconds_of(what, {tokens.begin() + first, tokens.begin() + std::min(all, first + size)});
      const std::int64_t longest = *std::max_element(tokens.begin(), tokens.end());
      if (context_.predicted_memory)
        predicted.memory = context_.predicted_memory(what.configuration, size, longest + what.new_tokens - 1);
      predicted.why_not = context_.sessions->why_not(what.configuration);
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

  std::vector<std::int64_t> tokens_of(const Case& what) const {
    std::vector<std::int64_t> tokens;
    for (const Prompt& prompt : what.prompts) {
      const auto* text = std::get_if<std::string>(&prompt);
      std::vector<TokenId> ids =
          text != nullptr ? encode(context_, *text) : std::get<std::vector<TokenId>>(prompt);
      truncate(ids, context_.context_length - what.new_tokens, what.truncation, context_.tokenizer.get());
      tokens.push_back(static_cast<std::int64_t>(ids.size()));
      if (tokens.back() + what.new_tokens > context_.context_length)
        throw Error("{} of the prompt and {} new ones exceed the model's context of {}",
                    counted(tokens.back(), "token"), what.new_tokens, context_.context_length);
    }
    return tokens;
  }

  const Peaks& peaks_of(const RunConfig& configuration) {
    const auto [at, is_new] = peaks_.try_emplace(configuration.key());
    if (!is_new) return at->second;
    const Precision precision =
        precision_of(folder_, spec_, folder_.path().string(), configuration).precision;
    at->second.plan = plan_forward(spec_, precision);
    if (measures_once_ && peaks_.size() > 1) {
      at->second.reached = first_;
      return at->second;
    }
    const auto backend = make_backend(device_of(configuration), backend_options(configuration, true));
    ThreadPool* pool = backend->pool();
    constexpr Seconds kTime{0.02};
    const Cost step = cost_of(at->second.plan, 1, 64, 1);
    if (pool == nullptr) {
      const WeightFormat format = is_four_bit(precision.weights) ? precision.dtype : precision.weights;
      const DeviceRates rates =
          backend->measure_rates(step.weight_bytes, format, kTime).value_or(DeviceRates{});
      at->second.reached = {kOfMemory * rates.bytes_per_second, kOfCompute * rates.operations_per_second};
      return at->second;
    }
    ReadProbe probe({std::min<std::int64_t>(step.weight_bytes.value, std::int64_t{1} << 28)}, *pool);
    at->second.reached.bytes_per_second = kOfMemory * probe.bytes_per_second(4, kTime);
    if (const auto product = bounding_product(precision, isa_from_name(backend->kernels())))
      at->second.reached.operations_per_second =
          kOfCompute * operations_per_second(product->kind, *pool, kTime) / product->each;
    if (peaks_.size() == 1) first_ = at->second.reached;
    return at->second;
  }

  double seconds_of(const Case& what, std::vector<std::int64_t> tokens) {
    const Peaks& peaks = peaks_of(what.configuration);
    double seconds = 0;
    for (const PhaseCosts& costs :
         step_costs(peaks.plan, {std::move(tokens), what.new_tokens, what.uses_cache}))
      seconds += peaks.reached.seconds(total_cost(costs));
    return seconds;
  }

  const ExperimentContext& context_;
  const ModelFolder& folder_;
  const ModelSpec spec_;
  const bool measures_once_;
  std::map<std::string, Peaks> peaks_;
  Roofline::Peaks first_;
};

}  // namespace

std::vector<PredictedCase> predict_cases(const ExperimentContext& context, const ModelFolder& folder,
                                         const std::vector<Case>& cases) {
  Predictor predictor(context, folder);
  std::vector<PredictedCase> all;
  for (const Case& what : cases) all.push_back(predictor(what));
  return all;
}

std::function<double(const Case&)> seconds_predictor(const ExperimentContext& context,
                                                     const ModelFolder& folder) {
  auto predictor = std::make_shared<Predictor>(context, folder, true);
  return [predictor](const Case& what) { return (*predictor)(what).seconds; };
}

}  // namespace assay
