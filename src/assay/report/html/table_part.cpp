// The table of all rows, and the verdicts that it can show.
#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/figure_points.h"
#include "assay/report/html/markup.h"
#include "assay/report/prose/prose.h"
#include "assay/report/result_tables.h"
#include "assay/report/table.h"
#include "assay/results/metric.h"
#include "assay/results/pairs.h"

namespace assay::report {

namespace {

constexpr std::size_t kLongestName = 200;
constexpr std::string_view kLatencyOf = "total_latency_s";

// A verdict as a cell has it, its style and the figures behind it.
struct VerdictCell {
  std::string kind, text, detail;
};
VerdictCell cell_of(const Comparison& c) {
  std::string detail = factor_with_interval(c);
  std::string kind = "untested";
  if (c.verdict == Verdict::lower || c.verdict == Verdict::higher) {
    kind = verdict_word(c);
    const Factor factor = shown_factor(c);
    detail = interval_of(factor);
  } else if (c.verdict == Verdict::no_difference) {
    kind = "tied";
  } else if (c.verdict == Verdict::cannot_tell) {
    kind = "undecided";
  }
  return {std::move(kind), verdict_cell(c, Detail::none), std::move(detail)};
}

std::string verdict_html(const VerdictCell& cell, const Comparison& c) {
  constexpr std::size_t kMostHover =
      400;  // characters: a name of a whole page is not said again in each cell
  return fmt::format("<td class=\"verdict {}\" data-v=\"{:.6g}\" title=\"{}\">{} <small>{}</small></td>",
                     cell.kind, c.ratio, html_words(one_line(sentence_of(c), kMostHover)),
                     html_words(cell.text), html_words(cell.detail));
}

// The columns that are shown until a reader chooses others.
bool is_shown_first(const Metric& m) {
  return m.tables.has(Scenario::tradeoff) || m.tag == kLatencyOf || m.tag == "tokens_per_sec" ||
         m.tag == "kl_mean" || m.tag == "perplexity";
}

class TablePart {
 public:
  explicit TablePart(const ResultSet& results) : results_(results) {
    for (const Row& row : results.rows)
      if (is_shown(row, results)) rows_.push_back(&row);
    for (const Metric& m : metric_catalogue())
      if (std::any_of(rows_.begin(), rows_.end(),
                      [&](const Row* row) { return row->find(m.tag) != nullptr; })) {
        metrics_.push_back(&m);
        decimals_.push_back(decimals_for(m));
      }
  }

  std::string build() const {
    if (rows_.empty()) return "";
    std::string text = controls();
    text +=
        "<p id=\"shown\" class=\"note\" role=\"status\"></p>\n"
        "<div class=\"scroll tall\" role=\"group\" tabindex=\"0\" aria-label=\"All rows\">\n<table "
        "id=\"rows\">\n"
        "<caption class=\"unseen\">All rows: buttons in the head sort them</caption>\n<thead><tr>" +
        head("Case", "", false) + head("Scenario", "", false) + head("Precision", "", false) +
        head("Against the baseline", "Latency against that of the scenario's baseline", false);
    for (const Metric* m : metrics_)
      text += head(m->column_head(), m->definition, true, m->tag, !is_shown_first(*m));
    text += "</tr></thead>\n<tbody>\n";
    for (const Row* row : rows_) text += line(*row);
    return text + "</tbody>\n</table>\n</div>\n";
  }

 private:
  // As many as the smallest figure needs for three digits.
  int decimals_for(const Metric& m) const {
    double least = INFINITY;
    for (const Row* row : rows_)
      if (const Value* value = row->find(m.tag); value != nullptr && value->value * m.scale > 0)
        least = std::min(least, value->value * m.scale);
    if (!std::isfinite(least)) return m.decimals;
    constexpr int kMost = 6;
    const int needed = std::clamp(2 - static_cast<int>(std::floor(std::log10(least))), 0, kMost);
    return m.unit == "s" || m.unit == "ms" ? needed : least >= 1000 ? 0 : m.decimals;
  }

  static std::string head(std::string_view title, std::string_view definition, bool has_numbers,
                          std::string_view tag = "", bool is_off = false) {
    return fmt::format("<th scope=\"col\" class=\"{}{}\"{}{}>{}</th>", has_numbers ? "n" : "t",
                       is_off ? " off" : "", tag.empty() ? "" : fmt::format(" data-metric=\"{}\"", tag),
                       definition.empty() ? "" : fmt::format(" title=\"{}\"", html_words(definition)),
                       html_words(title));
  }

