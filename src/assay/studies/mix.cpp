#include "assay/studies/mix.h"

#include <algorithm>
#include <limits>

#include "assay/base/error.h"
#include "assay/statistics/replicates.h"
#include "assay/studies/mix_scores.h"

namespace assay {

namespace {

constexpr double kMixLevel = 0.05;  // the chance of any false verdict
constexpr double kNoBound = std::numeric_limits<double>::infinity();

class MixSearch {
 public:
  MixSearch(ItemExchange& model, std::span<const TokenId> chosen_by, std::span<const TokenId> held_out,
            const MixOptions& options)
      : model_(model), chosen_by_(chosen_by), held_out_(held_out), options_(options) {
    if (options.candidates.empty()) throw FieldError("candidates", "expected a format, found none");
    if (options.time_limit && options.limit.name == "agreement")
      throw FieldError("limit", "expected a time beside memory or kl, found it beside agreement");
    const auto most = static_cast<std::size_t>(options.item_tokens);
    require_candidates();
    item_ids_ = most > 0 && most < chosen_by.size() ? chosen_by.first(most) : chosen_by;
    if (is_time_limit(options.limit)) max_step_ = step_bound(options.limit);
    if (options.time_limit) max_step_ = std::min(max_step_, step_bound(*options.time_limit));
    // Together on the text it is chosen by, and held out: the mix and the uniform formats; two neighbours.
    passes_ = passes_of_scores(model, options.candidates) + 2 * std::ssize(options.candidates) + 4;
  }

  Mix find() {
    require_room();
    const auto progress = [this](const std::string& what) { this->progress(what); };
    table_ = score_items(model_, item_ids_, options_.candidates, options_.measuring, progress);
    if (max_step_ < kNoBound) time_items(model_, chosen_by_, options_.candidates, table_, progress);
    MixChooser chooser(table_, max_step_);
    Mix mix;
    FormatChoice choice = chosen(chooser);
    mix.slack = chooser.slack();
    choice = better_together(std::move(choice), mix.together);
    mix.chosen = row_of(options_.name, choice);
    for (const FormatChoice& next : chooser.neighbours_of(choice))
      mix.neighbours.push_back(
          row_of(table_.sums_of(next).bytes < table_.sums_of(choice).bytes ? "smaller" : "larger", next));
    for (std::size_t f = 0; f < options_.candidates.size(); ++f)
      if (table_.is_offered_to_all(f))
        mix.uniform.push_back(row_of(uniform_name(options_.candidates[f]), uniform(f)));
    std::stable_sort(mix.uniform.begin(), mix.uniform.end(),
                     [](const MixRow& a, const MixRow& b) { return a.bytes.value < b.bytes.value; });
    measure(mix);
    model_.restore();
    for (const FormatItem& item : model_.items()) mix.items.push_back(item.name);
    mix.table = std::move(table_);
    return mix;
  }

 private:
  void progress(const std::string& what) {
    passes_ = std::max(passes_, done_ + 1);
    if (options_.measuring.on_progress) options_.measuring.on_progress(what, done_, passes_);
    ++done_;
  }

  void require_candidates() const {
    for (std::size_t i = 0; i < model_.items().size(); ++i)
      if (std::none_of(options_.candidates.begin(), options_.candidates.end(),
                       [&](const WeightFormat& format) { return model_.takes(i, format); }))
        throw Error("{}: its {} inputs are no whole number of blocks of any of {}; add {} to the candidates",
                    model_.items()[i].name, model_.inputs_of(i), names_of(options_.candidates),
                    model_.takes(i, formats::kQ8_0) ? "q8_0" : "int8-dynamic");
  }

  // Bytes are known before any score is.
  void require_room() {
    if (options_.limit.name != "memory") return;
    Bytes smallest = model_.other_bytes();
    for (std::size_t i = 0; i < model_.items().size(); ++i) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (const WeightFormat& format : options_.candidates)
        if (model_.takes(i, format)) least = std::min(least, model_.bytes(i, format).value);
      smallest.value += least;
    }
    const auto bytes = static_cast<double>(smallest.value);
    if (bytes > options_.limit.bound)
      throw Error("limit {}: the smallest recipe of these candidates takes {} of weights",
                  text_of(options_.limit), shown(kind_of(options_.limit), bytes));
  }

  FormatChoice uniform(std::size_t candidate) const { return FormatChoice(model_.items().size(), candidate); }

  std::vector<WeightFormat> formats_of(const FormatChoice& choice) const {
    std::vector<WeightFormat> all;
    for (const std::size_t option : choice) all.push_back(options_.candidates[option]);
    return all;
  }

  MixRow row_of(const std::string& name, const FormatChoice& choice) const {
    const MixSums sums = table_.sums_of(choice);
    MixRow row{.name = name,
               .recipe = recipe_of_items(name, model_.items(), formats_of(choice)),
               .choice = choice,
               .bytes = {static_cast<std::int64_t>(sums.bytes)},
               .predicted_kl = sums.kl,
               .kl = {},
               .top1_agreement = {}};
    if (table_.base_step) row.predicted_step = sums.step;
    return row;
  }

