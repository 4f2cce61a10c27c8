// Generated texts side by side: by prompt, equal ones once, with the first difference from the baseline's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/report/document.h"
#include "assay/results/results.h"

namespace assay::report {

// One text, and all whose it is.
struct Writing {
  std::string text;
  std::vector<std::string> labels;
  std::vector<int> ids = {};  // the new ones; empty where they are not known
};
struct PromptTexts {
  std::string prompt;             // empty: edge-case prompts, whose texts are not compared
  std::vector<Writing> writings;  // the first is the baseline's
};
std::vector<PromptTexts> texts_by_prompt(const ResultSet& results);

// Where b first differs from a, at the beginning of a character; in bytes.
std::size_t first_difference(const std::string& a, const std::string& b);
std::int64_t characters_in(std::string_view text);
// Where the word that begins at `at` ends, at the end of a character.
std::size_t end_of_difference(const std::string& text, std::size_t at);

// "distinct-2 0.94 (baseline 0.96), seq-rep-4 0.02 (0.00)"; empty where ids are not known.
std::string repetition_of(const Writing& writing, const Writing& base);

// A table for each prompt, and from which precision on degradation is visible. On a page each text stands
// whole, up to a limit, and on a terminal from just before the difference.
void add_generated_texts(const ResultSet& results, Section& section);

}  // namespace assay::report
