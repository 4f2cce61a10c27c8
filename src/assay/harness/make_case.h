// How studies make cases of prompts and the baseline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/harness/case.h"
#include "assay/harness/context.h"

namespace assay {

// A case of the baseline.
Case baseline_case(const ExperimentContext& context, Scenario scenario, std::string label,
                   std::vector<Prompt> prompts, std::int64_t new_tokens);

// Where a prompt and its new tokens exceed the context: truncates on the left, and adds a warning.
void fit_context(const ExperimentContext& context, Case& spec);

// A prompt as people read it.
std::string shown(const Prompt& prompt);

// Exactly `length` ids: those of the text, repeated. Throws Error where the text gives none.
std::vector<TokenId> ids_of_length(const ExperimentContext& context, const std::string& text,
                                   std::int64_t length);

// Ids of a text. Throws Error where the model has no tokenizer.
std::vector<TokenId> encode(const ExperimentContext& context, const std::string& text);
std::vector<TokenId> encode(const Tokenizer* tokenizer, const std::string& text);

}  // namespace assay
