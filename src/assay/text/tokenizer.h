// Text to token ids and back, with the tokenizer that belongs to the model.
#pragma once

#include <cstddef>
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

struct TokenizerFiles;  // base/tokenizer_files.h

// What decoding remembers from one token to the next.
struct DecodeState {
  std::string run;                   // bytes of byte tokens that no other token has followed yet
  std::string held;                  // text that goes where no other follows
  std::string if_not_last, if_last;  // what ends the text of the last token, where another follows it or none
  bool has_begun = false, has_emitted = false;
  std::size_t stripped = 0;  // characters removed from the start of the text
};

// What the Hugging Face `tokenizers` library does: byte-pair encoding (Sennrich et al. 2016) of bytes
// (Radford et al. 2019; GPT-2, Llama 3) or of characters with bytes for rare ones, as SentencePiece does
// (Kudo and Richardson 2018; Llama 2); Unigram (T5) and WordPiece (BERT). Immutable after loading; safe to
// share between threads.
class Tokenizer {
 public:
  // Reads `tokenizer.json`, else `vocab.json` + `merges.txt`, else SentencePiece's `tokenizer.model`, from a
  // model folder, and what tokenizer_config.json, added_tokens.json and special_tokens_map.json add to it.
  // Throws Error naming the file and what was found: no tokenizer; an unsupported model, normalizer,
  // pre-tokenizer, post-processor or decoder; ids that repeat or are absurd; merges of unknown tokens; tokens
  // that are too long or too many.
  static Tokenizer load(const std::filesystem::path& folder);
  // The same of documents that were read before, or that another file's content was made into.
  static Tokenizer from_files(TokenizerFiles files);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids of `text`; added and special tokens found in it become their one id. `add_special_tokens` puts
  // bos_tokens() before it and eos_tokens() after it, as Transformers does by default. Throws Error with the
  // byte offset where the text is not valid UTF-8. Time is linear in the text (n log n within one word).
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens = true) const;

  // The same of the text alone: a special token that is spelled in it is text, as llama.cpp's tokenizer has
  // it with parse_special = false; added tokens that are not special become their one id. No special token
  // comes out, but the unknown one where it stands for characters that the vocabulary does not have.
  std::vector<TokenId> encode_as_text(std::string_view text) const;

  // The special tokens that the file's post-processor puts before and after each text (BOS, EOS); empty where
  // it adds none. tokenizer_config.json has no say in this, as in Transformers 5.
  std::span<const TokenId> bos_tokens() const;
  std::span<const TokenId> eos_tokens() const;

  // The text of the ids. Special tokens are written out unless they are to be skipped. A byte-level tokenizer
  // gives the bytes of its tokens as they are. One with byte fallback gives valid UTF-8: a run of byte tokens
  // that is not valid becomes a U+FFFD for each byte. The blank that encoding puts before a text is removed
  // where the file's decoder does so. An id without a token is no text: a model may have more rows than there
  // are tokens.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  // What `ids` add to the text of `before`: a blank at their start stays, and a character that `before` has
  // begun is whole. Valid UTF-8; the pieces of a StreamDecoder that is given the same join to it.
  std::string decode_after(std::span<const TokenId> before, std::span<const TokenId> ids,
                           bool skip_special = false) const;

  std::int64_t vocab_size() const;  // one more than the largest id, which may exceed the number of tokens
  bool is_special(TokenId id) const;
  // The text of one token as the vocabulary file writes it, for listings; empty where there is no such token.
  std::string token_text(TokenId id) const;
  std::optional<TokenId> id_of(std::string_view token) const;
  // From tokenizer_config.json / special_tokens_map.json, else `<|endoftext|>` where the vocabulary has it.
  std::optional<TokenId> end_of_text() const;
  // `bos_token` of the same files, whether or not the tokenizer puts it before a text.
  std::optional<TokenId> beginning_of_text() const;
  std::string_view source() const;  // "tokenizer.json", "vocab.json + merges.txt", "tokenizer.model"
  // What of its files the tokenizer does otherwise than they say: a clause for each, which names file and
  // key.
  std::span<const std::string> warnings() const;

 private:
  friend class StreamDecoder;
  struct Data;
  explicit Tokenizer(std::unique_ptr<const Data> data);
  void encode_pieces(std::string_view text, bool finds_special, std::vector<TokenId>& ids) const;
  void decode_next(TokenId id, bool skip_special, DecodeState& state, std::string& out) const;
  void decode_end(DecodeState& state, std::string& out) const;
  std::unique_ptr<const Data> data_;
};

// Gives the text of tokens as they come, holding back the bytes of a character that is not complete yet, and
// runs of byte tokens until another token ends them (their last byte decides what becomes of the first). The
// pieces join to what decode() gives, where that is valid UTF-8.
class StreamDecoder {
 public:
  // The text begins after that of `before`, the prompt of a generation.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false,
                         std::span<const TokenId> before = {});
  // The characters that this token completes; may be empty.
  std::string push(TokenId id);
  // What is left at the end; bytes that never became a character are replaced by U+FFFD.
  std::string finish();

 private:
  void leave_out_shown(std::string& text);
  const Tokenizer* tokenizer_;
  bool skip_special_;
  DecodeState state_;
  std::string held_;
  std::string shown_;  // what of the coming text the text of the tokens before holds already
};

// Throws Error ("<where>: not valid UTF-8 at byte N") unless `text` is well-formed UTF-8 (Unicode 15, table
// 3-7).
void check_utf8(std::string_view text, std::string_view where);
// The same text with each malformed sequence replaced by U+FFFD, as decoders do.
std::string replace_malformed_utf8(std::string_view text);

}  // namespace assay
