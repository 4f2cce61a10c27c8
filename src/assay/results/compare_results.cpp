#include "assay/results/compare_results.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "assay/base/error.h"

namespace assay {

namespace {

std::string key_of(const Row& row) {
  return fmt::format("{} | {} | {}", name_of(row.scenario), row.label, row.parameter("configuration"));
}

// What is compared of a row: its time, or its quality.
std::string_view metric_of(const Row& row) {
  for (const char* tag : {"total_latency_s", "perplexity"})
    if (row.find(tag) != nullptr) return tag;
  return "";
}

std::string why_unlike(const Row& a, const Row& b) {
  for (const char* tag : {"prompt_tokens", "tokens_generated", "sequences", "tokens_scored"}) {
    const Value *x = a.find(tag), *y = b.find(tag);
    if (x != nullptr && y != nullptr && x->value != y->value)
      return fmt::format("{} is {:g} in A and {:g} in B", tag, x->value, y->value);
  }
  for (const char* key :
       {"prompt", "corpus_sha256", "protocol", "cache", "batch_size", "padding", "threads", "device"})
    if (a.parameter(key) != b.parameter(key))
      return fmt::format("{} is '{}' in A and '{}' in B", key, a.parameter(key), b.parameter(key));
  return "";
}

Comparison compare(const Row& a, const Row& b, std::string_view tag, const CompareOptions& options) {
  const Value &old = *a.find(tag), &now = *b.find(tag);
  Comparison comparison;
  if (tag == "perplexity") {
    // Intervals of separate runs: they tell a difference where they do not overlap.
    std::optional<statistics::Shift> shift;
    if (old.interval && now.interval)
      shift = statistics::Shift{std::log(now.value / old.value),
                                {std::log(now.interval->low / old.interval->high),
                                 std::log(now.interval->high / old.interval->low), old.interval->level}};
    const Value* tokens = b.find("tokens_scored");
    const int blocks = tokens == nullptr ? 1 : static_cast<int>(tokens->value / statistics::kLossBlock);
    comparison = compare_shift(old.value == now.value ? statistics::Shift{0, {0, 0, 1}} : shift,
                               std::max(1, blocks), options);
    comparison.ratio = now.value / old.value;
  } else {
    comparison = compare_independent(now.samples, old.samples, options);
  }
  comparison.metric = tag;
  comparison.subject = "B";
  comparison.baseline = "A";
  set_sentence(comparison);
  return comparison;
}

}  // namespace

ComparedResults compare_results(const ResultSet& a, const ResultSet& b, double margin) {
  if (a.model.sha256 != b.model.sha256)
    throw Error(
        "the runs measured different models ({} and {}): expected the same files, found different ones",
        a.model.id, b.model.id);
  ComparedResults compared;
  if (a.machine.cpu != b.machine.cpu)
    compared.unlike.push_back(fmt::format("A ran on {} and B on {}", a.machine.cpu, b.machine.cpu));
  if (a.build.version != b.build.version || a.build.compiler != b.build.compiler ||
      a.build.type != b.build.type)
    compared.unlike.push_back(fmt::format("A is of assay {} ({}, {}) and B of {} ({}, {})", a.build.version,
                                          a.build.compiler, a.build.type, b.build.version, b.build.compiler,
                                          b.build.type));
  std::vector<std::pair<const Row*, const Row*>> pairs;
  for (const Row& row : a.rows) {
    const auto other =
        std::find_if(b.rows.begin(), b.rows.end(), [&](const Row& r) { return key_of(r) == key_of(row); });
    if (other == b.rows.end())
      compared.only_a.push_back(key_of(row));
    else if (!metric_of(row).empty() && metric_of(row) == metric_of(*other) && row.status == RowStatus::ok &&
             other->status == RowStatus::ok)
      pairs.emplace_back(&row, &*other);
  }
  for (const Row& row : b.rows)
    if (std::none_of(a.rows.begin(), a.rows.end(), [&](const Row& r) { return key_of(r) == key_of(row); }))
      compared.only_b.push_back(key_of(row));
  for (const auto& [old, now] : pairs) {
    ComparedRow row{old->scenario, old->label, old->parameter("configuration"), {}, why_unlike(*old, *now)};
    row.comparison = compare(*old, *now, metric_of(*old), {margin, static_cast<int>(pairs.size())});
    compared.rows.push_back(std::move(row));
  }
  return compared;
}

FailureRule failure_rule(const std::string& text) {
  FailureRule rule;
  const std::size_t colon = text.find(':');
  const std::string what = text.substr(0, colon);
  std::string number = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (!number.empty() && number.back() == '%') number.pop_back();
  double percent = 0;
  const auto [stop, code] = std::from_chars(number.data(), number.data() + number.size(), percent);
  const bool is_number =
      code == std::errc() && stop == number.data() + number.size() && percent >= 0 && percent <= 1000;
  if (!is_number || (what != "slower" && what != "faster" && what != "worse"))
    throw FieldError("fail_on", "expected slower:3%, faster:3% or worse:1%, found '{}'", text);
  rule.what = what == "slower"   ? FailureRule::What::slower
              : what == "faster" ? FailureRule::What::faster
                                 : FailureRule::What::worse;
  rule.margin = percent / 100;
  return rule;
}

std::vector<std::string> broken_rows(const ComparedResults& compared, const FailureRule& rule) {
  std::vector<std::string> broken;
  for (const ComparedRow& row : compared.rows) {
    const Comparison& c = row.comparison;
    const bool is_quality = c.metric == "perplexity";
    if (!row.unlike.empty() || !c.interval || is_quality != (rule.what == FailureRule::What::worse)) continue;
    const bool is_broken = rule.what == FailureRule::What::faster ? c.interval->high < 1 / (1 + rule.margin)
                                                                  : c.interval->low > 1 + rule.margin;
    if (is_broken) broken.push_back(fmt::format("{}, {}: {}", name_of(row.scenario), row.label, c.sentence));
  }
  return broken;
}

}  // namespace assay
