#include "assay/report/result_tables.h"

#include <algorithm>
#include <cmath>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/prose/prose.h"
#include "assay/results/metric.h"

namespace assay::report {

namespace {

constexpr std::size_t kLongestLabel = 120;
constexpr const char* kNothing = "-";
constexpr std::string_view kLatency = "total_latency_s", kRatio = "perplexity_ratio";
using RowList = std::vector<const Row*>;

bool some_has(const RowList& rows, std::string_view tag) {
  return std::any_of(rows.begin(), rows.end(), [&](const Row* row) { return row->find(tag) != nullptr; });
}

// What no interval tells: times get as many decimals as the smallest needs for three digits; large figures
// need none.
int column_decimals(const Metric& m, const RowList& rows) {
  constexpr int kMax = 6;
  double least = INFINITY;
  for (const Row* row : rows)
    if (const Value* value = row->find(m.tag); value != nullptr && value->value * m.scale > 0)
      least = std::min(least, value->value * m.scale);
  if (!std::isfinite(least)) return m.decimals;
  if (m.unit == "s" || m.unit == "ms")
    return std::clamp(2 - static_cast<int>(std::floor(std::log10(least))), 0, kMax);
  return least >= 1000 ? 0 : m.decimals;
}

std::string interval_cell(const Value& value) {
  const std::string text = relative_interval(value.value, value.interval);
  return text.empty() ? kNothing : text;
}

// The ends of a share's interval as they are: a share may be 0, and has an interval then too.
std::string share_interval_cell(const Value& value, double scale) {
  if (!value.interval) return kNothing;
  return fmt::format("{:.1f} to {:.1f}", scale * value.interval->low, scale * value.interval->high);
}

// Throughput is latency the other way round where every row generates the same tokens, and a column of
// quality tells more. Perplexity is the figure of quality that readers know best.
int rank_in(const Metric& m, Scenario scenario) {
  constexpr int kSaidTwice = 4, kKnownBest = 2;
  if (scenario != Scenario::tradeoff) return m.rank;
  return m.tag == "tokens_per_sec" ? kSaidTwice : m.tag == "perplexity" ? kKnownBest : m.rank;
}

// In a table that is too wide otherwise.
std::string short_head_of(const Metric& m) {
  return m.tag == "perplexity"               ? "PPL"
         : m.tag == "accuracy"               ? "Acc. (%)"
         : m.tag == "resident_weights_bytes" ? "Size (MiB)"
                                             : "";
}

// Adds a column for the metric, and one for its interval, where a row has them.
void add_metric(Table& table, const Metric& m, const RowList& rows, int rank, int interval_rank) {
  if (!some_has(rows, m.tag)) return;
  const Decimals otherwise{column_decimals(m, rows)};
  const bool has_interval = m.shows_interval && std::any_of(rows.begin(), rows.end(), [&](const Row* row) {
                              const Value* value = row->find(m.tag);
                              return value != nullptr && value->interval;
                            });
  table.add_column(m.column_head(), true, rank, short_head_of(m));
  if (has_interval) table.add_column("95 % CI", true, interval_rank);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Value* value = rows[i]->find(m.tag);
    table.rows[i].push_back(
        value == nullptr ? kNothing : rounded(value->value * m.scale, decimals_of(m, *value, otherwise)));
    if (has_interval)
      table.rows[i].push_back(value == nullptr      ? kNothing
                              : m.shown_unit == "%" ? share_interval_cell(*value, m.scale)
                                                    : interval_cell(*value));
  }
}

RowList rows_of(const ResultSet& results, Scenario scenario) {
  RowList rows;
  for (const Row& row : results.rows)
    if (row.scenario == scenario) rows.push_back(&row);
  return rows;
}

Table labelled(const RowList& rows, Scenario scenario) {
  Table table;
  table.add_column(std::string(info_of(scenario).label_head), false);
  for (const Row* row : rows)
    table.rows.push_back(
        {one_line(row->label, kLongestLabel) + (row->status == RowStatus::ok ? "" : " (failed)")});
  return table;
}

// The verdict of each row on a metric against the baseline, as `cell_of` shows it.
template <typename CellOf>
void add_verdicts(Table& table, const RowList& rows, const ResultSet& results, std::string_view tag,
                  const CellOf& cell_of) {
  std::vector<std::string> cells;
  std::string baseline;
  bool has_one_baseline = true;
  for (const Row* row : rows) {
    const auto at =
        std::find_if(results.comparisons.begin(), results.comparisons.end(),
                     [&](const Comparison& c) { return c.metric == tag && is_of(c, *row, results); });
    if (at == results.comparisons.end()) {
      cells.emplace_back(kNothing);
      continue;
    }
    has_one_baseline = has_one_baseline && (baseline.empty() || baseline == at->baseline);
    baseline = at->baseline;
    cells.push_back(cell_of(*at));
  }
  if (baseline.empty()) return;
  constexpr std::size_t kShortName = 14;
  constexpr int kRank = 2;
  const bool is_named = has_one_baseline && baseline.size() <= kShortName;
  table.add_column(is_named ? "vs. " + baseline : "vs. baseline", false, kRank);
  for (std::size_t i = 0; i < rows.size(); ++i) table.rows[i].push_back(cells[i]);
}

// The ratio and its interval have columns of their own.
std::string verdict_without_ratio(const Comparison& c) {
  const bool is_shown = c.verdict == Verdict::lower || c.verdict == Verdict::higher;
  return is_shown ? verdict_word(c) : verdict_cell(c, Detail::none);
}

}  // namespace

