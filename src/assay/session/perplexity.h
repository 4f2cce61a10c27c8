// Perplexity of a text file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/base/text_file.h"
#include "assay/generate/scorer.h"
#include "assay/session/load.h"

namespace assay {

struct CorpusScore {
  Score score;
  std::string corpus_sha256;  // the hash of the text that was scored, its line ends as they were read
  double seconds = 0;         // that the forward passes took; reading and tokenizing excluded
  std::vector<Warning> warnings;
};

// Tells of line ends that were changed as a text was read.
Warning line_ends_warning(const std::filesystem::path& file, const TextFile& read);

// A warning where the perplexity is no better than the vocabulary's size, which a model has that knows
// nothing: its tokenizer or its weights are wrong. Empty otherwise.
std::string uniform_warning(double perplexity, std::int64_t vocab);

// The text of a corpus. Throws Error for a missing or empty file and for malformed UTF-8 (with its byte
// offset, once its line ends are changed).
TextFile read_corpus(const std::filesystem::path& file, Newlines newlines);

// Tokenizes the whole text at once and scores it. The special tokens that the tokenizer puts before and after
// a text stand there once; the protocol names their ids, since a perplexity depends on them: "... bos=1".
// Line ends are read as the loaded configuration says; a warning tells of those that were changed. Throws
// Error for a missing or empty file and for malformed UTF-8 (with its byte offset).
CorpusScore score_file(const LoadedModel& loaded, const std::filesystem::path& file,
                       const ScoreOptions& options = {});

// The same for token ids; the hash is of their decimal form, joined by blanks.
CorpusScore score_ids(const LoadedModel& loaded, const std::vector<TokenId>& ids,
                      const ScoreOptions& options = {});

}  // namespace assay
