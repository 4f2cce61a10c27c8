// The tokenizer as the rest of the program sees it: built once from its files, then only read.
#include "assay/text/tokenizer.h"

#include <utility>

#include "assay/base/error.h"
#include "assay/text/added_tokens.h"
#include "assay/text/bpe.h"
#include "assay/text/byte_alphabet.h"
#include "assay/text/pretokenize.h"
#include "assay/text/tokenizer_spec.h"

namespace assay {

namespace {

// The bytes that each token stands for, in the vocabulary's order.
std::vector<std::string> token_bytes(const TokenizerSpec& spec) {
  std::vector<std::string> bytes(spec.vocabulary.size());
  for (TokenId id = 0; id < spec.vocabulary.end_id(); ++id) {
    if (!spec.vocabulary.has(id)) continue;
    const std::string& text = spec.vocabulary.text(id);
    const std::size_t place = spec.vocabulary.place(id);
    // Tokens that are only added stand for their text, and so do the model's outside the alphabet.
    const auto mapped = place < spec.model_tokens ? from_byte_alphabet(text) : std::nullopt;
    bytes[place] = mapped.value_or(text);
  }
  return bytes;
}

Bpe make_bpe(TokenizerSpec& spec) {
  BpeRules rules;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char bytes[] = {static_cast<char>(static_cast<unsigned char>(byte))};
    const auto id = spec.vocabulary.find(to_byte_alphabet({bytes, 1}));
    const bool is_model_token = id && spec.vocabulary.place(*id) < spec.model_tokens;
    rules.byte_tokens[byte] = is_model_token ? *id : -1;
  }
  rules.merges = std::move(spec.merges);
  rules.unknown = spec.unknown;
  rules.fuse_unknown = spec.fuse_unknown;
  for (TokenId id = 0; spec.ignore_merges && id < spec.vocabulary.end_id(); ++id) {
    if (!spec.vocabulary.has(id) || spec.vocabulary.place(id) >= spec.model_tokens) continue;
    if (auto bytes = from_byte_alphabet(spec.vocabulary.text(id)))
      rules.whole_words.emplace(std::move(*bytes), id);
  }
  return Bpe(std::move(rules));
}

}  // namespace

struct Tokenizer::Data {
  explicit Data(TokenizerSpec spec)
      : source(std::move(spec.source)),
        added(spec.added),
        bytes(token_bytes(spec)),
        is_special(spec.vocabulary.size()),
        add_prefix_space(spec.add_prefix_space),
        use_regex(spec.use_regex),
        end_of_text(spec.end_of_text),
        bpe(make_bpe(spec)),
        vocabulary(std::move(spec.vocabulary)) {
    for (const AddedToken& token : spec.added) is_special[vocabulary.place(token.id)] = token.special;
  }

  // Throws Error unless the vocabulary has the id.
  std::size_t place(TokenId id) const {
    if (id < 0 || id >= vocabulary.end_id())
      throw Error("token id {} is outside the vocabulary: expected 0 to {}", id, vocabulary.end_id() - 1);
    if (!vocabulary.has(id)) throw Error("token id {} stands for no token: the vocabulary skips it", id);
    return vocabulary.place(id);
  }

  void encode_text(std::string_view text, WordCache& cache, std::vector<TokenId>& out) const {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = use_regex ? word_end(text, begin) : text.size();
      const std::string_view word = text.substr(begin, end - begin);
      if (!cache.append(word, out)) {
        bpe.encode(word, out);
        cache.keep(out);
      }
      begin = end;
    }
  }

  std::string source;
  AddedTokens added;
  std::vector<std::string> bytes;  // by place in the vocabulary
  std::vector<bool> is_special;    // likewise
  bool add_prefix_space, use_regex;
  std::optional<TokenId> end_of_text;
  Bpe bpe;
  Vocabulary vocabulary;
};

Tokenizer::Tokenizer(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  return Tokenizer(std::make_unique<const Data>(read_tokenizer_files(folder)));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  check_utf8(text, "text");
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 1);
  WordCache cache(text.size());
  for (const TextPiece& piece : data_->added.split(text)) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      continue;
    }
    const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
    if (!data_->add_prefix_space || part.starts_with(' ')) {
      data_->encode_text(part, cache, ids);
      continue;
    }
    // The prefix changes the first words only, but the copy is gone before the next piece and needs a cache
    // that goes with it.
    const std::string prefixed = " " + std::string(part);
    WordCache own_cache(prefixed.size());
    data_->encode_text(prefixed, own_cache, ids);
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  for (const TokenId id : ids) {
    const std::size_t place = data_->place(id);
    if (!skip_special || !data_->is_special[place]) text += data_->bytes[place];
  }
  return text;
}

std::int64_t Tokenizer::vocab_size() const {
  return data_->vocabulary.end_id();
}

bool Tokenizer::is_special(TokenId id) const {
  return data_->vocabulary.has(id) && data_->is_special[data_->vocabulary.place(id)];
}

std::string Tokenizer::token_text(TokenId id) const {
  data_->place(id);
  return data_->vocabulary.text(id);
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  return data_->vocabulary.find(token);
}

std::optional<TokenId> Tokenizer::end_of_text() const {
  return data_->end_of_text;
}

std::string_view Tokenizer::source() const {
  return data_->source;
}

}  // namespace assay
