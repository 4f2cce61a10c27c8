#include "assay/results/takeaways.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "assay/base/format.h"

namespace assay {

namespace {

constexpr double kMega = 1024.0 * 1024.0;
constexpr double kAcceptableLoss = 1.05;  // of perplexity, for a small device
constexpr std::string_view kLatency = "total_latency_s";

double value_of(const Row& row, std::string_view tag) {
  const Value* value = row.find(tag);
  return value == nullptr ? 0 : value->value;
}

// "8 [7.5, 8.5]"; without an interval the figure alone.
std::string with_interval(double value, const std::optional<statistics::Interval>& interval, int digits = 3) {
  std::string text = fmt::format("{:.{}g}", value, digits);
  if (interval) text += fmt::format(" [{:.{}g}, {:.{}g}]", interval->low, digits, interval->high, digits);
  return text;
}

std::string rate_of(const Value& value) {
  std::string text = fmt::format("{:.0f}", value.value);
  if (value.interval) text += fmt::format(" [{:.0f}, {:.0f}]", value.interval->low, value.interval->high);
  return text;
}

std::string times_as_long(const Comparison& c) {
  return fmt::format("takes {} times as long as {}", with_interval(c.ratio, c.interval), c.baseline);
}

// Of a ratio of times, the ratio of speeds.
std::string times_as_fast(const Comparison& c) {
  std::optional<statistics::Interval> inverse;
  if (c.interval)
    inverse = statistics::Interval{1 / c.interval->high, 1 / c.interval->low, c.interval->level};
  return with_interval(1 / c.ratio, inverse);
}

std::string listed(const std::vector<std::string>& labels) {
  constexpr std::size_t kNamed = 4;
  if (labels.size() <= kNamed) return fmt::format("{}", fmt::join(labels, "; "));
  const std::size_t others = labels.size() - kNamed;
  return fmt::format("{}; and {} other{}", fmt::join(labels.begin(), labels.begin() + kNamed, "; "), others,
                     others == 1 ? "" : "s");
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

  std::vector<std::string> run() {
    add_memory();
    add_latency();
    add_quality();
    add_cache();
    add_batches();
    if (const auto more = more_processes_of(results_)) sentences_.push_back(more->sentence);
    return std::move(sentences_);
  }

  std::optional<Recommendation> recommendation() const {
    if (tradeoff_.size() < 2) return std::nullopt;
    Recommendation recommended;
    recommend_small(recommended);
    recommend_server(recommended);
    recommend_quality(recommended);
    if (recommended.sentences.empty()) return std::nullopt;
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
    const Row& base = *tradeoff_.front();
    const double own = value_of(*small.front(), "resident_weights_bytes"),
                 all = value_of(base, "resident_weights_bytes");
    if (own >= all) return;
    std::string text = fmt::format(
        "Memory: the weights of {} take {:.1f} MB{}, {:.1f} times less than those of {} ({:.1f} MB).",
        listed(labels_of(small)), own / kMega, small.size() == 1 ? "" : " each", all / own, base.label,
        all / kMega);
    if (const double bits = value_of(*small.front(), "bits_per_weight"); bits > 0)
      text += fmt::format(" They average {:.1f} bits per weight, because {}.", bits,
                          why_more_bits(*small.front()));
    sentences_.push_back(std::move(text));
  }

  // Transformers' rule keeps the embedding and the LM head; codes have scales.
  static std::string why_more_bits(const Row& row) {
    bool has_head = false;
    for (const char* format : {"lm_head int8", "lm_head nf4", "lm_head fp4"})
      has_head = has_head || row.label.find(format) != std::string::npos;
    return has_head ? "positions, norms and biases are not quantized and every group of codes has a scale"
                    : "the embedding, which is also the LM head, is not quantized and every group of codes "
                      "has a scale";
  }

  void add_latency() {
    if (tradeoff_.size() < 2) return;
    const std::vector<const Row*> best =
        best_rows(results_.rows, results_.other_comparisons, Scenario::tradeoff);
    if (best.empty()) return;
    const Row &fast = *best.front(), &base = *tradeoff_.front();
    const bool has_base = std::find(best.begin(), best.end(), &base) != best.end();
    std::string text = best.size() == 1
                           ? fmt::format("Latency: {} is the fastest", fast.label)
                           : fmt::format("Latency: {} are tied for the fastest", listed(labels_of(best)));
    if (has_base)
      text += best.size() == 1 ? fmt::format(" ({:.1f} ms)", 1e3 * value_of(base, kLatency))
                               : fmt::format(". None is shown to be faster than {}", base.label);
    else if (const Comparison* c = against_baseline(fast); c != nullptr && c->verdict == Verdict::lower)
      text += fmt::format("{} {}", best.size() == 1 ? "; it" : ". " + fast.label, times_as_long(*c));
    text += ".";
    for (const Row* small : smallest()) {
      const Comparison* c =
          find(results_.other_comparisons, Scenario::tradeoff, small->label, fast.label, kLatency);
      if (c == nullptr || c->verdict != Verdict::higher || smallest().size() > 1) continue;
      text += fmt::format(" {}, the smallest, {} and reaches {:.0f} % of the roofline", small->label,
                          times_as_long(*c), value_of(*small, "percent_of_roof"));
      if (const std::string gap = small->parameter("largest_gap"); !gap.empty())
        text += "; in its profiled run most was lost to " + gap;
      text += ".";
    }
    sentences_.push_back(std::move(text));
  }

  static std::string described(const Comparison& c) {
    const char* verdict = c.verdict == Verdict::higher          ? ""
                          : c.verdict == Verdict::no_difference ? ", no loss beyond the margin"
                          : c.verdict == Verdict::lower         ? ", lower than the baseline"
                                                                : ", undecided";
    return fmt::format("{} (perplexity ratio {}{})", c.subject, with_interval(c.ratio, c.interval, 4),
                       verdict);
  }

  // A loss is the smallest or the largest where its interval lies beyond all others.
  static std::string extreme(const std::vector<const Comparison*>& all, bool is_least) {
    const auto by_ratio = [](const Comparison* a, const Comparison* b) { return a->ratio < b->ratio; };
    const Comparison* most = is_least ? *std::min_element(all.begin(), all.end(), by_ratio)
                                      : *std::max_element(all.begin(), all.end(), by_ratio);
    std::vector<std::string> tied;
    for (const Comparison* c : all)
      if (c == most ||
          (is_least ? c->interval->low <= most->interval->high : c->interval->high >= most->interval->low))
        tied.push_back(c->subject);
    const std::string which = is_least ? "smallest" : "largest";
    if (tied.size() == 1)
      return fmt::format("{} {} loss is that of {}", is_least ? "the" : "The", which, described(*most));
    return fmt::format("{} are tied for the {} loss", listed(tied), which);
  }

  void add_quality() {
    std::vector<const Comparison*> all;
    for (const Comparison& c : results_.comparisons)
      if (c.metric == "perplexity" && c.interval) all.push_back(&c);
    if (all.empty()) return;
    const std::string& baseline = all.front()->baseline;
    if (all.size() == 1)
      sentences_.push_back(fmt::format("Quality against {}: {}.", baseline, described(*all.front())));
    else
      sentences_.push_back(
          fmt::format("Quality against {}: {}. {}.", baseline, extreme(all, true), extreme(all, false)));
  }

  // "cache off, 128 tokens": the prompt's length.
  static constexpr std::string_view kCacheOff = "cache off, ";

  void add_cache() {
    const Comparison* longest = nullptr;
    for (const Comparison& c : results_.comparisons)
      if (c.subject.starts_with(kCacheOff)) longest = &c;
    if (longest == nullptr) return;
    if (longest->verdict == Verdict::higher && longest->interval)
      sentences_.push_back(fmt::format(
          "KV cache: without it, a prompt of {} and its new tokens take {} times as long.",
          longest->subject.substr(kCacheOff.size()), with_interval(longest->ratio, longest->interval)));
    else
      sentences_.push_back(fmt::format("KV cache: {}.", longest->sentence));
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
    std::string text = best.size() == 1 ? fmt::format("Batching: {} has the highest throughput", fast.label)
                                        : fmt::format("Batching: {} are tied for the highest throughput",
                                                      listed(labels_of(best)));
    const Comparison* c = find(results_.comparisons, Scenario::batches, fast.label, first->label, kLatency);
    if (c != nullptr && c->verdict == Verdict::lower)
      text += fmt::format(". {} generates {} tokens/s, {} times as many as {}", fast.label,
                          rate_of(*fast.find("tokens_per_sec")), times_as_fast(*c), first->label);
    sentences_.push_back(text + ".");
  }

  // The upper end of the interval of the perplexity ratio; 1 for the baseline, infinite where it is unknown.
  double worst_loss(const Row& row) const {
    if (&row == tradeoff_.front()) return 1;
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
      if (worst_loss(*row) <= kAcceptableLoss &&
          (small == nullptr ||
           value_of(*row, "resident_weights_bytes") < value_of(*small, "resident_weights_bytes")))
        small = row;
    if (small == nullptr) return;
    recommended.small_device = small->label;
    recommended.sentences.push_back(
        fmt::format("For a small device, choose {}: its weights take {:.1f} MB{}.", small->label,
                    value_of(*small, "resident_weights_bytes") / kMega, quality_of(*small)));
  }

  // By the throughput of batches in which each sequence gets its tokens fast enough. What was run one
  // sequence at a time says nothing about a server.
  void recommend_server(Recommendation& recommended) const {
    std::vector<Row> fast_enough;
    bool has_one_configuration = true;
    for (const Row& row : results_.rows) {
      const Value* each = row.find("time_per_output_token_ms");
      if (row.scenario != Scenario::batches || row.status != RowStatus::ok || each == nullptr) continue;
      if (each->interval && each->interval->high <= kServerTokenBound_ms) fast_enough.push_back(row);
      has_one_configuration = has_one_configuration &&
                              row.parameter("configuration") == first_batch()->parameter("configuration");
    }
    // The tests are of the best against the others: where the best is too slow for the bound, none is left.
    const std::vector<const Row*> best =
        best_rows(fast_enough, results_.other_comparisons, Scenario::batches);
    if (best.empty()) return;
    const Row& chosen = *best.front();
    recommended.server = chosen.parameter("configuration");
    std::string others;
    if (best.size() > 1)
      others = fmt::format(" (tied with {})", listed(labels_of({best.begin() + 1, best.end()})));
    recommended.sentences.push_back(
        fmt::format("For a server, choose {} of {}{}: it generates {} tokens/s, and a token takes at most "
                    "{:.3g} ms (bound: "
                    "{:.0f} ms).{}",
                    chosen.label, recommended.server, others, rate_of(*chosen.find("tokens_per_sec")),
                    chosen.find("time_per_output_token_ms")->interval->high, kServerTokenBound_ms,
                    has_one_configuration ? " Other precisions were not measured in batches." : ""));
  }

  void recommend_quality(Recommendation& recommended) const {
    if (!has_quality()) return;
    const Row *chosen = nullptr, *base = tradeoff_.front();
    bool is_tested = false;
    for (const Row* row : tradeoff_) {
      const Comparison *speed = against_baseline(*row), *loss = quality(*row);
      is_tested = is_tested || (speed != nullptr && speed->verdict != Verdict::too_few);
      if (speed == nullptr || loss == nullptr || speed->verdict != Verdict::lower) continue;
      if (loss->verdict != Verdict::no_difference && loss->verdict != Verdict::lower) continue;
      if (chosen == nullptr || value_of(*row, kLatency) < value_of(*chosen, kLatency)) chosen = row;
    }
    if (!is_tested) return;
    if (chosen == nullptr) {
      recommended.best_quality = base->label;
      recommended.sentences.push_back(fmt::format(
          "For best quality, choose {}, the baseline: no faster precision is shown to keep its quality.",
          base->label));
      return;
    }
    recommended.best_quality = chosen->label;
    recommended.sentences.push_back(
        fmt::format("For best quality, choose {}: its perplexity shows no loss, and it {}.", chosen->label,
                    times_as_long(*against_baseline(*chosen))));
  }

  std::string quality_of(const Row& row) const {
    const double worst = worst_loss(row);
    if (&row == tradeoff_.front() || !std::isfinite(worst)) return "";
    return fmt::format(", and its perplexity is at most {:.4g} times the baseline's", worst);
  }

  const ResultSet& results_;
  std::vector<const Row*> tradeoff_;  // the first is the baseline
  std::vector<std::string> sentences_;
};

}  // namespace

std::string with_processes(std::string command, int processes) {
  constexpr std::string_view kFlag = " --processes";
  if (const std::size_t at = command.find(kFlag); at != std::string::npos) {
    std::size_t end = command.find_first_not_of(" =", at + kFlag.size());
    end = end == std::string::npos ? end : command.find(' ', end);
    command.erase(at, end == std::string::npos ? end : end - at);
  }
  return fmt::format("{}{} {}", command, kFlag, processes);
}

std::optional<MoreProcesses> more_processes_of(const ResultSet& results) {
  MoreProcesses more;
  std::vector<int> needed;
  std::map<Scenario, double> seconds;  // of a process of each sweep
  int of_text = 0, most_now = 0;
  for (const auto* list : {&results.comparisons, &results.other_comparisons})
    for (const Comparison& c : *list) {
      ++more.comparisons;
      if (c.metric != "perplexity") {
        seconds[c.scenario] = std::max(seconds[c.scenario], c.seconds_each);
        most_now = std::max(most_now, c.processes);
      }
      if (c.verdict != Verdict::cannot_tell) continue;
      ++more.undecided;
      if (c.metric == "perplexity")
        ++of_text;
      else if (c.more_needed != kNotInReach)
        needed.push_back(c.processes + c.more_needed);
    }
  if (more.undecided == 0) return std::nullopt;
  // Nobody waits for ten times as many.
  constexpr int kMaxTimes = 10;
  for (const int processes : needed)
    if (processes <= kMaxTimes * most_now) {
      ++more.decided;
      more.processes = std::max(more.processes, processes);
    }
  for (const auto& [scenario, each] : seconds) more.seconds += each * more.processes;
  std::string& text = more.sentence;
  text = fmt::format("Undecided: {} of {} comparisons.", more.undecided, more.comparisons);
  if (more.processes > 0) {
    const std::string when =
        more.seconds > 0 ? fmt::format(", in about {}", shown_duration(more.seconds)) : "";
    text +=
        fmt::format(" {} processes would probably decide {} of them{}", more.processes, more.decided, when);
    text +=
        results.command.empty() ? "." : fmt::format(": {}", with_processes(results.command, more.processes));
  } else if (more.undecided > of_text) {
    text += fmt::format(" {} times as many processes would not decide them.", kMaxTimes);
  }
  if (of_text > 0)
    text +=
        fmt::format("{} {} comparison{} of perplexity need{} a longer text.", text.back() == '.' ? "" : ".",
                    of_text, of_text == 1 ? "" : "s", of_text == 1 ? "s" : "");
  return more;
}

std::vector<std::string> takeaways_of(const ResultSet& results) {
  return Takeaways(results).run();
}

std::optional<Recommendation> recommendation_of(const ResultSet& results) {
  return Takeaways(results).recommendation();
}

}  // namespace assay
