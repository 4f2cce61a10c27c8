#include "assay/report/history_document.h"

#include <algorithm>
#include <map>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/figure_points.h"
#include "assay/report/prose/prose.h"
#include "assay/results/metric.h"

namespace assay::report {

namespace {

constexpr std::size_t kMostLines = 8;  // in a plot: as many as there are colours
constexpr std::size_t kLongestInCell = 80;

const Row* first_measured(const ResultSet& results, std::string_view tag) {
  for (const Row& row : results.rows)
    if (row.status == RowStatus::ok && row.find(tag) != nullptr) return &row;
  return nullptr;
}

std::string run_number(std::size_t i) {
  return std::to_string(i + 1);
}

Table runs_table(std::span<const RunRecord> runs) {
  Table table{{"Run", "Created", "Model", "Precision", "Status", "Rows", "Latency (s)", "Tokens/s",
               "Perplexity", "File"},
              {false, false, false, false, false, true, true, true, true, false},
              {},
              {0, 0, 0, 2, 4, 5, 1, 3, 1, 0}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ResultSet& results = runs[i].results;
    const auto shown = [&](std::string_view tag) {
      const Row* row = first_measured(results, tag);
      return row == nullptr ? std::string("-") : plain_number(row->find(tag)->value);
    };
    table.rows.push_back({run_number(i), results.created, one_line(results.model.id, kLongestInCell),
                          results.model.dtype, std::string(name_of(results.status)),
                          std::to_string(results.rows.size()), shown("total_latency_s"),
                          shown("tokens_per_sec"), shown("perplexity"), one_line(runs[i].path, 300)});
  }
  return table;
}

Section changes_section(std::span<const RunRecord> runs, std::span<const RunChange> changes) {
  Section section{"Changes from run to run", {}};
  Table table{{"Run", "Against run", "Version", "Latency", "Memory", "Perplexity", "Failed"},
              {false, false, false, false, false, false, true},
              {},
              {0, 0, 3, 0, 1, 1, 2}};
  List reasons;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const RunChange& change = changes[i];
    if (!change.before) continue;
    table.rows.push_back({run_number(i), run_number(*change.before),
                          one_line(runs[i].results.build.version, kLongestInCell),
                          shown_latency_change(change), shown_change(change, "working_memory_bytes"),
                          shown_change(change, "perplexity"), std::to_string(change.compared.failed.size())});
    const std::string head = fmt::format("Run {} against run {}: ", i + 1, *change.before + 1);
    const ComparedRow* latency = change.latency();
    if (!change.why_not.empty())
      reasons.items.push_back(head + change.why_not + ".");
    else if (latency != nullptr && (!latency->untested.empty() || !latency->unlike.empty()))
      reasons.items.push_back(head + sentence_of(*latency) + ".");
    for (const std::string& unlike : change.compared.unlike) reasons.items.push_back(head + unlike + ".");
  }
  if (table.rows.empty()) return section;
  section.add(
      Paragraph{"Each run is compared with the latest earlier run of the same model, as assay compare does: "
                "latency over all cases together, the other figures row by row. Levels are corrected within "
                "a pair of runs."});
  section.add(std::move(table));
  if (!reasons.items.empty()) section.add(std::move(reasons), Shown::on_pages);
  return section;
}

// A configuration of a model through the runs.
struct TrendLine {
  std::string name;
  std::vector<PlotPoint> points;
};

// The rows of a run that stand for its configurations: of the first scenario that has the metric.
std::vector<const Row*> representative_rows(const ResultSet& results, std::string_view tag) {
  for (const Scenario scenario : {Scenario::tradeoff, Scenario::precisions, Scenario::perplexity})
    if (auto rows = rows_with(results, scenario, tag); !rows.empty()) return rows;
  const Row* row = first_measured(results, tag);
  return row == nullptr ? std::vector<const Row*>() : std::vector<const Row*>{row};
}

std::optional<Plot> trend_of(std::span<const RunRecord> runs, const Metric& m) {
  std::vector<TrendLine> lines;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ResultSet& results = runs[i].results;
    for (const Row* row : representative_rows(results, m.tag)) {
      const std::string name = one_line(fmt::format("{}: {}", results.model.id, row->label), 40);
      auto at = std::find_if(lines.begin(), lines.end(), [&](const TrendLine& l) { return l.name == name; });
      if (at == lines.end()) at = lines.insert(lines.end(), {name, {}});
      PlotPoint point = point_of(results, *row, static_cast<double>(i + 1), *row->find(m.tag), m);
      point.text = fmt::format("run {}, {}, {}", i + 1, results.created, point.text);
      point.row = -1;
      at->points.push_back(std::move(point));
    }
  }
  if (lines.empty()) return std::nullopt;
  // What most runs have is what a trend can be seen of.
  std::stable_sort(lines.begin(), lines.end(),
                   [](const TrendLine& a, const TrendLine& b) { return a.points.size() > b.points.size(); });
  Plot plot{.title = std::string(m.title) + " over the runs",
            .subtitle = "whiskers: 95 % intervals",
            .x_label = "Run",
            .y_label = m.column_head()};
  if (lines.size() > kMostLines) {
    plot.caption = fmt::format("{} with fewer runs are left out.",
                               counted(std::ssize(lines) - static_cast<std::ptrdiff_t>(kMostLines), "line"));
    lines.resize(kMostLines);
  }
  for (TrendLine& line : lines) plot.series.push_back({std::move(line.name), std::move(line.points)});
  return plot;
}

}  // namespace

std::string shown_latency_change(const RunChange& change) {
  const ComparedRow* row = change.latency();
  if (!change.why_not.empty() || row == nullptr || !row->unlike.empty()) return "not comparable";
  if (!row->untested.empty() || row->comparison.verdict == Verdict::too_few) return "not tested";
  return verdict_cell(row->comparison);
}

std::string shown_change(const RunChange& change, std::string_view metric) {
  const RunChange::Count count = change.count(metric);
  if (count.rows == 0) return "-";
  std::vector<std::string> parts;
  if (count.higher > 0) parts.push_back(fmt::format("higher in {}", count.higher));
  if (count.lower > 0) parts.push_back(fmt::format("lower in {}", count.lower));
  if (parts.empty()) return "no change shown";
  return fmt::format("{} of {}", fmt::join(parts, ", "), count.rows);
}

Document history_document(std::span<const RunRecord> runs, std::span<const RunChange> changes,
                          std::span<const std::string> metrics) {
  Document document;
  document.title = "Assay: history of " + counted(std::ssize(runs), "run");
  Section all{"", {}};
  all.add(runs_table(runs));
  document.sections.push_back(std::move(all));
  document.sections.push_back(changes_section(runs, changes));
  Section figures{"Trends", {}, Shown::on_pages, false, SectionKind::figures};
  if (runs.size() > 1)
    for (const std::string& tag : metrics)
      if (auto plot = trend_of(runs, metric(tag))) figures.add(Figure{"history_" + tag, std::move(*plot)});
  document.sections.push_back(std::move(figures));
  return document;
}

}  // namespace assay::report
