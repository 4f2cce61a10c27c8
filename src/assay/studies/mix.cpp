#include "assay/studies/mix.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "assay/base/error.h"
#include "assay/statistics/knapsack.h"

namespace assay {

namespace {

using statistics::KnapsackFront;

constexpr double kMixLevel = 0.05;

class MixSearch {
 public:
  MixSearch(ItemExchange& model, std::span<const TokenId> scored, std::span<const TokenId> held_out,
            const MixOptions& options)
      : model_(model), scored_(scored), held_out_(held_out), options_(options), other_(model.other_bytes()) {
    if (options.candidates.empty()) throw FieldError("candidates", "expected a format, found none");
    const auto items = static_cast<std::int64_t>(model.items().size()),
               formats = static_cast<std::int64_t>(options.candidates.size());
    passes_ = items * formats + formats + 1;
  }

  Mix find() {
    require_room();
    score_items();
    const KnapsackFront front(scores_);
    Mix mix;
    mix.slack = front.slack();
    const std::vector<std::size_t> choice = front.choice_of(chosen_point(front));
    mix.chosen = row_of(options_.name, choice);
    for (std::size_t f = 0; f < options_.candidates.size(); ++f)
      mix.uniform.push_back(
          row_of(recipe_name_of(options_.candidates[f]), std::vector<std::size_t>(model_.items().size(), f)));
    std::stable_sort(mix.uniform.begin(), mix.uniform.end(),
                     [](const MixRow& a, const MixRow& b) { return a.bytes.value < b.bytes.value; });
    measure(mix);
    model_.restore();
    return mix;
  }

 private:
  void progress(const std::string& what) {
    if (options_.measuring.on_progress) options_.measuring.on_progress(what, done_, passes_);
    ++done_;
  }

  // Bytes are known before any score is.
  void require_room() {
    if (options_.limit.name != "memory") return;
    Bytes smallest = other_;
    for (std::size_t i = 0; i < model_.items().size(); ++i) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (const WeightFormat& format : options_.candidates)
        least = std::min(least, model_.bytes(i, format).value);
      smallest.value += least;
    }
    const auto bytes = static_cast<double>(smallest.value);
    if (bytes > options_.limit.bound)
      throw Error("limit {}: the smallest recipe of these candidates takes {} of weights",
                  text_of(options_.limit), shown(kind_of(options_.limit), bytes));
  }

  void score_items() {
    model_.restore();
    for (std::size_t i = 0; i < model_.items().size(); ++i) {
      scores_.emplace_back();
      for (const WeightFormat& format : options_.candidates) {
        progress(fmt::format("{} in {}", model_.items()[i].name, recipe_name_of(format)));
        model_.set(i, format);
        const TokenKl tokens = measure_tokens(model_, scored_, options_.measuring);
        scores_.back().push_back({model_.bytes(i, format).value, statistics::mean(tokens.kl)});
      }
      model_.set(i, formats::kFloat32);
    }
  }

  std::vector<WeightFormat> formats_of(const std::vector<std::size_t>& choice) const {
    std::vector<WeightFormat> all;
    for (const std::size_t option : choice) all.push_back(options_.candidates[option]);
    return all;
  }

  MixRow row_of(const std::string& name, const std::vector<std::size_t>& choice) const {
    MixRow row;
    row.name = name;
    row.recipe = recipe_of_items(name, model_.items(), formats_of(choice));
    row.bytes = other_;
    row.predicted_kl = 0;
    for (std::size_t i = 0; i < choice.size(); ++i) {
      row.bytes.value += scores_[i][choice[i]].bytes;
      *row.predicted_kl += scores_[i][choice[i]].loss;
    }
    return row;
  }

