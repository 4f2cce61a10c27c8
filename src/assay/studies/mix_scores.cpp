#include "assay/studies/mix_scores.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "assay/base/error.h"

namespace assay {

namespace {

// Steps of each side that a time is the median of, and of a whole recipe.
constexpr std::int64_t kStepsOfKind = 24, kStepsOfRecipe = 48;
constexpr std::size_t kPrompt = 16;

std::span<const TokenId> prompt_of(std::span<const TokenId> ids) {
  return ids.first(std::min(kPrompt, ids.size()));
}

}  // namespace

std::int64_t passes_of_scores(const ItemExchange& model, std::span<const WeightFormat> candidates) {
  return std::ssize(model.items()) * std::ssize(candidates);
}

MixTable score_items(ItemExchange& model, std::span<const TokenId> ids,
                     std::span<const WeightFormat> candidates, const SensitivityOptions& options,
                     const std::function<void(const std::string&)>& progress) {
  MixTable table{.options = {}, .other = model.other_bytes()};
  model.restore();
  for (std::size_t i = 0; i < model.items().size(); ++i) {
    table.options.emplace_back();
    for (const WeightFormat& format : candidates) {
      if (!model.takes(i, format)) {
        table.options.back().push_back({.bytes = {}, .is_offered = false});
        continue;
      }
      progress(fmt::format("{} in {}", model.items()[i].name, recipe_name_of(format)));
      model.set(i, format);
      TokenKl tokens = measure_tokens(model, ids, options);
      table.options.back().push_back({.bytes = model.bytes(i, format),
                                      .kl = statistics::mean(tokens.kl),
                                      .tokens = std::move(tokens.kl)});
    }
    model.restore(i);
  }
  return table;
}

void time_items(ItemExchange& model, std::span<const TokenId> prompt,
                std::span<const WeightFormat> candidates, MixTable& table,
                const std::function<void(const std::string&)>& progress) {
  // Kinds whose items take as many bytes have one size.
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::vector<std::size_t>> kinds;
  for (std::size_t i = 0; i < model.items().size(); ++i)
    kinds[{model.items()[i].kind, model.bytes(i, model.base_format()).value, model.inputs_of(i)}].push_back(
        i);
  std::vector<double> base;
  model.restore();
  for (const auto& [kind, members] : kinds)
    for (std::size_t f = 0; f < candidates.size(); ++f) {
      const auto is_offered = [&](std::size_t i) { return table.options[i][f].is_offered; };
      if (!std::all_of(members.begin(), members.end(), is_offered)) continue;
      progress(fmt::format("time of {} in {}", std::get<0>(kind), recipe_name_of(candidates[f])));
      for (const std::size_t i : members) model.set(i, candidates[f]);
      const ItemExchange::StepTimes times = model.time_steps(prompt_of(prompt), kStepsOfKind);
      std::vector<double> changes;
      for (std::size_t s = 0; s < times.base.size(); ++s) changes.push_back(times.copy[s] - times.base[s]);
      base.insert(base.end(), times.base.begin(), times.base.end());
      for (const std::size_t i : members) {
        table.options[i][f].step_change = statistics::median(changes) / static_cast<double>(members.size());
        model.restore(i);
      }
    }
  table.base_step = statistics::median(base);
}

double step_seconds(ItemExchange& model, std::span<const TokenId> prompt) {
  return statistics::median(model.time_steps(prompt_of(prompt), kStepsOfRecipe).copy);
}

}  // namespace assay
