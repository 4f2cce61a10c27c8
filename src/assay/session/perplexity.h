// Perplexity of a text file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
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
  std::int64_t texts = 1;             // that were scored, each on its own
  std::vector<std::int64_t> lengths;  // the scored tokens of each, in order
  std::int64_t words = 0, bytes = 0;  // by lm-eval's rules; 0 of token ids

  double log_likelihood() const { return -score.loss * static_cast<double>(score.tokens_scored); }
  // lm-eval's figures, of the log-likelihood of all texts together; empty of token ids.
  std::optional<double> word_perplexity() const;
  std::optional<double> byte_perplexity() const;
  std::optional<double> bits_per_byte() const;
};

// A text that is scored on its own. Its words and bytes may be another's, from which it was prepared.
struct CorpusText {
  std::string text;
  std::int64_t words = 0, bytes = 0;
};
CorpusText corpus_text(std::string text);
// The texts of a file of JSON objects, one a line: {"text"} or {"page"}, and where `assay corpus` prepared
// them the "words" and "bytes" of what it was made of. Throws Error naming file and line.
std::vector<CorpusText> read_documents(std::string_view content, const std::string& file);
// Its lines, without empty ones.
std::vector<CorpusText> read_sentences(std::string_view content);

// Tells of line ends that were changed as a text was read.
Warning line_ends_warning(const std::filesystem::path& file, const TextFile& read);

// A warning where the perplexity is no better than the vocabulary's size, which a model has that knows
// nothing: its tokenizer or its weights are wrong. Empty otherwise.
std::string uniform_warning(double perplexity, std::int64_t vocab);

// The text of a corpus. Throws Error for a missing or empty file and for malformed UTF-8 (with its byte
// offset, once its line ends are changed).
TextFile read_corpus(const std::filesystem::path& file, Newlines newlines);

// Tokenizes the whole text at once and scores it. The special tokens that the tokenizer puts before and after
// a text stand there once, and BOS as the options say (session/bos.h); the protocol names their ids, since a
// perplexity depends on them: "... bos=1". A file named .jsonl holds documents, each of which is scored on
// its own. Line ends are read as the loaded configuration says; a warning tells of those that were changed.
// Of a text file alone the options' max_tokens are scored, with "first=N" in the protocol where it has more:
// what lies behind is hashed, and stays out of memory. Throws Error for a missing or empty file and for
// malformed UTF-8 (with its byte offset), FieldError for max_tokens of documents.
CorpusScore score_file(const LoadedModel& loaded, const std::filesystem::path& file,
                       const ScoreOptions& options = {});

// A text on each line, scored on its own: the loss is that of all tokens together. Lines of which a protocol
// scores no token are left out. Throws Error where it scores none.
CorpusScore score_sentences(const LoadedModel& loaded, const std::filesystem::path& file,
                            const ScoreOptions& options = {});
CorpusScore score_texts(const LoadedModel& loaded, std::span<const CorpusText> texts, std::string sha256,
                        const ScoreOptions& options = {});

// The same for token ids; the hash is of their decimal form, joined by blanks.
CorpusScore score_ids(const LoadedModel& loaded, const std::vector<TokenId>& ids,
                      const ScoreOptions& options = {});

}  // namespace assay