  std::size_t chosen_point(const KnapsackFront& front) {
    const Limit& limit = options_.limit;
    const double other = static_cast<double>(other_.value);
    if (limit.name == "memory") {
      const double room = std::min(limit.bound - other, 9e18);
      const auto point = front.within_bytes(static_cast<std::int64_t>(room));
      if (!point) throw std::logic_error("a limit of memory that was checked is not kept");
      return *point;
    }
    if (limit.name == "kl") {
      const auto point = front.within_loss(limit.bound);
      if (!point)
        throw Error("limit {}: the recipe of the least KL of these candidates has a sum of {:.3g}",
                    text_of(limit), front.points().back().loss);
      return *point;
    }
    if (limit.name != "agreement")
      throw FieldError("limit", "expected memory, kl or agreement, found '{}'", limit.name);
    return point_of_agreement(front);
  }

  double agreement_at(const KnapsackFront& front, std::size_t point) {
    ++passes_;
    progress("agreement of a mix");
    model_.set_all(formats_of(front.choice_of(point)));
    return statistics::mean(measure_tokens(model_, scored_, options_.measuring).same_top1);
  }

  // The last point keeps the limit, or none is known to; the first of those between that were measured to.
  std::size_t point_of_agreement(const KnapsackFront& front) {
    std::size_t high = front.points().size() - 1;
    if (const double most = agreement_at(front, high); most < options_.limit.bound)
      throw Error("limit {}: the recipe of the least KL of these candidates agrees in {:.1f} %",
                  text_of(options_.limit), 100 * most);
    for (std::size_t low = 0; low < high;) {
      const std::size_t middle = low + (high - low) / 2;
      if (agreement_at(front, middle) >= options_.limit.bound)
        high = middle;
      else
        low = middle + 1;
    }
    return high;
  }

  TokenKl measure_row(MixRow& row, std::string* protocol) {
    progress(fmt::format("{} on the text held out", row.name));
    std::vector<WeightFormat> formats;
    for (const FormatItem& item : model_.items())
      formats.push_back(item.modules.empty() ? *row.recipe.lm_head
                                             : row.recipe.format_of(item.modules.front()));
    model_.set_all(formats);
    TokenKl tokens = measure_tokens(model_, held_out_, options_.measuring, protocol);
    row.kl = statistics::token_mean(tokens.kl);
    row.top1_agreement = statistics::token_mean(tokens.same_top1);
    return tokens;
  }

  void measure(Mix& mix) {
    const TokenKl of_mix = measure_row(mix.chosen, &mix.protocol);
    mix.tokens_scored = std::ssize(scored_);
    mix.tokens_held_out = std::ssize(of_mix.kl);
    double contest = 0;
    for (MixRow& row : mix.uniform) {
      row.against_mix = statistics::compare_divergence(of_mix.kl, measure_row(row, nullptr).kl);
      row.is_in_contest =
          row.bytes <= mix.chosen.bytes && row.recipe.canonical() != mix.chosen.recipe.canonical();
      contest += row.is_in_contest ? 1 : 0;
    }
    for (MixRow& row : mix.uniform)
      if (row.is_in_contest && row.against_mix->p_value * contest < kMixLevel)
        row.verdict = row.against_mix->difference.value < 0 ? -1 : 1;
  }

  ItemExchange& model_;
  std::span<const TokenId> scored_, held_out_;
  const MixOptions& options_;
  const Bytes other_;
  std::vector<std::vector<statistics::KnapsackOption>> scores_;  // by item, by candidate
  std::int64_t done_ = 0, passes_ = 0;
};

}  // namespace

bool Mix::is_uniform() const {
  return std::any_of(uniform.begin(), uniform.end(),
                     [&](const MixRow& row) { return row.recipe.canonical() == chosen.recipe.canonical(); });
}

bool Mix::has_beaten_all() const {
  bool has_contest = false;
  for (const MixRow& row : uniform) {
    if (row.is_in_contest && row.verdict >= 0) return false;
    has_contest = has_contest || row.is_in_contest;
  }
  return has_contest;
}

Mix find_mix(ItemExchange& model, std::span<const TokenId> scored, std::span<const TokenId> held_out,
             const MixOptions& options) {
  return MixSearch(model, scored, held_out, options).find();
}

}  // namespace assay
