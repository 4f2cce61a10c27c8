#include "assay/results/compare_results.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "assay/base/error.h"
#include "assay/results/judge.h"
#include "assay/results/machine_speed.h"
#include "assay/results/metric.h"
#include "assay/results/takeaways.h"
#include "assay/statistics/replicates.h"

namespace assay {

namespace {

constexpr int kMinBlocks = 6;  // that a text must have
constexpr const char* kLatencyTag = "total_latency_s";
constexpr const char* kThroughputTag = "tokens_per_sec";
constexpr const char* kPerplexityTag = "perplexity";
constexpr const char* kMemoryTag = "working_memory_bytes";
constexpr const char* kSizeTag = "memory_bytes";

std::string key_of(const Row& row) {
  return fmt::format("{} | {} | {}", name_of(row.scenario), row.label, row.parameter("configuration"));
}

std::string why_unlike(const Row& a, const Row& b) {
  for (const char* tag : {"prompt_tokens", "tokens_generated", "sequences", "tokens_scored"}) {
    const Value *x = a.find(tag), *y = b.find(tag);
    if (x != nullptr && y != nullptr && x->value != y->value)
      return fmt::format("{} is {:g} in A and {:g} in B", tag, x->value, y->value);
  }
  if (a.parameter("protocol") != b.parameter("protocol"))
    return fmt::format(
        "A was scored by '{}' and B by '{}', and perplexities of different protocols are not compared",
        a.parameter("protocol"), b.parameter("protocol"));
  for (const char* key : {"prompt", "corpus_sha256", "cache", "batch_size", "padding", "threads", "device"})
    if (a.parameter(key) != b.parameter(key))
      return fmt::format("{} is '{}' in A and '{}' in B", key, a.parameter(key), b.parameter(key));
  return "";
}

// By pair of processes, over rows: the first of each row is the first of all, whatever its number.
std::vector<double> mean_log_ratios(std::span<const ComparedPair> rows, std::string_view tag) {
  std::vector<double> means;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::vector<std::vector<double>> own = paired_log_ratios(*rows[r].b, *rows[r].a, tag);
    if (r == 0) means.resize(own.size());
    means.resize(std::min(means.size(), own.size()));
    for (std::size_t i = 0; i < means.size(); ++i)
      means[i] += statistics::median(own[i]) / static_cast<double>(rows.size());
  }
  return means;
}

class Comparer {
 public:
  Comparer(const ResultSet& a, const ResultSet& b, double margin) : a_(a), b_(b), margin_(margin) {
    compared_.are_interleaved = !a.interleave_id.empty() && a.interleave_id == b.interleave_id;
  }

  ComparedResults run() {
    match();
    for (const auto& [old, now] : pairs_)
      for (const char* tag : {kLatencyTag, kThroughputTag, kPerplexityTag, kMemoryTag, kSizeTag})
        add(*old, *now, tag);
    for (const char* tag : {kLatencyTag, kThroughputTag}) add_all_cases(tag);
    for (const char* tag : {kLatencyTag, kThroughputTag, kPerplexityTag}) judge_all(tag);
    compared_.quality = quality_rows(a_, b_);
    return std::move(compared_);
  }

 private:
  void match() {
    const auto row_like = [](const ResultSet& results, const Row& row) -> const Row* {
      const auto at = std::find_if(results.rows.begin(), results.rows.end(),
                                   [&](const Row& r) { return key_of(r) == key_of(row); });
      return at == results.rows.end() ? nullptr : &*at;
    };
    for (const Row& row : a_.rows) {
      const Row* other = row_like(b_, row);
      if (other == nullptr)
        compared_.only_a.push_back(key_of(row));
      else if (row.status == RowStatus::ok && other->status != RowStatus::ok)
        compared_.failed.push_back(fmt::format("{}: {}", key_of(row), other->reason));
      else if (row.status == RowStatus::ok)
        pairs_.emplace_back(&row, other);
    }
    for (const Row& row : b_.rows)
      if (row_like(a_, row) == nullptr) compared_.only_b.push_back(key_of(row));
  }

