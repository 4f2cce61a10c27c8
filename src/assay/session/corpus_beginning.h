// The first tokens of a text file of any size: nothing that lies behind them stays in memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/base/text_file.h"
#include "assay/base/token_id.h"

namespace assay {

class Tokenizer;

struct CorpusBeginning {
  TextFile read;       // its first bytes, or the whole text where that is no longer
  std::string sha256;  // the hash of the whole text, line ends as they are read
  bool is_whole = false;
};
// Reads the file piece by piece; all of it is checked and hashed. `bytes` counts what is kept, which ends
// between two characters, at a blank where there is one. Throws Error as read_corpus(), but for its size.
CorpusBeginning read_corpus_beginning(const std::filesystem::path& file, Newlines newlines,
                                      std::size_t bytes);
// As much of the text as has more than `tokens` tokens, so that the first of them are those of the whole.
CorpusBeginning read_corpus_beginning(const std::filesystem::path& file, Newlines newlines,
                                      const Tokenizer& tokenizer, std::int64_t tokens);
// The first `tokens` ids of such a text, special tokens included.
std::vector<TokenId> first_ids(const Tokenizer& tokenizer, const std::string& text, std::int64_t tokens);

}  // namespace assay
