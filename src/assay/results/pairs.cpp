#include "assay/results/pairs.h"

#include <algorithm>
#include <utility>

namespace assay {

namespace {

constexpr std::string_view kCompared = "total_latency_s";

const Comparison* some_comparison(const ResultSet& results, Scenario scenario) {
  for (const Comparison& c : results.comparisons)
    if (c.scenario == scenario && c.metric == kCompared) return &c;
  return nullptr;
}

}  // namespace

std::vector<Comparison> compare_every_pair(const ResultSet& results, Scenario scenario) {
  const Comparison* own = some_comparison(results, scenario);
  if (own == nullptr) return {};
  // What a run does with its comparisons: rows, then one judgement of all.
  ExperimentResult pairs;
  for (const Row& row : results.rows)
    if (row.scenario == scenario && row.status == RowStatus::ok && row.find(kCompared) != nullptr)
      pairs.rows.push_back(row);
  for (std::size_t i = 1; i < pairs.rows.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (auto c = compare_rows(pairs.rows[i], pairs.rows[j], kCompared, own->margin)) {
        c->seconds_each = own->seconds_each;
        pairs.comparisons.push_back(std::move(*c));
      }
  pairs.judge_all(own->margin, /*has_planning=*/false);
  return std::move(pairs.comparisons);
}

Comparison exchanged(const Comparison& comparison) {
  Comparison c = comparison;
  std::swap(c.subject, c.baseline);
  if (c.ratio > 0) c.ratio = 1 / c.ratio;
  if (c.interval && c.interval->low > 0)
    c.interval = statistics::Interval{1 / c.interval->high, 1 / c.interval->low, c.interval->level};
  if (c.verdict == Verdict::lower)
    c.verdict = Verdict::higher;
  else if (c.verdict == Verdict::higher)
    c.verdict = Verdict::lower;
  if (c.effect) c.effect->estimate = -c.effect->estimate;
  return c;
}

}  // namespace assay
