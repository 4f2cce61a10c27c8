#include "assay/results/takeaways.h"

#include <algorithm>
#include <cmath>

#include "assay/base/format.h"

namespace assay {

namespace {

constexpr double kMega = 1024.0 * 1024.0;
constexpr double kAcceptableLoss = 1.05;  // of perplexity, for a small device

double value_of(const Row& row, std::string_view tag) {
  const Value* value = row.find(tag);
  return value == nullptr ? 0 : value->value;
}

class Takeaways {
 public:
  explicit Takeaways(const ResultSet& results) : results_(results) {
    for (const Row& row : results.rows)
      if (row.status == RowStatus::ok && row.scenario == Scenario::tradeoff &&
          row.find("total_latency_s") != nullptr)
        tradeoff_.push_back(&row);
  }

  std::vector<std::string> run() {
    add_memory();
    add_latency();
    add_quality();
    add_cache_and_batch();
    return std::move(sentences_);
  }

  std::optional<Recommendation> recommendation() const {
    if (tradeoff_.size() < 2) return std::nullopt;
    const auto label = [](const Row* row) { return row == nullptr ? "" : row->label; };
    const Choice chosen = choice();
    Recommendation recommended{label(chosen.small), label(chosen.fast), label(chosen.best_quality), {}};
    if (chosen.small != nullptr)
      recommended.sentences.push_back(
          fmt::format("For a small device, choose {}: its weights take {:.1f} MB{}.", chosen.small->label,
                      value_of(*chosen.small, "resident_weights_bytes") / kMega, quality_of(*chosen.small)));
    recommended.sentences.push_back(fmt::format("For a server, choose {}: it generates {:.0f} tokens/s{}.",
                                                chosen.fast->label, value_of(*chosen.fast, "tokens_per_sec"),
                                                quality_of(*chosen.fast)));
    if (chosen.best_quality == tradeoff_.front())
      recommended.sentences.push_back(fmt::format(
          "For best quality, choose {}, the baseline: no faster precision is shown to keep its quality.",
          chosen.best_quality->label));
    else if (chosen.best_quality != nullptr)
      recommended.sentences.push_back(
          fmt::format("For best quality, choose {}: it is the fastest whose perplexity shows no loss.",
                      chosen.best_quality->label));
    return recommended;
  }

 private:
  const Comparison* comparison(const std::string& subject, std::string_view metric) const {
    for (const Comparison& c : results_.comparisons)
      if (c.subject == subject && c.metric == metric &&
          (tradeoff_.empty() || c.baseline == tradeoff_.front()->label))
        return &c;
    return nullptr;
  }

  template <typename Less>
  const Row* best(const Less& less) const {
    const auto at = std::min_element(tradeoff_.begin(), tradeoff_.end(),
                                     [&](const Row* a, const Row* b) { return less(*a, *b); });
    return at == tradeoff_.end() ? nullptr : *at;
  }
  const Row* smallest() const {
    return best([](const Row& a, const Row& b) {
      return value_of(a, "resident_weights_bytes") < value_of(b, "resident_weights_bytes");
    });
  }
  const Row* fastest() const {
    return best([](const Row& a, const Row& b) {
      return value_of(a, "total_latency_s") < value_of(b, "total_latency_s");
    });
  }

  void add_memory() {
    if (tradeoff_.size() < 2) return;
    const Row &small = *smallest(), &base = *tradeoff_.front();
    const double own = value_of(small, "resident_weights_bytes"),
                 all = value_of(base, "resident_weights_bytes");
    if (own <= 0 || own >= all) return;
    std::string text = fmt::format(
        "Memory: the weights of {} take {:.1f} MB, {:.1f} times less than those of {} ({:.1f} MB).",
        small.label, own / kMega, all / own, base.label, all / kMega);
    if (const double bits = value_of(small, "bits_per_weight"); bits > 0)
      text += fmt::format(" They average {:.1f} bits per weight, because {}.", bits, why_more_bits(small));
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
    const Row &fast = *fastest(), &small = *smallest(), &base = *tradeoff_.front();
    std::string text;
    if (&fast == &base) {
      text = fmt::format("Latency: no precision was faster than {} ({:.1f} ms)", base.label,
                         1e3 * value_of(base, "total_latency_s"));
    } else {
      const Comparison* c = comparison(fast.label, "total_latency_s");
      text = fmt::format(
          "Latency: {}",
          c != nullptr && !c->sentence.empty()
              ? c->sentence
              : fmt::format("{} had the lowest, but no test compared it with {}", fast.label, base.label));
    }
    if (&small != &fast) {
      text += fmt::format(
          ". {}, the smallest, takes {:.2f} times as long as {}: it runs at {:.0f} % of the roofline",
          small.label, value_of(small, "total_latency_s") / value_of(fast, "total_latency_s"), fast.label,
          value_of(small, "percent_of_roof"));
      if (const std::string gap = small.parameter("largest_gap"); !gap.empty())
        text += ", and its largest loss is " + gap;
    }
    sentences_.push_back(text + ".");
  }

