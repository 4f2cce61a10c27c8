#include "assay/report/summary.h"

#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/table.h"

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
  const Row* row = first_with(results, "perplexity");
  if (row == nullptr) return "";
  std::string corpus, protocol;
  for (const auto& [key, value] : row->parameters) {
    if (key == "corpus") corpus = value;
    if (key == "protocol") protocol = value;
  }
  std::string text = fmt::format("Perplexity of {} ({})\n", corpus, protocol);
  text += line(*row, "tokens_scored", "tokens_scored", 0) + line(*row, "loss", "loss", 6);
  text += fmt::format("Final perplexity: {:.2f}\n", row->find("perplexity")->value);
  if (const Row* timed = first_with(results, "total_latency_s"))
    text += fmt::format("Latency     : {:.3f} s ({})\n", timed->find("total_latency_s")->value, timed->label);
  return text;
}

std::string doubts_of(const ResultSet& results) {
  std::string text;
  std::vector<std::string> seen;
  for (const Row& row : results.rows)
    for (const std::string& doubt : row.doubts) {
      if (std::find(seen.begin(), seen.end(), doubt) != seen.end()) continue;
      seen.push_back(doubt);
      text += "doubt: " + doubt + "\n";
    }
  return text;
}

}  // namespace

std::string summary_text(const ResultSet& results) {
  std::string text = baseline_block(results);
  for (const GeneratedText& t : results.texts)
    text += fmt::format("\n[{}] {}\n  ->{}\n", t.label, one_line(t.prompt, 200), one_line(t.text, 1000));
  text += "\n" + perplexity_lines(results) + "\n" + to_text(results_table(results)) + results.caption + "\n";
  for (const std::string& takeaway : results.takeaways) text += "- " + takeaway + "\n";
  return text + doubts_of(results);
}

std::string summary_markdown(const ResultSet& results) {
  std::string text = fmt::format("# Assay: {}\n\n{}\n{}\n\n", results.model.id,
                                 to_markdown(results_table(results)), results.caption);
  text += "```\n" + baseline_block(results) + "\n" + perplexity_lines(results) + "```\n\n## Texts\n\n";
  for (const GeneratedText& t : results.texts)
    text += fmt::format("- **{}** `{}` -> `{}`\n", t.label, one_line(t.prompt, 200), one_line(t.text, 1000));
  if (const std::string doubts = doubts_of(results); !doubts.empty())
    text += "\n## Doubts\n\n```\n" + doubts + "```\n";
  return text;
}

}  // namespace assay
