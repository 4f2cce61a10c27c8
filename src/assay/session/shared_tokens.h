// Whether texts have a passage in common, as tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_set>

#include "assay/base/token_id.h"

namespace assay {

// The passages of a text, which must outlive it. A passage of 24 tokens is longer than what prompts of a data
// set begin with, and than phrases that texts share by chance (GPT-3 took 13 words, Brown et al. 2020).
class SharedTokens {
 public:
  static constexpr std::size_t kPassage = 24;

  explicit SharedTokens(std::span<const TokenId> text);
  // Whether 24 tokens in a row stand in the text, too.
  bool has_part_of(std::span<const TokenId> ids) const;

 private:
  std::unordered_set<std::string_view> passages_;  // the bytes of their ids
};

}  // namespace assay
