// What the tokenizer's files say, read and checked, before anything is built from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "assay/base/tokenizer_files.h"
#include "assay/text/added_tokens.h"
#include "assay/text/bpe.h"
#include "assay/text/decoder.h"
#include "assay/text/normalizer.h"
#include "assay/text/pre_tokenizer.h"
#include "assay/text/vocabulary.h"

namespace assay {

// What BPE is given.
enum class WordForm : std::uint8_t {
  characters,
  bytes,         // and the vocabulary is written in GPT-2's byte alphabet
  mapped_bytes,  // characters of that alphabet: steps after ByteLevel have seen them
};

enum class ModelKind : std::uint8_t { bpe, unigram, word_piece, word_level };

struct TokenizerSpec {
  std::string source;  // the files' names, without the folder
  ModelKind kind = ModelKind::bpe;
  Vocabulary vocabulary;         // the model's tokens, then the added ones
  std::size_t model_tokens = 0;  // how many are the model's
  std::vector<MergeRule> merges;
  std::vector<AddedToken> added;
  std::optional<TokenId> unknown;
  bool fuse_unknown = false;
  bool ignore_merges = false;
  bool byte_fallback = false;
  std::vector<double> scores;              // by id; Unigram alone has them
  std::string continuation = "##";         // what begins a token of WordPiece within a word
  std::string bpe_prefix, bpe_suffix;      // what BPE writes before a token within a word, and after its last
  std::size_t most_word_characters = 100;  // longer words are unknown to WordPiece
  bool splits_special = false;             // special tokens in a text are cut like any other
  Normalizer normalizer;
  WordForm words = WordForm::characters;
  PreTokenizer pre;
  DecodeRules decode;
  std::vector<TokenId> bos, eos;  // what the post-processor puts before and after a text
  std::optional<TokenId> end_of_text, beginning_of_text;

  // What the files say and the tokenizer does not do, or does otherwise: a clause for each.
  std::vector<std::string> warnings;

  // Adds the token to `added`, and to the vocabulary where the model has none of that text; of one that was
  // added before, the flags are now these. The id is the one that the `tokenizers` library gives, which takes
  // no notice of what a file says (`token.id`): a warning names a token whose file says another. Throws Error
  // naming `where`.
  void add(AddedToken token, const std::string& where);
  bool is_added(std::string_view content) const;

 private:
  std::unordered_map<TokenId, std::size_t> place_of_added_;
  std::size_t other_ids_ = 0;    // how many tokens have other ids than their files say
  TokenId next_added_ = 0;       // one more than the largest id added so far
  std::size_t added_bytes_ = 0;  // that their texts take
};

// The documents have `tokenizer`, or `vocabulary` and `merges`.
TokenizerSpec read_tokenizer(const TokenizerFiles& files);

}  // namespace assay
