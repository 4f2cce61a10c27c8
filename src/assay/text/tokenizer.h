// Text to token ids and back, with the tokenizer that lies in the model's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/token_id.h"

namespace assay {

// Byte-level BPE as the Hugging Face `tokenizers` library does it (Sennrich et al. 2016; Radford et al.
// 2019). Immutable after loading; safe to share between threads.
class Tokenizer {
 public:
  // Reads `tokenizer.json`, else `vocab.json` + `merges.txt`, from a model folder (special tokens also from
  // tokenizer_config.json and special_tokens_map.json where they say more). Throws Error naming the file and
  // what was found: no tokenizer, an unsupported model, pre-tokenizer or normalizer, ids that repeat or are
  // absurd, merges of unknown tokens.
  static Tokenizer load(const std::filesystem::path& folder);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids of `text`; added and special tokens found in it become their one id. No token is added around it.
  // Throws Error with the byte offset where the text is not valid UTF-8. Time is linear in the text
  // (n log n within one word).
  std::vector<TokenId> encode(std::string_view text) const;

  // The bytes of the ids, joined. Special tokens are written out unless they are to be skipped. Throws Error
  // for an id outside the vocabulary.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  std::int64_t vocab_size() const;  // one more than the largest id
  bool is_special(TokenId id) const;
  // The text of one token as the vocabulary file writes it, for listings.
  std::string token_text(TokenId id) const;
  std::optional<TokenId> id_of(std::string_view token) const;
  // From tokenizer_config.json / special_tokens_map.json, else `<|endoftext|>` where the vocabulary has it.
  std::optional<TokenId> end_of_text() const;
  std::string_view source() const;  // "tokenizer.json" or "vocab.json + merges.txt"

 private:
  struct Data;
  explicit Tokenizer(std::unique_ptr<const Data> data);
  std::unique_ptr<const Data> data_;
};

// Gives the text of tokens as they come, holding back the bytes of a character that is not complete yet.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);
  // The characters that this token completes; may be empty.
  std::string push(TokenId id);
  // What is left at the end; bytes that never became a character are replaced by U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;
};

// Throws Error ("<where>: not valid UTF-8 at byte N") unless `text` is well-formed UTF-8 (Unicode 15, table
// 3-7).
void check_utf8(std::string_view text, std::string_view where);
// The same text with each malformed sequence replaced by U+FFFD, as decoders do.
std::string replace_malformed_utf8(std::string_view text);

}  // namespace assay