  static std::string described(const Comparison& c) {
    std::string range;
    if (c.interval) range = fmt::format(" [{:.4g}, {:.4g}]", c.interval->low, c.interval->high);
    const char* verdict = c.verdict == Verdict::higher          ? ""
                          : c.verdict == Verdict::no_difference ? ", no loss beyond the margin"
                          : c.verdict == Verdict::lower         ? ", lower than the baseline"
                                                                : ", not yet told from no loss";
    return fmt::format("{} (perplexity ratio {:.4g}{}{})", c.subject, c.ratio, range, verdict);
  }

  void add_quality() {
    std::vector<const Comparison*> all;
    for (const Comparison& c : results_.comparisons)
      if (c.metric == "perplexity") all.push_back(&c);
    if (all.empty()) return;
    const auto by_ratio = [](const Comparison* a, const Comparison* b) { return a->ratio < b->ratio; };
    const auto [least, most] = std::minmax_element(all.begin(), all.end(), by_ratio);
    if (*least == *most)
      sentences_.push_back(fmt::format("Quality against {}: {}.", (*most)->baseline, described(**most)));
    else
      sentences_.push_back(
          fmt::format("Quality against {}: the smallest loss is that of {}; the largest is that of {}.",
                      (*most)->baseline, described(**least), described(**most)));
  }

  // "cache off, 128 tokens": of a prompt.
  static constexpr std::string_view kCacheOff = "cache off, ";
  static std::string without_cache(const Comparison& c) {
    if (c.verdict != Verdict::higher || !c.interval) return c.sentence;
    return fmt::format(
        "without it, a prompt of {} and its new tokens take {:.3g} times as long [{:.3g}, {:.3g}]",
        c.subject.substr(kCacheOff.size()), c.ratio, c.interval->low, c.interval->high);
  }

  void add_cache_and_batch() {
    std::string text;
    const Row *alone = nullptr, *together = nullptr;
    for (const Comparison& c : results_.comparisons)
      if (c.subject.rfind(kCacheOff, 0) == 0) text = "KV cache: " + without_cache(c) + ". ";
    for (const Row& row : results_.rows) {
      if (row.scenario != Scenario::batches || row.status != RowStatus::ok ||
          row.find("tokens_per_sec") == nullptr)
        continue;
      if (alone == nullptr) alone = &row;
      if (together == nullptr || value_of(row, "tokens_per_sec") > value_of(*together, "tokens_per_sec"))
        together = &row;
    }
    if (alone != nullptr && together != alone)
      text += fmt::format(
          "Batching: {} generates {:.0f} tokens/s, {:.1f} times as many as {} ({:.0f}); each of its "
          "sequences "
          "runs at {:.2f} times the speed.",
          together->label, value_of(*together, "tokens_per_sec"),
          value_of(*together, "tokens_per_sec") / value_of(*alone, "tokens_per_sec"), alone->label,
          value_of(*alone, "tokens_per_sec"),
          value_of(*together, "tokens_per_sec_per_sequence") /
              value_of(*alone, "tokens_per_sec_per_sequence"));
    if (!text.empty()) sentences_.push_back(text.substr(0, text.find_last_not_of(' ') + 1));
  }

  // The upper end of what perplexity may have risen by; 1 for the baseline, infinite where nothing is known.
  double worst_loss(const Row& row) const {
    if (&row == tradeoff_.front()) return 1;
    const Comparison* c = comparison(row.label, "perplexity");
    if (c == nullptr) return INFINITY;
    return c->interval ? c->interval->high : c->ratio;
  }

  struct Choice {
    const Row *small = nullptr, *fast = nullptr,
              *best_quality = nullptr;  // small: null where quality is unknown
  };
  Choice choice() const {
    Choice chosen{nullptr, fastest(), tradeoff_.front()};
    const bool has_quality = std::any_of(tradeoff_.begin(), tradeoff_.end(), [&](const Row* row) {
      return row != tradeoff_.front() && std::isfinite(worst_loss(*row));
    });
    if (!has_quality) return {nullptr, chosen.fast, nullptr};
    for (const Row* row : tradeoff_) {
      if (worst_loss(*row) <= kAcceptableLoss &&
          (chosen.small == nullptr ||
           value_of(*row, "resident_weights_bytes") < value_of(*chosen.small, "resident_weights_bytes")))
        chosen.small = row;
      const Comparison* c = comparison(row->label, "perplexity");
      if (c != nullptr && (c->verdict == Verdict::no_difference || c->verdict == Verdict::lower) &&
          value_of(*row, "total_latency_s") < value_of(*chosen.best_quality, "total_latency_s"))
        chosen.best_quality = row;
    }
    return chosen;
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

std::vector<std::string> takeaways_of(const ResultSet& results) {
  return Takeaways(results).run();
}

std::optional<Recommendation> recommendation_of(const ResultSet& results) {
  return Takeaways(results).recommendation();
}

}  // namespace assay
