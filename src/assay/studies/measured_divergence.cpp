#include "assay/studies/measured_divergence.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/divergence_json.h"
#include "assay/harness/journal.h"
#include "assay/harness/sessions.h"
#include "assay/harness/worker_protocol.h"
#include "assay/session/resolve.h"
#include "assay/statistics/replicates.h"
#include "assay/studies/session_result.h"

namespace assay {

namespace {

// What a pass over the baseline found of its candidates.
struct Pass {
  CorpusDivergence found;
  std::vector<SessionFacts> facts;  // the baseline's first; those of a failed one are empty
};

nlohmann::ordered_json pass_to_json(const Pass& pass) {
  nlohmann::ordered_json facts = nlohmann::ordered_json::array();
  for (const SessionFacts& each : pass.facts) facts.push_back(to_json(each));
  return {{"divergence", to_json(pass.found)}, {"facts", facts}};
}

Pass pass_from_json(const JsonReader& json) {
  Pass pass{corpus_divergence_from_json(json.at("divergence")), {}};
  for (const JsonReader& each : json.at("facts").items()) pass.facts.push_back(session_facts_from_json(each));
  return pass;
}

class Measurement {
 public:
  Measurement(const ExperimentContext& context, const DivergenceRun& run) : context_(context), run_(run) {
    if (run.configurations.size() < 2)
      throw FieldError("configurations", "expected a baseline and a candidate at least, found {}",
                       run.configurations.size());
    all_.baseline = run.configurations.front();
    for (std::size_t i = 1; i < run.configurations.size(); ++i)
      all_.candidates.push_back({run.configurations[i]});
  }

  MeasuredDivergences measure() {
    const std::vector<RunConfig> measured = with_floor();
    std::vector<std::vector<RunConfig>> groups = context_.sessions->groups(measured);
    if (context_.sweep.on_progress)
      context_.sweep.on_progress(fmt::format("divergence from {}", all_.baseline.label()), 0,
                                 static_cast<std::int64_t>(groups.size()), std::nullopt);
    for (const std::vector<RunConfig>& group : groups) {
      if (all_.is_interrupted || is_stopped()) {
        all_.is_interrupted = true;
        break;
      }
      if (all_.passes > 0 && is_too_late(context_, "divergence", pass_key(group)))
        all_.was_late = true;
      else
        measure_group(group);
    }
    for (MeasuredCandidate& candidate : all_.candidates)
      if (!candidate.tokens.empty())
        candidate.figures = statistics::divergence_figures(divergence_tokens(candidate.tokens));
    add_floor();
    return std::move(all_);
  }

 private:
  bool is_stopped() const { return context_.sweep.should_stop && context_.sweep.should_stop(); }

  // The floor is measured as a candidate, in place of one that is equal to it.
  std::vector<RunConfig> with_floor() {
    std::vector<RunConfig> measured = run_.configurations;
    if (!run_.measures_floor) return measured;
    floor_.configuration = floor_configuration(all_.baseline);
    all_.floor_of = fmt::format("{} against {}", all_.baseline.label(), floor_.configuration.label());
    if (std::find(measured.begin(), measured.end(), floor_.configuration) == measured.end())
      measured.push_back(floor_.configuration);
    return measured;
  }

  void measure_group(const std::vector<RunConfig>& group) {
    try {
      take(group, pass_over(group));
    } catch (const Stopped&) {
      all_.is_interrupted = true;
    } catch (const WorkerLost& lost) {
      if (lost.cause() == WorkerLost::Cause::stopped) {
        all_.is_interrupted = true;
      } else if (group.size() > 2) {  // which of them it was is not known
        for (std::size_t i = 1; i < group.size() && !all_.is_interrupted; ++i)
          measure_group({group.front(), group[i]});
      } else {
        fail(group.back(), lost.what());
      }
    }
  }

  std::string pass_key(const std::vector<RunConfig>& group) const {
    std::string key = to_json(run_.request).dump();
    for (const RunConfig& each : group) key += " | " + each.key();
    return key;
  }

  Pass pass_over(const std::vector<RunConfig>& group) const {
    return resumed(context_.sweep.journal, "divergence", pass_key(group), pass_from_json, pass_to_json, [&] {
      const SessionGroup live = context_.sessions->together(group);
      if (live.sessions.front() == nullptr) throw Error("{}", live.failures.front());
      std::vector<Session*> candidates;
      for (std::size_t i = 1; i < group.size(); ++i)
        if (live.sessions[i] != nullptr) candidates.push_back(live.sessions[i].get());
      Pass pass{live.sessions.front()->diverge(candidates, run_.request), {}};
      put_failures_in(live, pass.found);
      for (const auto& session : live.sessions)
        pass.facts.push_back(session == nullptr ? SessionFacts{} : session->facts());
      return pass;
    });
  }

  // Candidates that could not be loaded get their places back.
  static void put_failures_in(const SessionGroup& live, CorpusDivergence& found) {
    std::vector<CandidateDivergence>& all = found.divergence.candidates;
    for (std::size_t i = 1; i < live.sessions.size(); ++i) {
      if (live.sessions[i] != nullptr) continue;
      const auto at = static_cast<std::ptrdiff_t>(i - 1);
      all.insert(all.begin() + at, CandidateDivergence{.failure = live.failures[i]});
      if (!found.greedy.empty())
        found.greedy.insert(found.greedy.begin() + at, GreedyDivergence{.failure = live.failures[i]});
    }
  }

  void fail(const RunConfig& configuration, const std::string& why) {
    for_each_of(configuration, [&](MeasuredCandidate& candidate) { candidate.failure = why; });
  }

