#include "assay/text/word_level.h"

#include "assay/base/error.h"
#include "assay/text/vocabulary.h"

namespace assay {

void WordLevel::encode(std::string_view word, std::vector<TokenId>& out) const {
  const std::optional<TokenId> id = words_.find(word);
  if (!id && !unknown_)
    throw Error("text: the word {} is not in the vocabulary, and the tokenizer has no unknown token",
                in_quotes(word));
  out.push_back(id ? *id : *unknown_);
}

}  // namespace assay
