// What generation_config.json asks of generate() beyond the most probable token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/generate/processors.h"

namespace assay {

class ModelSource;  // checkpoint/source.h

struct GenerationRules {
  LogitsProcessors processors;
  double repetition_penalty = 1;
  // Those of generation_config.json alone; the model's where there is no such file.
  std::vector<TokenId> end_tokens;
  // Its keys that change which token follows: those that the above holds, and those that are not supported.
  std::vector<std::string> keys, unsupported;
  // The file is there and names no end token, and config.json does: Transformers does not stop at it.
  bool has_no_end = false;
};

// `model_end_tokens` are the ends that measurements stop at. Throws Error naming file and key for a value of
// another type or out of range.
GenerationRules generation_rules(const ModelSource& source, const std::vector<TokenId>& model_end_tokens,
                                 std::int64_t vocab);

// "generation_config.json asks for repetition_penalty, which measuring leaves out"; empty: it asks for
// nothing that matters. `is_followed`: only what is not supported is left out.
std::string left_out_of(const GenerationRules& rules, bool is_followed);
// The same where nothing is followed: a value that generation_rules() refuses is then one more that is left
// out.
std::string left_out_of_measurements(const ModelSource& source, const std::vector<TokenId>& model_end_tokens,
                                     std::int64_t vocab);

}  // namespace assay
