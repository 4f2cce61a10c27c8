#include "assay/results/takeaways.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "assay/base/format.h"
#include "assay/results/limited_choice.h"

namespace assay {

namespace {

constexpr std::string_view kLatency = "total_latency_s";

double value_of(const Row& row, std::string_view tag) {
  const Value* value = row.find(tag);
  return value == nullptr ? 0 : value->value;
}

std::vector<std::string> labels_of(const std::vector<const Row*>& rows) {
  std::vector<std::string> labels;
  for (const Row* row : rows) labels.push_back(row->label);
  return labels;
}

class Takeaways {
 public:
  explicit Takeaways(const ResultSet& results) : results_(results) {
    for (const Row& row : results.rows)
      if (row.status == RowStatus::ok && row.scenario == Scenario::tradeoff && row.find(kLatency) != nullptr)
        tradeoff_.push_back(&row);
  }

  std::vector<Takeaway> run() {
    add_memory();
    add_latency();
    add_quality();
    add_divergence();
    add_cache();
    add_batches();
    if (auto more = more_processes_of(results_)) found_.emplace_back(std::move(*more));
    return std::move(found_);
  }

  std::optional<Recommendation> recommendation() const {
    if (tradeoff_.size() < 2) return std::nullopt;
    Recommendation recommended;
    recommend_small(recommended);
    recommend_server(recommended);
    recommend_quality(recommended);
    if (recommended.small_device.empty() && recommended.server.empty() && recommended.best_quality.empty())
      return std::nullopt;
    return recommended;
  }

 private:
  const Comparison* find(const std::vector<Comparison>& all, Scenario scenario, std::string_view subject,
                         std::string_view baseline, std::string_view metric) const {
    for (const Comparison& c : all)
      if (c.scenario == scenario && c.subject == subject && c.baseline == baseline && c.metric == metric)
        return &c;
    return nullptr;
  }
  const Comparison* against_baseline(const Row& row) const {
    return find(results_.comparisons, Scenario::tradeoff, row.label, tradeoff_.front()->label, kLatency);
  }
  const Comparison* quality(const Row& row) const {
    return find(results_.comparisons, Scenario::perplexity, row.label, tradeoff_.front()->label,
                "perplexity");
  }

  // Bytes are counted: no test is needed to tell them apart.
  std::vector<const Row*> smallest() const {
    std::vector<const Row*> all;
    for (const Row* row : tradeoff_) {
      const double own = value_of(*row, "resident_weights_bytes");
      if (own <= 0) continue;
      if (!all.empty() && own < value_of(*all.front(), "resident_weights_bytes")) all.clear();
      if (all.empty() || own == value_of(*all.front(), "resident_weights_bytes")) all.push_back(row);
    }
    return all;
  }

  void add_memory() {
    const std::vector<const Row*> small = smallest();
    if (tradeoff_.size() < 2 || small.empty()) return;
    const Row &base = *tradeoff_.front(), &first = *small.front();
    MemoryTakeaway memory{labels_of(small), base.label, value_of(first, "resident_weights_bytes"),
                          value_of(base, "resident_weights_bytes")};
    if (memory.bytes >= memory.baseline_bytes) return;
    // Why there are as many is known of our own precisions: a file may hold its embedding in any type.
    if (first.parameter("precision").find("(as stored)") == std::string::npos)
      memory.bits_per_weight = value_of(first, "bits_per_weight");
    memory.has_quantized_lm_head = !first.setting.lm_head.empty();
    found_.emplace_back(std::move(memory));
  }

  // A row beside the first ties with it where its own test says that the two are equal.
  BestOf best_of(const std::vector<const Row*>& rows, Scenario scenario) const {
    BestOf best{{rows.front()->label}, {}};
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const Comparison* c =
          find(results_.other_comparisons, scenario, rows[i]->label, rows.front()->label, kLatency);
      const bool is_tied = c != nullptr && c->verdict == Verdict::no_difference;
      (is_tied ? best.tied : best.undecided).push_back(rows[i]->label);
    }
    return best;
  }

