// Results as a short page of GitHub's Markdown.
#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/formats.h"
#include "assay/report/html/markup.h"
#include "assay/report/render.h"
#include "assay/report/result_tables.h"
#include "assay/report/text_layout.h"

namespace assay::report {

namespace {

constexpr std::size_t kColumns = 7;     // in the one table
constexpr std::size_t kTableRows = 24;  // beyond which it is folded too
constexpr std::size_t kTakeawaysShown = 5;

// The columns that matter most, in their order.
Table with_few_columns(Table table) {
  while (table.head.size() > kColumns) {
    std::size_t last = table.head.size() - 1;
    for (std::size_t i = table.head.size(); i-- > 0;)
      if (table.rank[i] > table.rank[last]) last = i;
    const auto drop = [last](auto& list) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(last)); };
    drop(table.head);
    drop(table.is_number);
    drop(table.rank);
    if (!table.short_head.empty()) drop(table.short_head);
    for (auto& row : table.rows) drop(row);
  }
  return table;
}

// The scenario that compares configurations, else the first that was measured.
std::optional<Scenario> main_scenario(const ResultSet& results) {
  const auto has = [&](Scenario scenario) {
    return std::any_of(results.rows.begin(), results.rows.end(),
                       [&](const Row& row) { return row.scenario == scenario; });
  };
  for (const Scenario scenario : {Scenario::tradeoff, Scenario::precisions})
    if (has(scenario)) return scenario;
  for (const ScenarioInfo& info : scenarios())
    if (has(info.value) && info.value != Scenario::noise && info.value != Scenario::step_times)
      return info.value;
  return std::nullopt;
}

std::string folded(const std::string& title, const std::string& body) {
  return fmt::format("\n<details>\n<summary>{}</summary>\n{}\n</details>\n", html_words(title), body);
}

class GithubSummary {
 public:
  GithubSummary(const Document& document, const ResultSet& results)
      : document_(document), results_(results) {}

  std::string build() {
    text_ = "## " + markdown_words(document_.title) + "\n";
    text_ += fmt::format("\n{}\n", markdown_words(facts()));
    add_conclusions(SectionKind::recommendation, 0);
    if (const auto scenario = main_scenario(results_)) {
      const Table table = with_few_columns(scenario_table(results_, *scenario));
      const std::string shown = "\n" + to_markdown(table);
      const std::string title(info_of(*scenario).title);
      text_ += table.rows.size() <= kTableRows ? "\n### " + markdown_words(title) + "\n" + shown
                                               : folded(title, shown);
    }
    add_conclusions(SectionKind::takeaways, kTakeawaysShown);
    add_conclusions(SectionKind::failures, kTakeawaysShown);
    add_details();
    return std::move(text_);
  }

 private:
  std::string facts() const {
    std::string text =
        results_.machine.cpu.empty() ? results_.created : results_.machine.cpu + ", " + results_.created;
    if (results_.status == RunStatus::interrupted) text += " (interrupted)";
    return one_line(text, 300);
  }

  // `most` items; 0: all.
  void add_conclusions(SectionKind kind, std::size_t most) {
    for (const Section& section : document_.sections) {
      if (section.kind != kind || section.shown == Shown::on_terminals) continue;
      Section shown = section;
      for (Block& block : shown.blocks)
        if (auto* list = std::get_if<List>(&block.content); list != nullptr && most > 0)
          list->items.resize(std::min(most, list->items.size()));
      text_ += "\n### " + markdown_words(section.title) + "\n" + markdown_blocks(shown);
    }
  }

  void add_details() {
    std::vector<std::string> left_out;
    for (const Section& section : document_.sections) {
      if (section.kind == SectionKind::every_metric || section.kind == SectionKind::recommendation ||
          section.kind == SectionKind::figures || section.shown == Shown::on_terminals)
        continue;
      const std::string body = markdown_blocks(section);
      if (body.empty()) continue;
      const std::string part = folded(section.title, body);
      if (text_.size() + part.size() < kMostOfASummary)
        text_ += part;
      else
        left_out.push_back(section.title);
    }
    if (!left_out.empty())
      text_ += fmt::format("\nLeft out, because GitHub takes 1 MiB: {}. report.html has all.\n",
                           markdown_words(fmt::format("{}", fmt::join(left_out, ", "))));
  }

  const Document& document_;
  const ResultSet& results_;
  std::string text_;
};

}  // namespace

std::string to_github(const Document& document, const ResultSet& results) {
  return GithubSummary(document, results).build();
}

}  // namespace assay::report