  double max_bytes() const { return options_.limit.name == "memory" ? options_.limit.bound : kNoBound; }

  // The bytes that may stand in for the choice: of a limit that bytes are spared for, no more than it has.
  double room_of(const FormatChoice& choice) const {
    const bool spares_bytes = options_.limit.name == "kl" || options_.limit.name == "agreement";
    return spares_bytes ? table_.sums_of(choice).bytes : max_bytes();
  }

  std::string text_of_limits() const {
    return options_.time_limit ? text_of(options_.limit) + "," + text_of(*options_.time_limit)
                               : text_of(options_.limit);
  }

  FormatChoice chosen(MixChooser& chooser) {
    const Limit& limit = options_.limit;
    if (limit.name == "agreement") return chooser.choice_of(point_of_agreement(chooser));
    if (limit.name != "memory" && limit.name != "kl" && !is_time_limit(limit))
      throw FieldError("limit", "expected memory, kl, agreement, token or tokens-per-s, found '{}'",
                       limit.name);
    const auto choice = limit.name == "kl" ? chooser.least_bytes(limit.bound) : chooser.least_kl(max_bytes());
    if (choice) return *choice;
    if (max_step_ < kNoBound)
      throw Error(
          "limit {}: no recipe of these candidates keeps it; the fastest decode step within the memory is "
          "{:.4g} ms by the sum of the parts",
          text_of_limits(), 1e3 * chooser.fastest_step(max_bytes()));
    throw Error("limit {}: the recipe of the least KL of these candidates has a sum of {:.3g}",
                text_of(limit), chooser.front()->points().back().loss);
  }

  double agreement_at(const MixChooser& chooser, std::size_t point) {
    progress("agreement of a mix");
    return statistics::mean(tokens_of(chooser.choice_of(point), chosen_by_).same_top1);
  }

  // The last point keeps the limit, or none is known to; the first of those between that were measured to.
  std::size_t point_of_agreement(const MixChooser& chooser) {
    std::size_t high = chooser.front()->points().size() - 1;
    if (const double most = agreement_at(chooser, high); most < options_.limit.bound)
      throw Error("limit {}: the recipe of the least KL of these candidates agrees in {:.1f} %",
                  text_of(options_.limit), 100 * most);
    for (std::size_t low = 0; low < high;) {
      const std::size_t middle = low + (high - low) / 2;
      if (agreement_at(chooser, middle) >= options_.limit.bound)
        high = middle;
      else
        low = middle + 1;
    }
    return high;
  }

  TokenKl tokens_of(const FormatChoice& choice, std::span<const TokenId> ids,
                    std::string* protocol = nullptr) {
    model_.set_all(formats_of(choice));
    return measure_tokens(model_, ids, options_.measuring, protocol);
  }

  // The sum is outside of what was measured, on the tokens of the scores or on all.
  static bool misleads(const MixTogether& together) {
    const auto leaves_out = [](const statistics::Estimate& estimate, double value) {
      return estimate.interval && (estimate.interval->low > value || estimate.interval->high < value);
    };
    const double sum = together.predicted_kl, measured = together.kl.value;
    if (!together.kl.interval) return measured > kAdditiveFactor * sum || kAdditiveFactor * measured < sum;
    return leaves_out(together.kl, sum) || leaves_out(together.excess, 0);
  }

  bool keeps_agreement(const TokenKl& tokens) const {
    return options_.limit.name != "agreement" || statistics::mean(tokens.same_top1) >= options_.limit.bound;
  }

  // The choice, or what all its parts together say is better on the text it is chosen by.
  FormatChoice better_together(FormatChoice choice, MixTogether& together) {
    progress("the mix, all parts together");
    std::vector<double> kl = tokens_of(choice, chosen_by_).kl;
    together.tokens = std::ssize(kl);
    together.kl = statistics::token_mean(kl);
    const std::vector<double> predicted = table_.predicted_tokens(choice);
    together.predicted_kl = statistics::mean(predicted);
    std::vector<double> excess;  // the tokens of the scores are the first of these
    for (std::size_t t = 0; t < std::min(kl.size(), predicted.size()); ++t)
      excess.push_back(kl[t] - predicted[t]);
    together.excess = statistics::token_mean(excess);
    together.is_misled = misleads(together);
    if (together.is_misled) exchange(choice, kl, together);
    prefer_uniform(choice, kl, together);
    return choice;
  }

