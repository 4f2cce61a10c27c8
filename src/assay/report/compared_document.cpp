// The document of two runs.
#include <set>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/prose/prose.h"
#include "assay/report/result_document.h"
#include "assay/results/metric.h"

namespace assay::report {

namespace {

std::string with_full_stop(const std::string& clause) {
  return clause.empty() || clause.back() == '.' ? clause : clause + ".";
}

// Throughput is latency the other way round, and bytes that are the same need no line.
bool tells_something(const ComparedRow& row) {
  const Comparison& c = row.comparison;
  if (c.metric == "tokens_per_sec") return false;
  return metric(c.metric).unit != "B" || c.ratio != 1 || !row.unlike.empty();
}

class ComparedDocument {
 public:
  explicit ComparedDocument(const ComparedResults& compared) : compared_(compared) {}

  Document build() {
    document_.title = "Comparison of run B with run A";
    if (compared_.is_same_run) {
      document_.sections.push_back({"", {}});
      document_.sections.back().add(Paragraph{"A and B are the same run: nothing can differ between them."});
      return std::move(document_);
    }
    for (const ComparedRow& row : compared_.all_cases)
      if (tells_something(row)) add_row(row, "");
    for (const ComparedRow& row : compared_.rows)
      if (tells_something(row)) add_row(row, std::string(name_of(row.scenario)));
    say_one_reason_once();
    Section& section = document_.sections.emplace_back();
    section.add(std::move(table_));
    add_quality();
    add("Undecided", std::move(undecided_));
    add("Not tested", std::move(untested_));
    add("Not comparable", std::move(unlike_));
    List missing, warnings;
    for (const std::string& key : compared_.only_a) missing.items.push_back("Only in A: " + key);
    for (const std::string& key : compared_.only_b) missing.items.push_back("Only in B: " + key);
    for (const std::string& line : compared_.unlike) warnings.items.push_back(with_full_stop(line));
    add("Cases of one run alone", std::move(missing));
    add("Failed in B", List{compared_.failed});
    add("Warnings", std::move(warnings));
    return std::move(document_);
  }

 private:
  void add_row(const ComparedRow& row, const std::string& scenario) {
    const Comparison& c = row.comparison;
    const bool is_comparable = row.unlike.empty();
    const Decimals decimals = supported_decimals(c.ratio, c.interval, {3});
    const bool is_untested = !row.untested.empty() || c.verdict == Verdict::too_few;
    table_.rows.push_back({scenario, row.label, row.configuration, std::string(metric(c.metric).title),
                           is_comparable ? rounded(c.ratio, decimals) : "-",
                           is_comparable && c.interval
                               ? fmt::format("[{}, {}]", rounded(c.interval->low, decimals),
                                             rounded(c.interval->high, decimals))
                               : "-",
                           !is_comparable ? "not comparable"
                           : is_untested  ? "not tested"
                                          : verdict_word(c)});
    const std::string where =
        scenario.empty() ? row.label + ": " : fmt::format("{}, {}: ", scenario, row.label);
    if (!is_comparable)
      unlike_.items.push_back(where + with_full_stop(row.unlike));
    else if (!row.untested.empty())
      untested_.items.push_back(where + with_full_stop(row.untested));
    else if (c.verdict == Verdict::cannot_tell)
      undecided_.items.push_back(where + with_full_stop(sentence_of(row)));
  }

  // One reason for many rows.
  void say_one_reason_once() {
    if (untested_.items.size() < 2) return;
    std::set<std::string> reasons;
    for (const ComparedRow& row : compared_.rows)
      if (tells_something(row) && !row.untested.empty()) reasons.insert(row.untested);
    if (reasons.size() >= untested_.items.size()) return;
    untested_.items.clear();
    for (const std::string& reason : reasons) untested_.items.push_back(with_full_stop(reason));
  }

  // What limits of quality are held against.
  void add_quality() {
    if (compared_.quality.empty()) return;
    Table table{{"Scenario", "Case", "Metric", "A", "B", "95 % interval"},
                {false, false, false, true, true, false},
                {},
                {1, 0, 0, 0, 0, 0}};
    for (const QualityRow& row : compared_.quality) {
      const bool is_kl = row.metric == kKlMetric, is_change = row.metric == kAccuracyMetric;
      const double scale = is_kl ? 1 : 100;
      const auto shown = [&](double value) {
        return is_kl ? fmt::format("{:.4g}", value) : fmt::format("{:.1f} %", scale * value);
      };
      std::string interval = "-";
      if (row.interval && is_change)
        interval = fmt::format("B - A [{:.1f}, {:.1f}] points", scale * row.interval->low,
                               scale * row.interval->high);
      else if (row.interval)
        interval = fmt::format("B [{:.4g}, {:.4g}]", scale * row.interval->low, scale * row.interval->high);
      table.rows.push_back({std::string(name_of(row.scenario)), row.label,
                            std::string(metric(row.metric).title), row.a ? shown(*row.a) : "-", shown(row.b),
                            interval});
      if (!row.untested.empty()) untested_.items.push_back(row.place() + ": " + with_full_stop(row.untested));
    }
    Section& section = document_.sections.emplace_back();
    section.title = "Quality";
    section.add(std::move(table));
  }

  void add(const char* title, List list) {
    if (list.items.empty()) return;
    Section own{title, {}};
    own.add(std::move(list));
    document_.sections.push_back(std::move(own));
  }

  const ComparedResults& compared_;
  Document document_;
  List undecided_, untested_, unlike_;
  Table table_{{"Scenario", "Case", "Configuration", "Metric", "B / A", "95 % interval", "Verdict"},
               {false, false, false, false, true, false, false},
               {},
               {0, 0, 3, 1, 0, 2, 0}};
};

}  // namespace

Document document_of(const ComparedResults& compared) {
  return ComparedDocument(compared).build();
}

}  // namespace assay::report
