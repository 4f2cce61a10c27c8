#include "assay/report/result_document.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "assay/base/format.h"
#include "assay/report/configuration_figures.h"
#include "assay/report/figures.h"
#include "assay/report/generated_texts.h"
#include "assay/report/prose/prose.h"
#include "assay/report/result_tables.h"
#include "assay/results/metric.h"
#include "assay/results/takeaways.h"

namespace assay::report {

namespace {

const Row* first_with(const ResultSet& results, std::string_view tag) {
  for (const Row& row : results.rows)
    if (row.status == RowStatus::ok && row.find(tag) != nullptr) return &row;
  return nullptr;
}

std::string sentence(const std::string& clause) {
  return clause.empty() || clause.back() == '.' ? clause : clause + ".";
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

// What a reader may type.
std::vector<std::string> commands_of(const std::vector<Takeaway>& takeaways) {
  std::vector<std::string> commands;
  for (const Takeaway& takeaway : takeaways)
    if (const auto* more = std::get_if<MoreProcesses>(&takeaway)) commands.push_back(more->command);
  return commands;
}

class ResultDocument {
 public:
  explicit ResultDocument(const ResultSet& results) : results_(results) {}

  Document build() {
    document_.title = "Assay: " + results_.model.id;
    for (const OtherModel& other : results_.other_models) document_.title += ", " + other.name;
    for (const ScenarioInfo& info : scenarios()) add_scenario(info);
    add_texts();
    add_audit();
    add_findings();
    add_figures();
    add_methods();
    add_every_metric();
    const std::vector<Takeaway> takeaways = takeaways_of(results_);
    add_conclusion("Takeaways", sentences_of(takeaways), SectionKind::takeaways, commands_of(takeaways));
    add_conclusion("Recommendation under limits", answer_to_limits(results_), SectionKind::recommendation);
    if (const auto recommended = recommendation_of(results_))
      add_conclusion(results_.limits ? "Recommendation without limits" : "Recommendation",
                     sentences_of(*recommended), SectionKind::recommendation);
    add_failures();
    add_conclusion("Left out", sentences_of(results_.left_out, results_.command), SectionKind::other,
                   commands_of_left_out());
    add_conclusion("Warnings", warnings());
    return std::move(document_);
  }

 private:
  Section& new_section(std::string title, Shown shown = Shown::everywhere,
                       SectionKind kind = SectionKind::other) {
    document_.sections.push_back({std::move(title), {}, shown, false, kind});
    return document_.sections.back();
  }

  void add_conclusion(const std::string& title, std::vector<std::string> sentences,
                      SectionKind kind = SectionKind::other, std::vector<std::string> commands = {}) {
    if (sentences.empty()) return;
    Section& section = new_section(title, Shown::everywhere, kind);
    section.is_conclusion = true;
    section.add(List{std::move(sentences), std::move(commands)});
  }

  bool has_rows(Scenario scenario) const {
    return std::any_of(results_.rows.begin(), results_.rows.end(),
                       [&](const Row& row) { return row.scenario == scenario; });
  }

  void add_scenario(const ScenarioInfo& info) {
    if (!has_rows(info.value) || info.value == Scenario::step_times) return;
    Section& section = new_section(std::string(info.title));
    // What the trade-off shows too is no table of its own on a terminal.
    const bool is_repeated = std::none_of(results_.rows.begin(), results_.rows.end(), [&](const Row& row) {
      return row.scenario == info.value && is_shown(row, results_);
    });
    const Shown shown = is_repeated ? Shown::on_pages : Shown::everywhere;
    section.add(Paragraph{std::string(info.text)}, shown);
    Table table = scenario_table(results_, info.value);
    Table narrow = scenario_table(results_, info.value, Detail::percent);
    if (narrow.rows != table.rows && shown == Shown::everywhere) {
      section.add(std::move(table), Shown::on_pages);
      section.add(std::move(narrow), Shown::on_terminals);
    } else {
      section.add(std::move(table), shown);
    }
    if (info.value == Scenario::baseline) add_footprint(section);
    if (info.value == Scenario::perplexity) add_perplexity(section);
    if (List sentences = comparisons_of(info.value); !sentences.items.empty())
      section.add(std::move(sentences), Shown::on_pages);
  }

  std::vector<std::string> commands_of_left_out() const {
    std::vector<std::string> commands;
    for (const LeftOut& one : results_.left_out) commands.push_back(one.command);
    if (!results_.command.empty()) commands.push_back(without_budget(results_.command));
    return commands;
  }

  void add_footprint(Section& section) const {
    const Row* row = first_with(results_, "memory_bytes");
    if (row == nullptr) return;
    const double bytes = row->find("memory_bytes")->value;
    // A footprint has the codes of quantized weights alone, so that it is less than their file.
    const bool is_of_codes = results_.model.dtype.find("(as stored)") != std::string::npos;
    section.add(
        Paragraph{fmt::format("{} has {} parameters; in {} they take {:.2f} MiB ({} bytes){}.",
                              results_.model.id, with_commas(results_.model.parameters), results_.model.dtype,
                              bytes / (1024 * 1024), with_commas(static_cast<std::int64_t>(bytes)),
                              is_of_codes ? " without the scales of their blocks" : "")});
  }

  void add_perplexity(Section& section) const {
    const Row* row = first_with(results_, "tokens_scored");
    if (row == nullptr || row->find("perplexity") == nullptr) return;
    section.add(Paragraph{fmt::format("{} scores {:.0f} tokens of {} (protocol: {}).", at_start(row->label),
                                      row->find("tokens_scored")->value, row->parameter("corpus"),
                                      row->parameter("protocol"))});
    Lines lines;
    lines.lines.push_back(fmt::format("Final perplexity: {:.2f}", row->find("perplexity")->value));
    if (const Row* timed = first_with(results_, "total_latency_s"))
      lines.lines.push_back(fmt::format("Latency     : {:.3g} s ({}, {})",
                                        timed->find("total_latency_s")->value, info_of(timed->scenario).name,
                                        timed->label));
    section.add(std::move(lines));
  }

  // Whether a cell of the scenario's table shows the verdict.
  static bool is_in_table(const Comparison& c, Scenario scenario) {
    return scenario == Scenario::perplexity ? c.metric == "perplexity" : c.metric == "total_latency_s";
  }

  // What the table of the scenario cannot show of its comparisons, each in one section alone.
  List comparisons_of(Scenario scenario) {
    std::vector<Comparison> in_table;
    List list;
    for (const Comparison& c : results_.comparisons) {
      const bool is_here = std::any_of(results_.rows.begin(), results_.rows.end(), [&](const Row& row) {
        return row.scenario == scenario && is_of(c, row, results_) && row.find(c.metric) != nullptr;
      });
      // The trade-off holds perplexities too; they are compared where they were scored.
      const bool is_elsewhere = (c.metric == "perplexity") != (scenario == Scenario::perplexity);
      if (!is_here || is_elsewhere) continue;
      if (is_in_table(c, scenario))
        in_table.push_back(c);
      else
        list.items.push_back(sentence(sentence_of(c)));
    }
    for (std::string& shared : shared_sentences(in_table)) list.items.push_back(std::move(shared));
    return list;
  }

  void add_texts() {
    if (!results_.texts.empty())
      add_generated_texts(results_, new_section("Generated texts", Shown::everywhere, SectionKind::texts));
  }

  void add_audit() {
    if (results_.audit.empty()) return;
    Section& section = new_section("Equivalence audit");
    List failed;
    Table table{{"Configuration", "Setting", "Result", "First difference"}, {false, false, false, false}, {}};
    for (const AuditRow& row : results_.audit) {
      table.rows.push_back({row.configuration, row.what,
                            std::string(entry_of(audit_verdicts(), row.verdict).title),
                            row.first_divergence.empty() ? "-" : row.first_divergence});
      if (row.has_failed())
        failed.items.push_back(fmt::format("{}, {}: results differ although they must not: {}.",
                                           row.configuration, row.what, row.first_divergence));
    }
    section.add(Paragraph{
        failed.items.empty()
            ? fmt::format("KV cache, batching and padding must not change what is generated. "
                          "{} checked; no forbidden difference was found.",
                          results_.audit.size() == 1 ? "1 setting was"
                                                     : fmt::format("{} settings were", results_.audit.size()))
            : "KV cache, batching and padding must not change what is generated."});
    if (!failed.items.empty()) section.add(failed);
    section.add(std::move(table), Shown::on_pages);
  }

  void add_findings() {
    const std::vector<std::string> sentences = sentences_of(results_.findings);
    if (sentences.empty()) return;
    // Many of them bury what follows.
    constexpr std::size_t kMaxOnTerminal = 6;
    Section& section =
        new_section("Findings", sentences.size() <= kMaxOnTerminal ? Shown::everywhere : Shown::on_pages);
    List list;
    for (const std::string& each : sentences) list.items.push_back(sentence(each));
    section.add(std::move(list));
  }

  void add_figures() {
    const auto figures = figures_of(results_);
    if (figures.empty()) return;
    Section& section = new_section("Figures", Shown::on_pages, SectionKind::figures);
    const auto lead = frontier_figures(results_);
    for (const auto& [name, plot] : figures) {
      const bool is_lead = std::any_of(lead.begin(), lead.end(),
                                       [&, &own = name](const auto& figure) { return figure.first == own; });
      section.add(Figure{name, plot, is_lead});
    }
  }

  void add_methods() {
    if (results_.caption.empty()) return;
    Section& section = new_section("How it was measured", Shown::everywhere, SectionKind::methods);
    section.add(Paragraph{results_.caption});
    if (std::any_of(results_.comparisons.begin(), results_.comparisons.end(),
                    [](const Comparison& c) { return c.interval.has_value(); }))
      section.add(
          Paragraph{"Beside a verdict stands the ratio with its interval, which is corrected for all "
                    "comparisons of its "
                    "kind."});
  }

  void add_every_metric() {
    Section& section = new_section("Every metric", Shown::on_pages, SectionKind::every_metric);
    section.add(
        Paragraph{"docs/METRICS.md defines each metric, and the command assay help metrics prints the "
                  "definitions. The raw samples are in results.json and samples.csv."});
    for (const ScenarioInfo& info : scenarios()) {
      if (!has_rows(info.value) || info.value == Scenario::step_times) continue;
      section.add(Paragraph{fmt::format("{}:", info.title)});
      section.add(every_metric_table(results_, info.value));
    }
  }

  void add_failures() {
    std::vector<std::string> sentences;
    for (const Row& row : results_.rows)
      if (row.status != RowStatus::ok)
        sentences.push_back(fmt::format("{}, {}: {}.", info_of(row.scenario).title, row.label, row.reason));
    add_conclusion("Failed cases", std::move(sentences), SectionKind::failures);
  }

  std::vector<std::string> warnings() const {
    std::vector<std::string> all = grouped_warnings(results_.rows);
    if (results_.status == RunStatus::interrupted)
      all.insert(all.begin(), std::string(entry_of(run_statuses(), results_.status).text));
    return all;
  }

  const ResultSet& results_;
  Document document_;
};

// Rows with the same warning; and texts of one kind that differ in their numbers alone.
struct WarningGroup {
  Warning warning;
  std::vector<std::string> labels;
  std::size_t others = 0;  // rows with another text of this kind
};

}  // namespace

std::vector<std::string> grouped_warnings(const std::vector<Row>& rows) {
  std::vector<WarningGroup> groups;
  for (const Row& row : rows)
    for (const Warning& warning : row.warnings) {
      auto at = std::find_if(groups.begin(), groups.end(), [&](const WarningGroup& group) {
        return group.warning.kind == warning.kind && group.warning.text == warning.text;
      });
      if (at == groups.end()) at = groups.insert(groups.end(), {warning, {}, 0});
      at->labels.push_back(one_line(row.label, 60));
    }
  std::stable_sort(groups.begin(), groups.end(), [](const WarningGroup& a, const WarningGroup& b) {
    return a.labels.size() > b.labels.size();
  });
  // The first text of a kind speaks for the rest.
  constexpr std::size_t kTextsOfAKind = 2;
  std::vector<WarningGroup> kept;
  for (WarningGroup& group : groups) {
    const auto is_same_kind = [&](const WarningGroup& other) {
      return other.warning.kind == group.warning.kind && group.warning.kind != WarningKind::other;
    };
    const auto first = std::find_if(kept.begin(), kept.end(), is_same_kind);
    if (first != kept.end() && std::count_if(groups.begin(), groups.end(), is_same_kind) >
                                   static_cast<std::ptrdiff_t>(kTextsOfAKind))
      first->others += group.labels.size();
    else
      kept.push_back(group);
  }
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> lines;
  for (const WarningGroup& group : kept) {
    std::string where = group.labels.size() == rows.size() && rows.size() > 1 ? "all rows"
                        : group.labels.size() <= kNamed
                            ? fmt::format("{}", fmt::join(group.labels, "; "))
                            : fmt::format("{} and {}", group.labels.front(),
                                          counted(std::ssize(group.labels) - 1, "other row"));
    if (group.others > 0)
      where += fmt::format("; with other figures in {}",
                           counted(static_cast<std::int64_t>(group.others), "other row"));
    lines.push_back(fmt::format("{} ({}).", capitalised(sentence_of(group.warning)), where));
  }
  return lines;
}

Document document_of(const ResultSet& results) {
  return ResultDocument(results).build();
}

}  // namespace assay::report
