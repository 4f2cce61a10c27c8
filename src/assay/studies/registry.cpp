#include "assay/studies/registry.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/journal.h"
#include "assay/studies/tradeoff.h"

// One line per study; NAME_study() is in the file of its name.
#define ASSAY_STUDIES(STUDY)      \
  STUDY(baseline_study)           \
  STUDY(noise_study)              \
  STUDY(tradeoff_study)           \
  STUDY(lengths_study)            \
  STUDY(ablation_study)           \
  STUDY(cache_study)              \
  STUDY(padding_study)            \
  STUDY(precisions_study)         \
  STUDY(batched_study)            \
  STUDY(batched_precisions_study) \
  STUDY(threads_study)            \
  STUDY(kv_cache_study)           \
  STUDY(perplexity_study)         \
  STUDY(task_study)               \
  STUDY(divergence_study)         \
  STUDY(edge_prompts_study)       \
  STUDY(bench_study)

namespace assay {

#define ASSAY_DECLARE(study) Study study();
ASSAY_STUDIES(ASSAY_DECLARE)
#undef ASSAY_DECLARE

const std::vector<Study>& studies() {
#define ASSAY_MAKE(study) study(),
  static const std::vector<Study> all{ASSAY_STUDIES(ASSAY_MAKE)};
#undef ASSAY_MAKE
  return all;
}

const Study& study_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Study& study : studies()) {
    if (study.name == name) return study;
    names.push_back(study.name);
  }
  throw UsageError("study: expected one of {}, found '{}'", fmt::join(names, ", "), name);
}

std::vector<Case> cases_of(const ExperimentContext& context, const std::vector<PlannedStudy>& plan) {
  std::vector<Case> all;
  for (const PlannedStudy& planned : plan) {
    if (!planned.study->applies(context, planned.options)) continue;
    const std::vector<Case> cases = planned.study->cases(context, planned.options);
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

std::vector<CostedStudy> costs_of(const ExperimentContext& context, const std::vector<PlannedStudy>& plan,
                                  const CostOf& cost_of) {
  std::vector<CostedStudy> all;
  for (const PlannedStudy& planned : plan) {
    if (!planned.study->applies(context, planned.options)) continue;
    CostedStudy& costed = all.emplace_back(planned.study->costs(context, planned.options, cost_of));
    costed.has_asked_tokens = planned.has_asked_tokens;
    for (CostedCase& c : costed.cases) c.is_asked |= planned.has_asked_cases;
  }
  return all;
}

namespace {

// Scores are taken by the processes that the trade-off has loaded, before others end them.
void put_scores_behind_tradeoff(std::vector<const PlannedStudy*>& order) {
  const auto find = [&](auto from, std::string_view name) {
    return std::find_if(from, order.end(),
                        [&](const PlannedStudy* planned) { return planned->study->name == name; });
  };
  auto place = find(order.begin(), "trade-off");
  if (place == order.end()) return;
  ++place;
  for (const std::string_view name : {"perplexity", "task"})
    if (const auto own = find(place, name); own != order.end()) {
      std::rotate(place, own, own + 1);
      ++place;
    }
}

// Where a run may end early, what a decision needs most comes first.
std::vector<const PlannedStudy*> in_order(const ExperimentContext& context,
                                          const std::vector<PlannedStudy>& plan) {
  std::vector<const PlannedStudy*> order;
  for (const PlannedStudy& planned : plan) {
    const ChosenStudy* chosen = context.choice ? context.choice->find(planned.study->name) : nullptr;
    if ((chosen == nullptr || chosen->is_measured) && planned.study->applies(context, planned.options))
      order.push_back(&planned);
  }
  if (!context.choice || context.choice->is_whole()) return order;
  static constexpr std::string_view kNeeded[] = {"baseline", "trade-off", "perplexity",        "divergence",
                                                 "task",     "ablation",  "batches",           "lengths",
                                                 "edge",     "noise",     "batched-precisions"};
  const auto place = [](const PlannedStudy* planned) {
    return std::find(std::begin(kNeeded), std::end(kNeeded), planned->study->name) - std::begin(kNeeded);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const PlannedStudy* a, const PlannedStudy* b) { return place(a) < place(b); });
  return order;
}

// What a journal holds of a study is a part of the result, however late it is.
bool was_begun_before(const ExperimentContext& context, const std::string& study) {
  Journal* journal = context.sweep.journal;
  return journal != nullptr && journal->has("study", study);
}

}  // namespace

ExperimentResult run_studies(ExperimentContext context, const std::vector<PlannedStudy>& plan,
                             const PredictedSeconds& seconds_of) {
  const std::vector<const PlannedStudy*> shown = in_order(context, plan);
  std::vector<const PlannedStudy*> applying = shown;
  if (!context.choice || context.choice->is_whole()) put_scores_behind_tradeoff(applying);
  std::vector<TimeLeft::Part> parts;
  for (const PlannedStudy* planned : applying) {
    const Study& study = *planned->study;
    const ChosenStudy* chosen = context.choice ? context.choice->find(study.name) : nullptr;
    parts.push_back({study.name, chosen != nullptr ? chosen->predicted_s
                                 : seconds_of      ? study.predict_s(context, planned->options, seconds_of)
                                                   : 0});
  }
  TimeLeft time_left(std::move(parts), seconds_of != nullptr, context.sweep.on_progress, context.sweep.clock);
  if (applying.size() > 1) context.sweep.on_progress = time_left.teller();
  ExperimentResult result;
  std::map<const PlannedStudy*, ExperimentResult> found;
  bool is_interrupted = false;
  for (const PlannedStudy* planned : applying) {
    is_interrupted = is_interrupted || (context.sweep.should_stop && context.sweep.should_stop());
    if (is_interrupted) break;
    const bool was_begun = was_begun_before(context, planned->study->name);
    if (planned != applying.front() && context.sweep.is_late() && !was_begun) {
      found[planned].left_out.push_back(
          {.study = planned->study->name, .what = "the whole study", .reason = std::string(kSlower)});
      continue;
    }
    time_left.begin(planned->study->name);
    if (context.sweep.journal != nullptr && !was_begun)
      context.sweep.journal->append("study", planned->study->name, true);
    ExperimentResult& own = found[planned] = planned->study->measure(context, planned->options);
    is_interrupted = own.is_interrupted;
  }
  for (const PlannedStudy* planned : shown)
    if (const auto own = found.find(planned); own != found.end()) result.add(std::move(own->second));
  result.is_interrupted = is_interrupted;
  // The comparisons of all studies are judged together, also where the run was interrupted.
  result.judge_all(context.margin);
  for (const PlannedStudy* planned : shown) append_findings(planned->study->conclude, result);
  merge_quality(result.rows);
  return result;
}

}  // namespace assay