bool is_of(const Comparison& c, const Row& row, const ResultSet& results) {
  if (c.subject != row.label) return false;
  return c.scenario == row.scenario || family_of(c.metric) != Family::speed ||
         std::none_of(results.rows.begin(), results.rows.end(), [&](const Row& other) {
           return other.scenario == c.scenario && other.label == c.subject;
         });
}

bool is_shown(const Row& row, const ResultSet& results) {
  if (row.scenario == Scenario::step_times) return false;
  const bool is_quality = row.scenario == Scenario::perplexity || row.scenario == Scenario::divergence;
  const char* tag = row.scenario == Scenario::perplexity ? "perplexity" : "kl_mean";
  return !is_quality || row.status != RowStatus::ok ||
         std::none_of(results.rows.begin(), results.rows.end(), [&](const Row& other) {
           return other.scenario == Scenario::tradeoff && other.label == row.label &&
                  other.status == RowStatus::ok && other.find(tag) != nullptr;
         });
}

Table scenario_table(const ResultSet& results, Scenario scenario, Detail detail) {
  const RowList rows = rows_of(results, scenario);
  Table table = labelled(rows, scenario);
  const bool has_wide_names = scenario == Scenario::tradeoff || scenario == Scenario::precisions ||
                              scenario == Scenario::batched_precisions;
  const std::string_view quality = some_has(rows, kRatio) ? kRatio : "perplexity";
  constexpr int kIntervalRank = 5;
  for (const Metric& m : metric_catalogue()) {
    if (!m.tables.has(scenario)) continue;
    add_metric(table, m, rows, rank_in(m, scenario), kIntervalRank);
    if (m.tag == kLatency)
      add_verdicts(table, rows, results, kLatency, [&](const Comparison& c) {
        // Beside the names of configurations and their quality there is no room for what would decide it.
        const bool is_short = has_wide_names && detail == Detail::percent;
        return is_short && c.verdict == Verdict::cannot_tell ? verdict_word(c) : verdict_cell(c, detail);
      });
    if (m.tag == quality && scenario == Scenario::perplexity)
      add_verdicts(table, rows, results, "perplexity", verdict_without_ratio);
  }
  return table;
}

Table every_metric_table(const ResultSet& results, Scenario scenario) {
  const RowList rows = rows_of(results, scenario);
  Table table = labelled(rows, scenario);
  for (const Metric& m : metric_catalogue()) add_metric(table, m, rows, m.rank, m.rank);
  return table;
}

Table build_results_table(const ResultSet& results) {
  RowList rows;
  for (const Row& row : results.rows)
    if (is_shown(row, results)) rows.push_back(&row);
  Table table;
  for (const char* head : {"Scenario", "Case", "Precision"}) table.add_column(head, false);
  for (const Row* row : rows) {
    std::vector<std::string> line{std::string(info_of(row->scenario).title),
                                  one_line(row->label, kLongestLabel),
                                  one_line(row->parameter("precision"), kLongestLabel)};
    if (row->status != RowStatus::ok) line[1] += ": failed: " + one_line(row->reason, kLongestLabel);
    table.rows.push_back(std::move(line));
  }
  for (const Metric& m : metric_catalogue())
    if (!m.tables.is_empty() || m.tag == "avg_latency_per_token_ms")
      add_metric(table, m, rows, m.rank, m.rank);
  return table;
}

Table tradeoff_table(const ResultSet& results) {
  Table table{{"Float Precision", "Memory (MB)", "Avg Latency (s)"}, {false, true, true}, {}};
  std::vector<std::string> prompts;
  for (const GeneratedText& text : results.texts)
    if (!text.prompt.empty() && std::find(prompts.begin(), prompts.end(), text.prompt) == prompts.end())
      prompts.push_back(text.prompt);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    table.head.push_back(fmt::format("Prompt {} Output", i + 1));
    table.is_number.push_back(false);
  }
  for (const Row& row : results.rows) {
    if (row.scenario != Scenario::tradeoff) continue;
    const bool is_first = table.rows.empty();
    std::vector<std::string> line = {row.label + (is_first ? " (baseline)" : "")};
    const Value *memory = row.find("memory_bytes"), *latency = row.find("total_latency_s");
    line.push_back(memory == nullptr ? "Error" : fmt::format("{:.2f}", memory->value / (1024 * 1024)));
    line.push_back(latency == nullptr ? "Error" : fmt::format("{:.4f}", statistics::mean(latency->samples)));
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto text = std::find_if(results.texts.begin(), results.texts.end(), [&](const GeneratedText& t) {
        return t.scenario == Scenario::tradeoff && t.generated_by == row.label && t.prompt == prompts[i];
      });
      line.push_back(text != results.texts.end() ? text->text : i == 0 ? "Error: " + row.reason : "Error");
    }
    table.rows.push_back(std::move(line));
  }
  return table;
}

}  // namespace assay::report
