#include "assay/report/summary.h"

#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/figures.h"
#include "assay/report/table.h"
#include "assay/results/metric.h"

namespace assay {

namespace {

const Row* first_with(const ResultSet& results, const char* tag) {
  for (const Row& row : results.rows)
    if (row.status == "ok" && row.find(tag) != nullptr) return &row;
  return nullptr;
}

// One line of a block; nothing where the row has no such figure.
std::string line(const Row& row, const char* tag, const char* label, int decimals) {
  const Value* value = row.find(tag);
  return value == nullptr ? "" : fmt::format("  {:<25}: {:.{}f}\n", label, value->value, decimals);
}

std::string baseline_block(const ResultSet& results) {
  const Row* row = first_with(results, "total_latency_s");
  if (row == nullptr) return "";
  std::string text = fmt::format("Baseline ({}, {})\n", results.model.dtype, row->label);
  text += line(*row, "total_latency_s", "total_latency_s", 3);
  text += line(*row, "tokens_generated", "tokens_generated", 0);
  text += line(*row, "tokens_per_sec", "tokens_per_sec", 1);
  text += line(*row, "avg_latency_per_token_ms", "avg_latency_per_token_ms", 2);
  text += line(*row, "time_to_first_token_s", "time_to_first_token_s", 4);
  text += line(*row, "prefill_tokens_per_sec", "prefill tokens/s", 0);
  text += line(*row, "decode_tokens_per_sec", "decode tokens/s", 1);
  if (const Value* memory = row->find("memory_bytes"))
    text += fmt::format("  {:<25}: {:.2f} MB ({:.0f} bytes, {} parameters)\n", "memory footprint",
                        memory->value / (1024.0 * 1024.0), memory->value, results.model.parameters);
  return text;
}

std::string perplexity_lines(const ResultSet& results) {
  const Row* row = first_with(results, "tokens_scored");
  if (row == nullptr) return "";
  std::string text =
      fmt::format("Perplexity of {} ({})\n", row->parameter("corpus"), row->parameter("protocol"));
  text += line(*row, "tokens_scored", "tokens_scored", 0) + line(*row, "loss", "loss", 6);
  text += fmt::format("Final perplexity: {:.2f}\n", row->find("perplexity")->value);
  if (const Row* timed = first_with(results, "total_latency_s"))
    text += fmt::format("Latency     : {:.3f} s ({})\n", timed->find("total_latency_s")->value, timed->label);
  return text;
}

// What was compared, audited and concluded, a line each.
std::string findings_of(const ResultSet& results) {
  std::string text;
  for (const Comparison& c : results.comparisons)
    text +=
        fmt::format("{}{}: {}\n", text.empty() ? "\nCompared\n  " : "  ", metric(c.metric).title, c.sentence);
  bool is_first = true;
  for (const AuditRow& row : results.audit) {
    text += fmt::format("{}{}, {}: {}{}{}\n", is_first ? "\nAudit: what must not change a result\n  " : "  ",
                        row.configuration, row.what, row.verdict, row.first_divergence.empty() ? "" : ": ",
                        row.first_divergence);
    is_first = false;
  }
  for (const std::string& remark : results.remarks)
    text += fmt::format("{}{}\n", &remark == &results.remarks.front() ? "\nRemarks\n  " : "  ", remark);
  for (const std::string& takeaway : results.takeaways)
    text += fmt::format("{}- {}\n", &takeaway == &results.takeaways.front() ? "\nTakeaways\n" : "", takeaway);
  return text;
}

// The baseline's text stands among those of the precisions too.
bool is_repeated(const GeneratedText& text, const ResultSet& results) {
  return text.label.rfind("prompt ", 0) == 0 &&
         std::any_of(results.texts.begin(), results.texts.end(), [&](const GeneratedText& other) {
           return other.prompt == text.prompt && other.label != text.label &&
                  other.label.ends_with(text.label);
         });
}

// What each configuration made of a prompt, one under the other.
std::string texts_side_by_side(const ResultSet& results) {
  constexpr std::size_t kShown = 150;
  std::vector<std::string> prompts;
  for (const GeneratedText& t : results.texts)
    if (!t.prompt.empty() && std::find(prompts.begin(), prompts.end(), t.prompt) == prompts.end())
      prompts.push_back(t.prompt);
  std::string text;
  for (const std::string& prompt : prompts) {
    text += fmt::format("\n[prompt] {}\n", one_line(prompt, kShown));
    std::vector<const GeneratedText*> before;
    for (const GeneratedText& t : results.texts) {
      if (t.prompt != prompt || is_repeated(t, results)) continue;
      const auto same = std::find_if(before.begin(), before.end(),
                                     [&](const GeneratedText* other) { return other->text == t.text; });
      text += fmt::format("  {:<32} ->{}\n", one_line(t.label, kShown),
                          same != before.end() ? " the same as " + one_line((*same)->label, kShown)
                                               : one_line(t.text, kShown));
      if (same == before.end()) before.push_back(&t);
    }
  }
  return text;
}

std::string doubts_of(const ResultSet& results) {
  constexpr std::size_t kLongest = 120;
  std::string text;
  std::vector<std::pair<std::string, std::vector<std::string>>>
      seen;  // a warning, and the rows that carry it
  for (const Row& row : results.rows)
    for (const std::string& warning : row.warnings) {
      auto at =
          std::find_if(seen.begin(), seen.end(), [&](const auto& entry) { return entry.first == warning; });
      if (at == seen.end()) at = seen.insert(seen.end(), {warning, {}});
      at->second.push_back(one_line(row.label, kLongest));
    }
  constexpr std::size_t kNamed = 3;
  for (const auto& [warning, rows] : seen) {
    if (rows.size() == results.rows.size())
      text += fmt::format("warning: {}\n", warning);
    else if (rows.size() <= kNamed)
      text += fmt::format("warning: {} ({})\n", warning, fmt::join(rows, "; "));
    else
      text += fmt::format("warning: {} ({} and {} other rows)\n", warning, rows.front(), rows.size() - 1);
  }
  return text;
}

}  // namespace

std::string summary_text(const ResultSet& results) {
  std::string text = baseline_block(results);
  text += texts_side_by_side(results);
  text += "\n" + perplexity_lines(results) + "\n" + to_text(build_results_table(results)) + results.caption +
          "\n";
  return text + findings_of(results) + doubts_of(results);
}

std::string summary_markdown(const ResultSet& results) {
  std::string text = fmt::format("# Assay: {}\n\n{}\n{}\n\n", results.model.id,
                                 to_markdown(build_results_table(results)), results.caption);
  text += "```\n" + baseline_block(results) + "\n" + perplexity_lines(results) + "```\n\n## Texts\n\n";
  for (const GeneratedText& t : results.texts)
    text += fmt::format("- **{}** `{}` -> `{}`\n", t.label, one_line(t.prompt, 200), one_line(t.text, 1000));
  if (const std::string findings = findings_of(results); !findings.empty())
    text += "\n## Findings\n\n```" + findings + "```\n";
  if (const auto figures = figures_of(results); !figures.empty()) {
    text += "\n## Plots\n\n";
    for (const auto& [name, plot] : figures) text += fmt::format("![{}](plots/{}.svg)\n\n", plot.title, name);
  }
  if (const std::string warnings = doubts_of(results); !warnings.empty())
    text += "\n## Warnings\n\n```\n" + warnings + "```\n";
  return text;
}

}  // namespace assay
