// The windows in which a text goes through a model, by the protocol of a measure.
#pragma once

#include <cstdint>
#include <vector>

namespace assay {

// Tokens [begin, end) of a text, computed together, of which those from first_target on are scored.
struct Window {
  std::int64_t begin, end;
  std::int64_t first_target;  // the first token of the text that this window scores
};

// The protocol of the Transformers perplexity guide, as scorer.h describes it. `tokens` is 1 or more, and
// stride lies between 1 and context.
std::vector<Window> windows_of(std::int64_t tokens, std::int64_t context, std::int64_t stride);

}  // namespace assay