  template <typename Action>
  void for_each_of(const RunConfig& configuration, const Action& action) {
    for (MeasuredCandidate& candidate : all_.candidates)
      if (candidate.configuration == configuration) action(candidate);
    if (run_.measures_floor && floor_.configuration == configuration) action(floor_);
  }

  void take(const std::vector<RunConfig>& group, Pass pass) {
    const Divergence& d = pass.found.divergence;
    if (pass.facts.size() != group.size() || d.candidates.size() + 1 != group.size())
      throw Error("divergence: expected {} candidates, found {}", group.size() - 1, d.candidates.size());
    ++all_.passes;
    all_.seconds += pass.found.seconds;
    all_.baseline_facts = pass.facts.front();
    all_.corpus_sha256 = pass.found.corpus_sha256;
    all_.protocol = d.protocol;
    all_.ids = pass.found.ids;
    all_.scored = d.scored;
    all_.warnings = pass.found.warnings;
    for (std::size_t i = 1; i < group.size(); ++i)
      for_each_of(group[i], [&](MeasuredCandidate& candidate) {
        candidate.facts = pass.facts[i];
        candidate.failure = d.candidates[i - 1].failure;
        candidate.tokens = d.candidates[i - 1].tokens;
        if (!pass.found.greedy.empty()) candidate.greedy = pass.found.greedy[i - 1];
      });
  }

  void add_floor() {
    if (floor_.tokens.empty())
      all_.floor_of = "";
    else
      all_.floor = statistics::token_mean(kl_of(floor_.tokens));
  }

  const ExperimentContext& context_;
  const DivergenceRun& run_;
  MeasuredCandidate floor_;
  MeasuredDivergences all_;
};

}  // namespace

RunConfig floor_configuration(const RunConfig& baseline) {
  RunConfig floor = baseline;
  const bool is_bfloat16 = baseline.precision == Preset::bfloat16 || baseline.dtype == DType::bf16;
  const bool is_plain = baseline.precision &&
                        (*baseline.precision == Preset::float32 || *baseline.precision == Preset::float16 ||
                         *baseline.precision == Preset::bfloat16);
  if (is_plain) {
    floor.dtype.reset();
    floor.precision = is_bfloat16 ? Preset::float32 : Preset::bfloat16;
  } else {
    floor.dtype = is_bfloat16 ? DType::f32 : DType::bf16;
  }
  floor.float32_matmul.reset();
  return resolved_for_device(floor);
}

bool is_within_floor(const MeasuredCandidate& candidate, const MeasuredDivergences& all) {
  return candidate.figures && all.floor && candidate.figures->kl_mean.value < kFloorFactor * all.floor->value;
}

MeasuredDivergences measure_divergences(const ExperimentContext& context, const DivergenceRun& run) {
  return Measurement(context, run).measure();
}

statistics::DivergenceTokens divergence_tokens(std::span<const TokenDivergence> tokens) {
  statistics::DivergenceTokens all;
  for (const TokenDivergence& token : tokens) {
    all.kl.push_back(token.kl);
    all.nll_change.push_back(token.nll - token.nll_base);
    all.p_change.push_back(static_cast<double>(token.p) - static_cast<double>(token.p_base));
    all.same_top1.push_back(token.same_top1 ? 1 : 0);
    all.top5_agreement.push_back(static_cast<double>(token.top5));
  }
  return all;
}

std::vector<double> kl_of(std::span<const TokenDivergence> tokens) {
  std::vector<double> kl;
  for (const TokenDivergence& token : tokens) kl.push_back(token.kl);
  return kl;
}

namespace {

// More than one pair needs by itself: its level is divided, and of b blocks no p value lies below 2 / 2^b.
statistics::TokensNeeded needed_in_family(statistics::TokensNeeded alone, int divisor) {
  constexpr double kPower90 = 1.281552, kMany = 1e6;
  const double two_sided = statistics::student_t_quantile(1 - kFalsePairVerdict, kMany),
               divided = statistics::student_t_quantile(1 - kFalsePairVerdict / divisor, kMany);
  const double times = std::pow((divided + kPower90) / (two_sided + kPower90), 2),
               blocks = std::ceil(std::log2(2 * divisor / kFalsePairVerdict));
  const auto in_family = [&](std::int64_t tokens) {
    return std::max(static_cast<std::int64_t>(std::ceil(times * static_cast<double>(tokens))),
                    static_cast<std::int64_t>(blocks) * statistics::kDivergenceBlock);
  };
  return {in_family(alone.about), in_family(alone.low),
          alone.high ? std::optional(in_family(*alone.high)) : std::nullopt};
}

}  // namespace

std::vector<DivergencePair> compare_pairs(std::span<const MeasuredCandidate> candidates) {
  std::vector<DivergencePair> pairs;
  std::vector<std::vector<double>> kl;
  for (const MeasuredCandidate& candidate : candidates) kl.push_back(kl_of(candidate.tokens));
  for (std::size_t i = 0; i < kl.size(); ++i)
    for (std::size_t j = i + 1; j < kl.size(); ++j)
      if (!kl[i].empty() && kl[i].size() == kl[j].size())
        pairs.push_back({i, j, statistics::compare_divergence(kl[i], kl[j])});
  std::vector<double> p_values;
  for (const DivergencePair& pair : pairs) p_values.push_back(pair.paired.p_value);
  const std::vector<int> divisors = statistics::holm_divisors(p_values, kFalsePairVerdict);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].divisor = divisors[i];
    if (pairs[i].paired.blocks >= statistics::kMinForInterval &&
        p_values[i] <= kFalsePairVerdict / divisors[i])
      pairs[i].verdict = pairs[i].paired.difference.value < 0 ? -1 : 1;
    else if (auto& needed = pairs[i].paired.tokens_needed)
      needed = needed_in_family(*needed, divisors[i]);
  }
  return pairs;
}

}  // namespace assay