  void add_latency() {
    if (tradeoff_.size() < 2) return;
    std::vector<const Row*> best = best_rows(results_.rows, results_.other_comparisons, Scenario::tradeoff);
    // What a row of them is shown to beat in its own comparison does not tie with it.
    const bool is_beaten = std::any_of(best.begin(), best.end(), [&](const Row* row) {
      const Comparison* c = against_baseline(*row);
      return c != nullptr && c->verdict == Verdict::lower;
    });
    if (is_beaten) std::erase(best, tradeoff_.front());
    if (best.empty()) return;
    const Row &fast = *best.front(), &base = *tradeoff_.front();
    LatencyTakeaway latency{best_of(best, Scenario::tradeoff), base.label};
    latency.has_baseline = std::find(best.begin(), best.end(), &base) != best.end();
    latency.baseline_s = value_of(base, kLatency);
    if (const Comparison* c = against_baseline(fast);
        !latency.has_baseline && c != nullptr && c->verdict == Verdict::lower)
      latency.against_baseline = *c;
    if (const std::vector<const Row*> small = smallest(); small.size() == 1) {
      const Row& row = *small.front();
      const Comparison* c =
          find(results_.other_comparisons, Scenario::tradeoff, row.label, fast.label, kLatency);
      if (c != nullptr && c->verdict == Verdict::higher)
        latency.smallest = {*c, value_of(row, "percent_of_roofline"), row.parameter("largest_gap")};
    }
    found_.emplace_back(std::move(latency));
  }

  // A loss is the smallest or the largest where its interval lies beyond all others.
  static QualityTakeaway::Extreme extreme(const std::vector<const Comparison*>& all, bool is_least) {
    const auto by_ratio = [](const Comparison* a, const Comparison* b) { return a->ratio < b->ratio; };
    const Comparison* most = is_least ? *std::min_element(all.begin(), all.end(), by_ratio)
                                      : *std::max_element(all.begin(), all.end(), by_ratio);
    QualityTakeaway::Extreme found{{{most->subject}, {}}, *most};
    for (const Comparison* c : all) {
      if (c == most) continue;
      const statistics::Interval &own = *c->interval, &other = *most->interval;
      if (is_least ? own.low > other.high : own.high < other.low) continue;
      const double margin = 1 + most->margin;
      const bool is_tied = own.high < other.low * margin && other.high < own.low * margin;
      (is_tied ? found.rows.tied : found.rows.undecided).push_back(c->subject);
    }
    return found;
  }

  void add_quality() {
    std::vector<const Comparison*> all;
    for (const Comparison& c : results_.comparisons)
      if (c.metric == "perplexity" && c.interval) all.push_back(&c);
    if (all.empty()) return;
    QualityTakeaway quality{all.front()->baseline, extreme(all, true)};
    if (all.size() > 1) quality.most = extreme(all, false);
    found_.emplace_back(std::move(quality));
  }

  void add_divergence() {
    for (const Finding& finding : results_.findings)
      if (const auto* comparison = std::get_if<KlComparison>(&finding))
        found_.emplace_back(DivergenceTakeaway{*comparison});
  }

  void add_cache() {
    const Comparison* longest = nullptr;
    double tokens = 0;
    for (const Row& row : results_.rows) {
      if (row.scenario != Scenario::cache || row.setting.cache) continue;
      for (const Comparison& c : results_.comparisons)
        if (c.scenario == Scenario::cache && c.subject == row.label && c.metric == kLatency) {
          longest = &c;
          tokens = value_of(row, "prompt_tokens");
        }
    }
    if (longest != nullptr) found_.emplace_back(CacheTakeaway{*longest, tokens});
  }

  const Row* first_batch() const {
    for (const Row& row : results_.rows)
      if (row.scenario == Scenario::batches && row.status == RowStatus::ok &&
          row.find("tokens_per_sec") != nullptr)
        return &row;
    return nullptr;
  }

  void add_batches() {
    const std::vector<const Row*> best =
        best_rows(results_.rows, results_.other_comparisons, Scenario::batches);
    const Row* first = first_batch();
    if (best.empty() || first == nullptr) return;
    const Row& fast = *best.front();
    BatchingTakeaway batching{best_of(best, Scenario::batches), {}};
    if (const Value* rate = fast.find("tokens_per_sec")) batching.tokens_per_sec = *rate;
    const Comparison* c = find(results_.comparisons, Scenario::batches, fast.label, first->label, kLatency);
    if (c != nullptr && c->verdict == Verdict::lower) batching.against_smallest = *c;
    found_.emplace_back(std::move(batching));
  }

