#include "assay/cli/divergence_view.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"
#include "assay/results/results_json.h"

namespace assay::cli {

namespace {

using statistics::DivergenceFigures;
using statistics::Estimate;

constexpr std::size_t kContextTokens = 12, kShownText = 72;

std::string with_interval(const Estimate& estimate, double scale = 1) {
  std::optional<statistics::Interval> scaled = estimate.interval;
  if (scaled) scaled = statistics::Interval{scale * scaled->low, scale * scaled->high, scaled->level};
  return report::with_interval(scale * estimate.value, scaled);
}

// Places of the candidates that were measured, the smallest mean KL first.
std::vector<std::size_t> by_kl(const MeasuredDivergences& found) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < found.candidates.size(); ++i)
    if (found.candidates[i].figures) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return found.candidates[a].figures->kl_mean.value < found.candidates[b].figures->kl_mean.value;
  });
  return order;
}

std::string table_of_divergences(const MeasuredDivergences& found, std::size_t width) {
  report::Table table{
      {"Candidate", "KL (nats)", "Median", "p99", "Max", "Top-1 (%)", "RMS dp (%)", "ln PPL ratio"},
      {false, true, true, true, true, true, true, true},
      {},
      {0, 0, 4, 2, 3, 0, 2, 1}};
  for (const MeasuredCandidate& candidate : found.candidates) {
    const std::string label = candidate.configuration.label();
    if (!candidate.figures) {
      table.rows.push_back({label, "failed", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const DivergenceFigures& f = *candidate.figures;
    table.rows.push_back({label, with_interval(f.kl_mean), fmt::format("{:.3g}", f.kl_median.value),
                          fmt::format("{:.3g}", f.kl_p99.value), fmt::format("{:.3g}", f.kl_max),
                          fmt::format("{:.1f}", 100 * f.top1_agreement.value),
                          fmt::format("{:.2f}", 100 * f.p_change_rms.value),
                          fmt::format("{:.4f}", f.log_perplexity_ratio.value)});
  }
  return report::to_text(table, width);
}

std::string forecast_of(const std::optional<statistics::TokensNeeded>& needed) {
  if (!needed) return "no length of text is known to tell";
  return fmt::format("about {} tokens would tell ({})", needed->about,
                     needed->high ? fmt::format("in four of five cases {} to {}", needed->low, *needed->high)
                                  : fmt::format("{} at least", needed->low));
}

std::string floor_sentence(const DivergenceView& view) {
  const MeasuredDivergences& found = view.found;
  if (!found.floor) return "";
  std::string text = fmt::format("Noise floor: KL {} ({}).\n", with_interval(*found.floor), found.floor_of);
  for (const MeasuredCandidate& candidate : found.candidates)
    if (is_within_floor(candidate, found))
      text += fmt::format("{} is not distinguishable from the noise floor: its KL is below {:g} times it.\n",
                          candidate.configuration.label(), kFloorFactor);
  return text;
}

std::string pair_sentence(const MeasuredDivergences& found, const DivergencePair& pair) {
  std::string first = found.candidates[pair.first].configuration.label(),
              second = found.candidates[pair.second].configuration.label();
  const statistics::PairedDivergence& paired = pair.paired;
  Estimate less = paired.difference;
  if (less.value > 0) {
    std::swap(first, second);
  } else {
    less.value = -less.value;
    if (less.interval)
      less.interval = statistics::Interval{-less.interval->high, -less.interval->low, less.interval->level};
  }
  if (pair.verdict != 0)
    return fmt::format("{} diverges less than {}: its KL is lower by {} nats per token.", first, second,
                       with_interval(less));
  if (less.value == 0) return fmt::format("{} and {}: the same mean KL on these tokens.", first, second);
  return fmt::format(
      "{} and {}: undecided, their KL differs by {} nats per token; {}.", first, second, with_interval(less),
      less.interval ? forecast_of(paired.tokens_needed) : "these tokens are too few for a test");
}

// Neighbours in the order of their KL: of others the verdict seldom surprises, and JSON has all.
std::string pair_sentences(const DivergenceView& view) {
  std::string text;
  const std::vector<std::size_t> order = by_kl(view.found);
  for (std::size_t i = 0; i + 1 < order.size(); ++i)
    for (const DivergencePair& pair : view.pairs)
      if (pair.first == std::min(order[i], order[i + 1]) && pair.second == std::max(order[i], order[i + 1]))
        text += pair_sentence(view.found, pair) + "\n";
  if (view.pairs.size() > 1)
    text += fmt::format(
        "All {} pairs are judged together (Holm): the chance of any false verdict is {:.0f} % at most.\n",
        view.pairs.size(), 100 * kFalsePairVerdict);
  return text;
}

std::string text_of(const DivergenceView& view, std::size_t first, std::size_t end) {
  const std::span<const TokenId> ids = std::span(view.found.ids).subspan(first, end - first);
  return view.tokenizer != nullptr ? view.tokenizer->decode(ids) : fmt::format("{}", fmt::join(ids, " "));
}

// Places among the scored tokens, the largest KL first.
std::vector<std::size_t> worst_of(const MeasuredCandidate& candidate, std::size_t count) {
  std::vector<std::size_t> places(candidate.tokens.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  count = std::min(count, places.size());
  std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count), places.end(),
                    [&](std::size_t a, std::size_t b) {
                      const double of_a = candidate.tokens[a].kl, of_b = candidate.tokens[b].kl;
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  places.resize(count);
  return places;
}

// The last characters of a text on one line.
std::string end_of_text(const std::string& text) {
  std::size_t first = text.size() > kShownText ? text.size() - kShownText : 0;
  while (first < text.size() && (static_cast<unsigned char>(text[first]) & 0xC0U) == 0x80U) ++first;
  return report::one_line(text.substr(first), 4 * kShownText);
}

std::string tokens_in_context(const DivergenceView& view) {
  std::string text;
  for (const MeasuredCandidate& candidate : view.found.candidates)
    for (const std::size_t place : worst_of(candidate, view.worst)) {
      const TokenDivergence& token = candidate.tokens[place];
      const auto at = static_cast<std::size_t>(view.found.scored[place]);
      text += fmt::format("{}: KL {:.3g} at token {}, p {:.3f} -> {:.3f}: \"{}\" -> \"{}\"\n",
                          candidate.configuration.label(), token.kl, at, token.p_base, token.p,
                          end_of_text(text_of(view, at - std::min(at, kContextTokens), at)),
                          report::one_line(text_of(view, at, at + 1), kShownText));
    }
  return text;
}

std::string greedy_sentences(const MeasuredDivergences& found) {
  std::string text;
  for (const MeasuredCandidate& candidate : found.candidates) {
    if (!candidate.greedy || !candidate.greedy->failure.empty()) continue;
    const GreedyDivergence& greedy = *candidate.greedy;
    const std::string label = candidate.configuration.label();
    text +=
        greedy.equal_tokens == greedy.new_tokens
            ? fmt::format("{}: greedy generation gives the baseline's {} tokens.\n", label, greedy.new_tokens)
            : fmt::format(
                  "{}: greedy generation diverges from the baseline's text after {} of {} tokens, where the "
                  "baseline prefers its token by {:.3g} nats.\n",
                  label, greedy.equal_tokens, greedy.new_tokens, greedy.base_margin);
  }
  return text;
}

nlohmann::ordered_json json_of(const Estimate& estimate) {
  nlohmann::ordered_json json{{"value", estimate.value}, {"low", nullptr}, {"high", nullptr}};
  if (estimate.interval) {
    json["low"] = estimate.interval->low;
    json["high"] = estimate.interval->high;
  }
  return json;
}

nlohmann::ordered_json figures_json(const DivergenceFigures& f) {
  return {{"tokens_scored", f.tokens},
          {"kl_mean", json_of(f.kl_mean)},
          {"kl_median", json_of(f.kl_median)},
          {"kl_p90", json_of(f.kl_p90)},
          {"kl_p99", json_of(f.kl_p99)},
          {"kl_p999", f.kl_p999 ? json_of(*f.kl_p999) : nlohmann::ordered_json(nullptr)},
          {"kl_max", f.kl_max},
          {"top1_agreement", json_of(f.top1_agreement)},
          {"top5_agreement", json_of(f.top5_agreement)},
          {"delta_p_mean", json_of(f.p_change_mean)},
          {"delta_p_rms", json_of(f.p_change_rms)},
          {"delta_p_falls", json_of(f.p_falls)},
          {"log_perplexity_ratio", json_of(f.log_perplexity_ratio)}};
}

nlohmann::ordered_json candidate_view(const DivergenceView& view, const MeasuredCandidate& candidate) {
  nlohmann::ordered_json json{{"candidate", candidate.configuration.label()}};
  if (!candidate.figures) {
    json["error"] = candidate.failure;
    return json;
  }
  json["dtype"] = candidate.facts.model.dtype;
  json.update(figures_json(*candidate.figures));
  json["kl_max_token"] = view.found.scored[candidate.figures->kl_max_token];
  json["is_within_noise_floor"] =
      view.found.floor ? nlohmann::ordered_json(is_within_floor(candidate, view.found)) : nullptr;
  nlohmann::ordered_json& worst = json["worst_tokens"] = nlohmann::ordered_json::array();
  for (const std::size_t place : worst_of(candidate, view.worst)) {
    const TokenDivergence& token = candidate.tokens[place];
    const auto at = static_cast<std::size_t>(view.found.scored[place]);
    worst.push_back({{"token", at},
                     {"id", view.found.ids[at]},
                     {"text", text_of(view, at, at + 1)},
                     {"before", text_of(view, at - std::min(at, kContextTokens), at)},
                     {"kl", token.kl},
                     {"p_base", token.p_base},
                     {"p", token.p}});
  }
  if (candidate.greedy && candidate.greedy->failure.empty())
    json["greedy"] = {{"equal_tokens", candidate.greedy->equal_tokens},
                      {"new_tokens", candidate.greedy->new_tokens},
                      {"base_margin", candidate.greedy->base_margin}};
  return json;
}

nlohmann::ordered_json pair_json(const MeasuredDivergences& found, const DivergencePair& pair) {
  const std::string first = found.candidates[pair.first].configuration.label(),
                    second = found.candidates[pair.second].configuration.label();
  const std::optional<statistics::TokensNeeded>& needed = pair.paired.tokens_needed;
  const nlohmann::ordered_json nothing = nullptr;
  return {{"first", first},
          {"second", second},
          {"kl_difference", json_of(pair.paired.difference)},
          {"first_is_lower_share", pair.paired.first_is_lower},
          {"p_value", pair.paired.p_value},
          {"error_level", kFalsePairVerdict / pair.divisor},
          {"diverges_less", pair.verdict < 0   ? nlohmann::ordered_json(first)
                            : pair.verdict > 0 ? nlohmann::ordered_json(second)
                                               : nlohmann::ordered_json(nullptr)},
          {"tokens_needed", needed ? nlohmann::ordered_json(needed->about) : nothing},
          {"tokens_needed_low", needed ? nlohmann::ordered_json(needed->low) : nothing},
          {"tokens_needed_high", needed && needed->high ? nlohmann::ordered_json(*needed->high) : nothing}};
}

nlohmann::ordered_json limit_json(const JudgedLimit& limit, const std::vector<FailureRule>& rules) {
  return {{"rule", rules[limit.rule].text},
          {"candidate", limit.row->label},
          {"verdict", name_of(limit.verdict)},
          {"p_value", limit.p_value},
          {"error_level", kFalseLimitVerdict / limit.divisor}};
}

// How the verdicts of a family are corrected.
nlohmann::ordered_json correction_json(std::size_t comparisons, double error) {
  return {{"method", "holm"}, {"comparisons", comparisons}, {"error", error}};
}

}  // namespace

std::string DivergenceView::text(std::size_t width) const {
  std::string all = table_of_divergences(found, width);
  for (const std::string& part : {floor_sentence(*this), pair_sentences(*this), greedy_sentences(found)})
    if (!part.empty()) all += "\n" + part;
  if (const std::string tokens = tokens_in_context(*this); !tokens.empty())
    all += "\nLargest divergences, the text before -> the true token:\n" + tokens;
  return all;
}

std::vector<std::string> DivergenceView::notes() const {
  std::vector<std::string> lines;
  for (const Warning& warning : found.warnings) lines.push_back("warning: " + report::sentence_of(warning));
  for (const MeasuredCandidate& candidate : found.candidates)
    for (const Warning& warning : candidate.facts.warnings)
      if (warning.kind == WarningKind::format_fallback)
        lines.push_back(
            fmt::format("warning: {}: {}", candidate.configuration.label(), report::sentence_of(warning)));
  lines.push_back(fmt::format("KL from {} to each candidate, {}: {} of {} tokens scored, {:.2f} s",
                              found.baseline.label(), found.protocol, found.scored.size(), found.ids.size(),
                              found.seconds));
  if (found.passes > 1)
    lines.push_back(fmt::format(
        "The text went through the baseline {} times: memory does not hold all candidates together.",
        found.passes));
  const auto fewest = static_cast<std::size_t>(statistics::kDivergenceBlock) * statistics::kMinForInterval;
  if (found.scored.size() < fewest)
    lines.push_back(fmt::format("Intervals and verdicts need {} scored tokens: take a longer text.", fewest));
  return lines;
}

nlohmann::ordered_json DivergenceView::json() const {
  nlohmann::ordered_json candidates = nlohmann::ordered_json::array(),
                         all_pairs = nlohmann::ordered_json::array(),
                         all_limits = nlohmann::ordered_json::array(),
                         floor = nlohmann::ordered_json(nullptr);
  for (const MeasuredCandidate& candidate : found.candidates)
    candidates.push_back(candidate_view(*this, candidate));
  for (const DivergencePair& pair : pairs) all_pairs.push_back(pair_json(found, pair));
  for (const JudgedLimit& limit : limits) all_limits.push_back(limit_json(limit, rules));
  if (found.floor) {
    floor = json_of(*found.floor);
    floor["of"] = found.floor_of;
  }
  return {{"baseline", found.baseline.label()},
          {"dtype", found.baseline_facts.model.dtype},
          {"model", found.baseline_facts.model.id},
          {"protocol", found.protocol},
          {"corpus_sha256", found.corpus_sha256},
          {"tokens", found.ids.size()},
          {"tokens_scored", found.scored.size()},
          {"passes", found.passes},
          {"seconds", found.seconds},
          {"noise_floor", floor},
          {"candidates", candidates},
          {"pairs", all_pairs},
          {"pairs_correction", correction_json(pairs.size(), kFalsePairVerdict)},
          {"limits", all_limits},
          {"limits_correction", correction_json(limits.size(), kFalseLimitVerdict)},
          {"warnings", to_json(found.warnings)}};
}

}  // namespace assay::cli