  void add(const Row& a, const Row& b, std::string_view tag) {
    if (a.find(tag) == nullptr || b.find(tag) == nullptr) return;
    const bool is_sampled = tag == kLatencyTag || tag == kThroughputTag;
    // A quantity that is computed from others, and one that another row has already.
    if (is_sampled && (a.find(tag)->samples.empty() || b.find(tag)->samples.empty())) return;
    if (tag == kPerplexityTag && a.scenario != Scenario::perplexity) return;
    if (tag == kSizeTag && !sized_.insert(a.parameter("configuration")).second) return;
    ComparedRow& row = compared_.rows.emplace_back();
    row.scenario = a.scenario;
    row.label = a.label;
    row.configuration = a.parameter("configuration");
    row.unlike = why_unlike(a, b);
    Comparison& c = row.comparison;
    c.subject = "B";
    c.baseline = "A";
    c.metric = tag;
    c.margin = margin_;
    row.a = a.find(tag)->value;
    row.b = b.find(tag)->value;
    c.ratio = row.a > 0 ? row.b / row.a : 1;
    const std::size_t index = compared_.rows.size() - 1;
    if (!is_sampled && tag != kPerplexityTag) {
      judge_exactly(c, row.b, row.a);
    } else if (row.unlike.empty()) {
      tag == kPerplexityTag ? add_losses(a, b, index) : add_processes(a, b, tag, index);
    }
  }

  void add_processes(const Row& a, const Row& b, std::string_view tag, std::size_t index) {
    const std::map<int, double> old = log_medians(a, tag), now = log_medians(b, tag);
    ComparedRow& row = compared_.rows[index];
    row.comparison.pairs = static_cast<int>(std::min(old.size(), now.size()));
    for (const auto& [name, own, results] : {std::tuple("A", &old, &a_), std::tuple("B", &now, &b_)})
      if (own->size() < static_cast<std::size_t>(kMinProcesses)) {
        row.untested = fmt::format(
            "{} was measured in {}, and a test needs {} or more, because equal processes differ. Repeat it "
            "with `{}`",
            name, own->size() <= 1 ? "one process" : fmt::format("{} processes", own->size()), kMinProcesses,
            with_processes(results->command.empty() ? "assay run" : results->command, kUsualProcesses));
        return;
      }
    if (!compared_.are_interleaved) row.untested = why_machine_differs(a, b).value_or("");
    if (!row.untested.empty()) return;
    const ComparedPair pair{&a, &b};
    if (const std::size_t common = mean_log_ratios(std::span(&pair, 1), tag).size();
        compared_.are_interleaved && common < static_cast<std::size_t>(kMinProcesses)) {
      row.untested = fmt::format("A and B took turns in {} processes, and a test needs {} or more", common,
                                 kMinProcesses);
      return;
    }
    std::vector<statistics::Effect> effects = effects_of(std::span(&pair, 1), tag);
    if (!effects.empty()) pending_.push_back({std::string(tag), index, std::move(effects)});
    tested_[std::string(tag)].push_back(pair);
  }

  std::vector<statistics::Effect> effects_of(std::span<const ComparedPair> rows, std::string_view tag) const {
    if (!compared_.are_interleaved) return effects_beside_machine(rows, tag, tag == kThroughputTag);
    const auto effect = statistics::effect_of(mean_log_ratios(rows, tag));
    return effect ? std::vector{*effect} : std::vector<statistics::Effect>();
  }

  void add_losses(const Row& a, const Row& b, std::size_t index) {
    ComparedRow& row = compared_.rows[index];
    for (const auto& [name, own, results] : {std::tuple("A", &a, &a_), std::tuple("B", &b, &b_)})
      if (!own->losses || own->parameter("corpus_sha256").empty()) {
        row.untested = fmt::format(
            "{} does not hold the losses of its text, which a paired test needs. Repeat it with `{}`", name,
            results->command.empty() ? "assay run" : results->command);
        return;
      }
    const LossBlocks &old = *a.losses, &now = *b.losses;
    if (old.tokens != now.tokens || old.sums.size() != now.sums.size() || old.tokens == 0) {
      row.unlike = fmt::format("A scored {} tokens and B {}", old.tokens, now.tokens);
      return;
    }
    double sum = 0;
    std::vector<double> differences;  // per token, of each block
    for (std::size_t i = 0; i < old.sums.size(); ++i) {
      sum += now.sums[i] - old.sums[i];
      differences.push_back((now.sums[i] - old.sums[i]) / static_cast<double>(LossBlocks::kTokens));
    }
    row.comparison.ratio = std::exp(sum / static_cast<double>(old.tokens));
    if (old.tokens % LossBlocks::kTokens != 0) differences.pop_back();  // a block of another length
    constexpr std::int64_t kBlock = std::max<std::int64_t>(1, statistics::kLossBlock / LossBlocks::kTokens);
    const std::vector<double> replicates = statistics::block_means(differences, kBlock);
    if (replicates.size() < static_cast<std::size_t>(kMinBlocks)) {
      row.untested =
          fmt::format("the text has {} tokens, and a test needs {} or more: repeat both with a longer text",
                      old.tokens, kMinBlocks * kBlock * LossBlocks::kTokens);
      return;
    }
    row.comparison.pairs = static_cast<int>(replicates.size());
    statistics::Effect effect = *statistics::effect_of(replicates);
    effect.estimate = sum / static_cast<double>(old.tokens);
    pending_.push_back({kPerplexityTag, index, {effect}});
  }