  // The upper end of the interval of the perplexity ratio; 1 for the baseline, infinite where it is unknown.
  double worst_loss(const Row& row) const {
    if (row.label == tradeoff_.front()->label) return 1;
    const Comparison* c = quality(row);
    return c != nullptr && c->interval ? c->interval->high : INFINITY;
  }
  bool has_quality() const {
    return std::any_of(tradeoff_.begin() + 1, tradeoff_.end(),
                       [&](const Row* row) { return std::isfinite(worst_loss(*row)); });
  }

  void recommend_small(Recommendation& recommended) const {
    if (!has_quality()) return;
    const Row* small = nullptr;
    for (const Row* row : tradeoff_)
      if (worst_loss(*row) <= kSmallDeviceRatio &&
          (small == nullptr ||
           value_of(*row, "resident_weights_bytes") < value_of(*small, "resident_weights_bytes")))
        small = row;
    if (small == nullptr) return;
    recommended.small_device = small->label;
    recommended.small_bytes = value_of(*small, "resident_weights_bytes");
    if (const double worst = worst_loss(*small); small != tradeoff_.front() && std::isfinite(worst))
      recommended.small_perplexity_ratio = worst;
    for (const Row* row : tradeoff_) {
      const double bytes = value_of(*row, "resident_weights_bytes"), worst = worst_loss(*row);
      if (bytes <= 0 || bytes >= recommended.small_bytes) continue;
      auto& nearest = recommended.small_nearest;
      if (!std::isfinite(worst))
        ++recommended.small_unknown;
      else if (!nearest || worst < nearest->perplexity_ratio)
        nearest = {row->label, bytes, worst};
    }
  }

  // By the throughput of batches in which each sequence gets its tokens fast enough. What was run one
  // sequence at a time says nothing about a server.
  void recommend_server(Recommendation& recommended) const {
    recommended.has_one_server_configuration =
        std::none_of(results_.rows.begin(), results_.rows.end(), [](const Row& row) {
          return row.scenario == Scenario::batched_precisions && row.status == RowStatus::ok;
        });
    if (recommend_server_precision(recommended)) return;
    recommend_server_batch(recommended);
  }

  // Among precisions whose loss is bounded, as a small device's is.
  bool recommend_server_precision(Recommendation& recommended) const {
    const Limits limits{Goal::throughput,
                        {{"token", kServerTokenBound_ms}, {"ppl-ratio", kSmallDeviceRatio}}};
    const auto choice = best_precision_in_batches(results_, limits);
    if (!choice || choice->best.empty() || !choice->is_tested) return false;
    const auto found = std::find_if(results_.rows.begin(), results_.rows.end(), [&](const Row& row) {
      return row.scenario == Scenario::batched_precisions && label_in_batches(row) == choice->best.front();
    });
    const Row& chosen = *found;
    recommended.server = chosen.label;
    recommended.server_batch = fmt::format("batch {}", chosen.setting.batch_size);
    for (const std::string& label : std::span(choice->best).subspan(1))
      (std::count(choice->tied.begin(), choice->tied.end(), label) > 0 ? recommended.server_tied
                                                                       : recommended.server_undecided)
          .push_back(label);
    recommended.server_tokens_per_sec = *chosen.find("tokens_per_sec");
    const Value& token = *chosen.find("time_per_output_token_ms");
    recommended.server_token_ms = token.high().value_or(token.value);
    if (const double worst = worst_loss(chosen); chosen.label != tradeoff_.front()->label)
      recommended.server_perplexity_ratio = worst;
    return true;
  }

  void recommend_server_batch(Recommendation& recommended) const {
    std::vector<Row> fast_enough;
    for (const Row& row : results_.rows) {
      const Value* each = row.find("time_per_output_token_ms");
      if (row.scenario != Scenario::batches || row.status != RowStatus::ok || each == nullptr) continue;
      if (each->interval && each->interval->high <= kServerTokenBound_ms) fast_enough.push_back(row);
      recommended.has_one_server_configuration =
          recommended.has_one_server_configuration &&
          row.parameter("configuration") == first_batch()->parameter("configuration");
    }
    // The tests are of the best against the others: where the best is too slow for the bound, none is left.
    const std::vector<const Row*> best =
        best_rows(fast_enough, results_.other_comparisons, Scenario::batches);
    if (best.empty()) return;
    const Row& chosen = *best.front();
    const Value* rate = chosen.find("tokens_per_sec");
    if (rate == nullptr) return;  // files of other programs and edited ones may lack it
    recommended.server = chosen.parameter("configuration");
    recommended.server_batch = chosen.label;
    BestOf all = best_of(best, Scenario::batches);
    recommended.server_tied.assign(all.tied.begin() + 1, all.tied.end());
    recommended.server_undecided = std::move(all.undecided);
    recommended.server_tokens_per_sec = *rate;
    recommended.server_token_ms = chosen.find("time_per_output_token_ms")->interval->high;
  }