  void exchange(FormatChoice& choice, std::vector<double>& kl, MixTogether& together) {
    const MixBounds bounds{.bytes = room_of(choice), .step = max_step_};
    ExchangedChoice found =
        exchange_pairs(table_, {choice, kl}, bounds, options_.most_exchanges, [&](const FormatChoice& other) {
          progress("an exchange of two formats");
          TokenKl tokens = tokens_of(other, chosen_by_);
          return keeps_agreement(tokens) ? std::move(tokens.kl) : std::vector<double>();
        });
    choice = std::move(found.choice);
    kl = std::move(found.kl);
    together.tried = found.tried;
    together.kept = found.kept;
  }

  // A uniform format that keeps the limits is a choice like others, though sums preferred another.
  void prefer_uniform(FormatChoice& choice, std::vector<double>& kl, MixTogether& together) {
    const double most = room_of(choice);
    for (std::size_t f = 0; f < options_.candidates.size(); ++f) {
      if (!table_.is_offered_to_all(f)) continue;
      const FormatChoice all = uniform(f);
      const MixSums sums = table_.sums_of(all);
      if (all == choice || sums.bytes > most || sums.step > max_step_) continue;
      progress(fmt::format("{} on the text it is chosen by", recipe_name_of(options_.candidates[f])));
      TokenKl of_all = tokens_of(all, chosen_by_);
      if (statistics::mean(of_all.kl) >= statistics::mean(kl) || !keeps_agreement(of_all)) continue;
      choice = all;
      kl = std::move(of_all.kl);
      together.uniform_instead = recipe_name_of(options_.candidates[f]);
    }
  }

  TokenKl measure_row(MixRow& row, std::string* protocol = nullptr) {
    progress(fmt::format("{} on the text held out", row.name));
    TokenKl tokens = tokens_of(row.choice, held_out_, protocol);
    row.kl = statistics::token_mean(tokens.kl);
    row.top1_agreement = statistics::token_mean(tokens.same_top1);
    if (table_.base_step) row.step = step_seconds(model_, held_out_);
    return tokens;
  }

  void measure(Mix& mix) {
    const TokenKl of_mix = measure_row(mix.chosen, &mix.protocol);
    mix.tokens_scored = std::ssize(table_.predicted_tokens(mix.chosen.choice));
    mix.tokens_held_out = std::ssize(of_mix.kl);
    for (MixRow& row : mix.neighbours)
      row.against_mix = statistics::compare_divergence(of_mix.kl, measure_row(row).kl);
    std::vector<double> p_values;
    for (MixRow& row : mix.uniform) {
      row.against_mix = statistics::compare_divergence(of_mix.kl, measure_row(row).kl);
      row.is_in_contest = row.bytes <= mix.chosen.bytes && row.choice != mix.chosen.choice;
      if (row.is_in_contest) p_values.push_back(row.against_mix->p_value);
    }
    const std::vector<char> is_shown = statistics::hochberg_rejections(p_values, kMixLevel);
    auto next = is_shown.begin();
    for (MixRow& row : mix.uniform)
      if (row.is_in_contest && *next++ != 0) row.verdict = row.against_mix->difference.value < 0 ? -1 : 1;
  }

  ItemExchange& model_;
  std::span<const TokenId> chosen_by_, item_ids_, held_out_;
  const MixOptions& options_;
  double max_step_ = kNoBound;
  MixTable table_;
  std::int64_t done_ = 0, passes_ = 0;
};

}  // namespace

bool is_time_limit(const Limit& limit) {
  return limit.name == "token" || limit.name == "tokens-per-s";
}

double step_bound(const Limit& limit) {
  return limit.name == "token" ? limit.bound / 1e3 : 1 / limit.bound;
}

std::vector<LeftOutFormat> Mix::left_out(std::span<const WeightFormat> candidates) const {
  std::vector<LeftOutFormat> all;
  for (std::size_t f = 0; f < candidates.size(); ++f) {
    LeftOutFormat format{.format = candidates[f]};
    for (std::size_t i = 0; i < items.size(); ++i)
      if (!table.options[i][f].is_offered) format.items.push_back(items[i]);
    if (!format.items.empty()) all.push_back(std::move(format));
  }
  return all;
}

bool Mix::is_uniform() const {
  return std::any_of(uniform.begin(), uniform.end(),
                     [&](const MixRow& row) { return row.choice == chosen.choice; });
}

bool Mix::has_beaten_all() const {
  bool has_contest = false;
  for (const MixRow& row : uniform) {
    if (row.is_in_contest && row.verdict >= 0) return false;
    has_contest = has_contest || row.is_in_contest;
  }
  return has_contest;
}

std::string uniform_name(const WeightFormat& format) {
  if (!is_quantized(format)) return recipe_name_of(format);
  const std::string name = recipe_name_of(format);
  return fmt::format("{}+head:{}", format == formats::kInt8 ? name_of(Preset::int8_dynamic) : name, name);
}

Mix find_mix(ItemExchange& model, std::span<const TokenId> chosen_by, std::span<const TokenId> held_out,
             const MixOptions& options) {
  return MixSearch(model, chosen_by, held_out, options).find();
}

}  // namespace assay