  void add_all_cases(const std::string& tag) {
    const std::vector<ComparedPair>& rows = tested_[tag];
    if (rows.size() < 2) return;
    std::vector<statistics::Effect> all = effects_of(rows, tag);
    if (all.empty()) return;
    ComparedRow& row = compared_.all_cases.emplace_back();
    row.label = fmt::format("all {} cases together", rows.size());
    row.is_of_all = true;
    row.comparison.subject = "B";
    row.comparison.baseline = "A";
    row.comparison.metric = tag;
    row.comparison.margin = margin_;
    row.comparison.pairs = static_cast<int>(rows.size());
    of_all_[tag] = std::move(all);
  }

  // All cases together share the error level with the family of single cases. Throughput is latency the other
  // way round, so that each of the two is a family.
  void judge_all(const std::string& tag) {
    std::vector<Judged> family;
    const auto add = [&](Comparison& c, const std::vector<statistics::Effect>& effects) {
      c.processes = static_cast<int>(effects.front().replicates);
      c.ratio = std::exp(effects.front().estimate);
      family.push_back({&c, effects});
    };
    for (const auto& [of, index, effects] : pending_)
      if (of == tag) add(compared_.rows[index].comparison, effects);
    for (ComparedRow& row : compared_.all_cases)
      if (row.comparison.metric == tag) add(row.comparison, of_all_[tag]);
    judge_family(family);
  }

  struct PendingRow {
    std::string tag;
    std::size_t index;
    std::vector<statistics::Effect> effects;
  };

  const ResultSet &a_, &b_;
  const double margin_;
  ComparedResults compared_;
  std::vector<std::pair<const Row*, const Row*>> pairs_;
  std::map<std::string, std::vector<ComparedPair>> tested_;
  std::map<std::string, std::vector<statistics::Effect>> of_all_;
  std::vector<PendingRow> pending_;
  std::set<std::string> sized_;
};

}  // namespace

std::string ComparedRow::place() const {
  return is_of_all ? label : fmt::format("{}, {}", name_of(scenario), label);
}

ComparedResults compare_results(const ResultSet& a, const ResultSet& b, double margin) {
  if (a.model.sha256 != b.model.sha256)
    throw Error(
        "the runs measured different models ({} and {}): expected the same files, found different ones",
        a.model.id, b.model.id);
  for (const OtherModel& x : a.other_models)
    for (const OtherModel& y : b.other_models)
      if (x.name == y.name && !(x == y))
        throw Error(
            "the runs measured different models as '{}': expected the same files, found different ones",
            x.name);
  ComparedResults compared = Comparer(a, b, margin).run();
  if (a.machine.cpu != b.machine.cpu)
    compared.unlike.push_back(fmt::format("A ran on {} and B on {}", a.machine.cpu, b.machine.cpu));
  if (a.build.version != b.build.version || a.build.compiler != b.build.compiler ||
      a.build.type != b.build.type)
    compared.unlike.push_back(fmt::format("A is of assay {} ({}, {}) and B of {} ({}, {})", a.build.version,
                                          a.build.compiler, a.build.type, b.build.version, b.build.compiler,
                                          b.build.type));
  return compared;
}

ComparedResults compare_with_itself(const ResultSet& run, double margin) {
  ComparedResults compared = compare_results(run, run, margin);
  compared.is_same_run = true;
  compared.are_interleaved = false;
  compared.failed.clear();  // two rows may have one name, and one of them failed
  for (auto* rows : {&compared.rows, &compared.all_cases})
    for (ComparedRow& row : *rows) {
      row.b = row.a;
      row.unlike.clear();
      row.untested.clear();
      Comparison& c = row.comparison;
      c.ratio = 1;
      c.interval = statistics::Interval{1, 1, 0.95};
      c.verdict = Verdict::no_difference;
      c.p_value.reset();
      c.effect.reset();
      c.more_needed = 0;
      c.detectable_difference = 0;
    }
  return compared;
}

}  // namespace assay