  std::string metric_cell(const Row& row, std::size_t i) const {
    const Metric& m = *metrics_[i];
    const char* off = is_shown_first(m) ? "" : " off";
    const Value* value = row.find(m.tag);
    if (value == nullptr) return fmt::format("<td class=\"n{}\">-</td>", off);
    const double shown = value->value * m.scale;
    const Decimals decimals = decimals_of(m, *value, {decimals_[i]});
    std::string interval;
    if (value->interval && m.shows_interval)
      interval = fmt::format(" <small>[{}, {}]</small>", rounded(value->interval->low * m.scale, decimals),
                             rounded(value->interval->high * m.scale, decimals));
    return fmt::format("<td class=\"n{}\" data-v=\"{:.9g}\">{}{}</td>", off, shown, rounded(shown, decimals),
                       interval);
  }

  std::string verdict(const Row& row) const {
    bool is_baseline = false;
    for (const Comparison& c : results_.comparisons) {
      if (c.scenario != row.scenario || c.metric != kLatencyOf) continue;
      if (c.subject == row.label) return verdict_html(cell_of(c), c);
      is_baseline = is_baseline || c.baseline == row.label;
    }
    return is_baseline ? "<td class=\"verdict base\" data-v=\"1\">baseline</td>"
                       : "<td class=\"verdict\">-</td>";
  }

  std::string line(const Row& row) const {
    const bool has_failed = row.status != RowStatus::ok;
    const std::string reason = has_failed ? fmt::format(" <span class=\"failed\">failed: {}</span>",
                                                        html_words(one_line(row.reason, 4 * kLongestName)))
                                          : "";
    std::string text = fmt::format(
        "<tr id=\"row-{}\" data-scenario=\"{}\"><th scope=\"row\"><bdi>{}</bdi>{}</th><td>{}</td><td><bdi>{}"
        "</bdi></td>",
        index_of(results_, row), name_of(row.scenario), html_words(one_line(row.label, kLongestName)), reason,
        html_words(info_of(row.scenario).title),
        html_words(one_line(row.parameter("precision"), kLongestName)));
    text += verdict(row);
    for (std::size_t i = 0; i < metrics_.size(); ++i) text += metric_cell(row, i);
    return text + "</tr>\n";
  }

  // What the script makes work; without it there are no controls.
  std::string controls() const {
    std::string scenarios_shown;
    for (const ScenarioInfo& info : scenarios())
      if (std::any_of(rows_.begin(), rows_.end(),
                      [&](const Row* row) { return row->scenario == info.value; }))
        scenarios_shown += fmt::format("<option value=\"{}\">{}</option>", info.name, html_words(info.title));
    std::string columns;
    for (const Metric* m : metrics_)
      columns += fmt::format("<label><input type=\"checkbox\" data-column=\"{}\"{}/> {}</label>\n", m->tag,
                             is_shown_first(*m) ? " checked=\"checked\"" : "", html_words(m->column_head()));
    return fmt::format(
        "<form class=\"controls\" id=\"controls\" aria-label=\"Rows and columns of the table\">\n"
        "<label>Text <input type=\"search\" id=\"filter\" autocomplete=\"off\"/></label>\n"
        "<label>Scenario <select id=\"scenario\"><option value=\"\">all</option>{}</select></label>\n"
        "<label class=\"baseline\">Baseline <select id=\"baseline\"></select></label>\n"
        "<details class=\"columns\"><summary>Columns</summary>\n<div class=\"choices\">\n{}</div></details>\n"
        "</form>\n",
        scenarios_shown, columns);
  }

  const ResultSet& results_;
  std::vector<const Row*> rows_;
  std::vector<const Metric*> metrics_;
  std::vector<int> decimals_;  // by metric
};

}  // namespace

std::string table_part(const ResultSet& results) {
  return TablePart(results).build();
}

nlohmann::ordered_json pairs_json(const ResultSet& results) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Scenario scenario : {Scenario::tradeoff, Scenario::precisions}) {
    const std::vector<Comparison> pairs = compare_every_pair(results, scenario);
    if (pairs.empty()) continue;
    std::map<std::string, int> index;
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Row* row : rows_with(results, scenario, kLatencyOf)) {
      const int i = index_of(results, *row);
      index[row->label] = i;
      rows.push_back({{"row", i}, {"label", one_line(row->label, kLongestName)}});
    }
    nlohmann::ordered_json cells = nlohmann::ordered_json::object();
    const auto add = [&](const Comparison& c) {
      const VerdictCell cell = cell_of(c);
      cells[fmt::format("{}:{}", index[c.subject], index[c.baseline])] = {cell.kind, cell.text, cell.detail,
                                                                          c.ratio};
    };
    for (const Comparison& c : pairs) {
      add(c);
      add(exchanged(c));
    }
    std::string own;
    for (const Comparison& c : results.comparisons)
      if (c.scenario == scenario && c.metric == kLatencyOf) own = c.baseline;
    all.push_back({{"scenario", name_of(scenario)},
                   {"title", info_of(scenario).title},
                   {"baseline", index.contains(own) ? index[own] : -1},
                   {"pairs", pairs.size()},
                   {"rows", std::move(rows)},
                   {"cells", std::move(cells)}});
  }
  return all;
}

}  // namespace assay::report