  void recommend_quality(Recommendation& recommended) const {
    if (!has_quality()) return;
    const Row* chosen = nullptr;
    bool is_tested = false;
    for (const Row* row : tradeoff_) {
      const Comparison *speed = against_baseline(*row), *loss = quality(*row);
      is_tested = is_tested || (speed != nullptr && speed->verdict != Verdict::too_few);
      if (speed == nullptr || loss == nullptr || speed->verdict != Verdict::lower) continue;
      if (loss->verdict != Verdict::no_difference && loss->verdict != Verdict::lower) continue;
      if (chosen == nullptr || value_of(*row, kLatency) < value_of(*chosen, kLatency)) chosen = row;
    }
    if (!is_tested) return;
    recommended.best_quality = chosen == nullptr ? tradeoff_.front()->label : chosen->label;
    if (chosen != nullptr) recommended.best_quality_speed = *against_baseline(*chosen);
  }

  const ResultSet& results_;
  std::vector<const Row*> tradeoff_;  // the first is the baseline
  std::vector<Takeaway> found_;
};

}  // namespace

namespace {

// Whether it stood there.
bool erase_flag(std::string& command, std::string_view flag, bool has_value) {
  const std::size_t at = command.find(flag);
  if (at == std::string::npos) return false;
  std::size_t end = at + flag.size();
  if (has_value) end = command.find_first_not_of(" =", end);
  end = end == std::string::npos ? end : command.find(' ', end);
  command.erase(at, end == std::string::npos ? end : end - at);
  return true;
}

}  // namespace

// A run that a budget has cut is not finished by another of the same budget, nor by going on with its plan.
std::string with_processes(std::string command, int processes) {
  erase_flag(command, " --processes", true);
  erase_flag(command, " --resume", false);
  const bool has_budget = erase_flag(command, " --budget", true);
  return fmt::format("{} --processes {}{}", command, processes, has_budget ? " --budget none" : "");
}

std::string without_budget(std::string command) {
  erase_flag(command, " --budget", true);
  erase_flag(command, " --resume", false);
  return command + " --budget none";
}

std::optional<MoreProcesses> more_processes_of(const ResultSet& results) {
  MoreProcesses more;
  std::vector<int> needed;
  std::map<Scenario, double> seconds;  // that a process of each sweep takes
  int most_now = 0;
  std::set<std::tuple<Scenario, std::string, std::set<std::string>>> pairs;
  for (const auto* list : {&results.comparisons, &results.other_comparisons})
    for (const Comparison& c : *list) {
      // What a study compares with its baseline may be compared with the best again.
      const bool is_new = pairs.emplace(c.scenario, c.metric, std::set{c.subject, c.baseline}).second;
      if (!is_new && list == &results.other_comparisons) continue;
      ++more.comparisons;
      if (c.metric != "perplexity") {
        seconds[c.scenario] = std::max(seconds[c.scenario], c.seconds_each);
        most_now = std::max(most_now, c.processes);
      }
      if (c.verdict != Verdict::cannot_tell) continue;
      ++more.undecided;
      if (c.metric == "perplexity")
        ++more.undecided_of_text;
      else if (c.more_needed != kNotInReach)
        needed.push_back(c.processes + c.more_needed);
    }
  if (more.undecided == 0) return std::nullopt;
  for (const int processes : needed)
    if (processes <= MoreProcesses::kMaxTimes * most_now) {
      ++more.decided;
      more.processes = std::max(more.processes, processes);
    }
  for (const auto& [scenario, each] : seconds) more.seconds += each * more.processes;
  if (more.processes > 0 && !results.command.empty())
    more.command = with_processes(results.command, more.processes);
  return more;
}

std::vector<Takeaway> takeaways_of(const ResultSet& results) {
  return Takeaways(results).run();
}

std::optional<Recommendation> recommendation_of(const ResultSet& results) {
  return Takeaways(results).recommendation();
}

}  // namespace assay
