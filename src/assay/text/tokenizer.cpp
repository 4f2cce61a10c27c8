// The tokenizer as the rest of the program sees it: built once from its files, then only read.
#include "assay/text/tokenizer.h"

#include <unordered_set>
#include <utility>
#include <variant>

#include "assay/base/error.h"
#include "assay/text/added_tokens.h"
#include "assay/text/bpe.h"
#include "assay/text/byte_alphabet.h"
#include "assay/text/decoder.h"
#include "assay/text/normalizer.h"
#include "assay/text/pre_tokenizer.h"
#include "assay/text/tokenizer_spec.h"
#include "assay/text/unigram.h"
#include "assay/text/utf8.h"
#include "assay/text/word_level.h"
#include "assay/text/word_piece.h"

namespace assay {

namespace {

constexpr std::string_view kBlankMark = "\xE2\x96\x81";  // U+2581, a blank as SentencePiece writes it

// The model's token of that text; -1 where it has none. Added tokens do not count.
TokenId model_token(const TokenizerSpec& spec, std::string_view text) {
  const auto id = spec.vocabulary.find(text);
  return id && spec.vocabulary.place(*id) < spec.model_tokens ? *id : -1;
}

// Whether a word can be cut before each first blank mark without changing its ids: no merge joins a mark to
// anything before it but marks, and the mark is always a symbol of its own at first. Cutting is what makes
// texts fast that are one word: its parts are short, and repeat.
bool can_cut_at_marks(const TokenizerSpec& spec) {
  if (spec.kind != ModelKind::bpe) return false;
  if (spec.words != WordForm::characters || spec.ignore_merges || model_token(spec, kBlankMark) < 0)
    return false;
  if (!spec.bpe_prefix.empty() || !spec.bpe_suffix.empty()) return false;
  if (spec.unknown && spec.vocabulary.text(*spec.unknown).find(kBlankMark) != std::string::npos) return false;
  for (const MergeRule& rule : spec.merges) {
    std::string_view text = spec.vocabulary.text(rule.merged);
    while (text.starts_with(kBlankMark)) text.remove_prefix(kBlankMark.size());
    if (text.find(kBlankMark) != text.npos) return false;
  }
  return true;
}

// What the decoder is given for each token, in the vocabulary's order. Added tokens that are looked for in
// normalized text are given as they are found there, as by the `tokenizers` library.
std::vector<std::string> texts_to_decode(const TokenizerSpec& spec, const Normalizer& normalizer,
                                         RegexBudget& budget) {
  std::vector<std::string> texts(spec.vocabulary.size());
  for (TokenId id = 0; id < spec.vocabulary.end_id(); ++id)
    if (spec.vocabulary.has(id)) texts[spec.vocabulary.place(id)] = spec.vocabulary.text(id);
  for (const AddedToken& token : spec.added)
    if (token.normalized) {
      std::string& text = texts[spec.vocabulary.place(token.id)];
      text = normalizer.normalize(token.content, budget);
      const bool is_mapped = spec.vocabulary.place(token.id) >= spec.model_tokens && normalizer.maps_bytes();
      if (auto bytes = is_mapped ? from_byte_alphabet(text) : std::nullopt) text = *bytes;
    }
  return texts;
}

// The tokens <0xNN> of the bytes, where they stand for characters without a token.
std::array<TokenId, 256> fallback_tokens(const TokenizerSpec& spec) {
  std::array<TokenId, 256> tokens{};
  for (unsigned byte = 0; byte < 256; ++byte)
    tokens[byte] = spec.byte_fallback ? model_token(spec, fmt::format("<0x{:02X}>", byte)) : -1;
  return tokens;
}

void set_byte_symbols(const TokenizerSpec& spec, BpeRules& rules) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char bytes[] = {static_cast<char>(static_cast<unsigned char>(byte))};
    rules.byte_tokens[byte] = model_token(spec, to_byte_alphabet({bytes, 1}));
  }
}

// Takes `text` for one character of a word, at the place that `prefix` and `suffix` say it has there.
void set_character(std::string_view text, std::string_view prefix, std::string_view suffix, TokenId id,
                   BpeRules& rules) {
  if (text.size() <= prefix.size() + suffix.size() || !text.starts_with(prefix) || !text.ends_with(suffix))
    return;
  text = text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
  std::size_t length = 0;
  const char32_t character = read_valid_utf8(text, 0, length);
  if (length == text.size())
    rules.characters.set(place_in_word(prefix.empty(), !suffix.empty()), character, id);
}

void set_character_symbols(const TokenizerSpec& spec, BpeRules& rules) {
  rules.symbols = BpeSymbols::characters;
  rules.byte_tokens = fallback_tokens(spec);
  rules.prefix = spec.bpe_prefix;
  rules.suffix = spec.bpe_suffix;
  for (TokenId id = 0; id < spec.vocabulary.end_id(); ++id) {
    if (!spec.vocabulary.has(id) || spec.vocabulary.place(id) >= spec.model_tokens) continue;
    const std::string& text = spec.vocabulary.text(id);
    set_character(text, "", "", id, rules);
    if (!rules.prefix.empty()) set_character(text, rules.prefix, "", id, rules);
    if (!rules.suffix.empty()) set_character(text, "", rules.suffix, id, rules);
    if (!rules.prefix.empty() && !rules.suffix.empty())
      set_character(text, rules.prefix, rules.suffix, id, rules);
  }
}

Bpe make_bpe(TokenizerSpec& spec) {
  BpeRules rules;
  if (spec.words == WordForm::bytes) {
    set_byte_symbols(spec, rules);
  } else {
    set_character_symbols(spec, rules);
  }
  rules.merges = std::move(spec.merges);
  rules.unknown = spec.unknown;
  rules.fuse_unknown = spec.fuse_unknown;
  for (TokenId id = 0; spec.ignore_merges && id < spec.vocabulary.end_id(); ++id) {
    if (!spec.vocabulary.has(id) || spec.vocabulary.place(id) >= spec.model_tokens) continue;
    const std::string& text = spec.vocabulary.text(id);
    if (auto word = spec.words == WordForm::bytes ? from_byte_alphabet(text) : std::optional(text))
      rules.whole_words.emplace(std::move(*word), id);
  }
  return Bpe(std::move(rules));
}

using Pieces = std::vector<std::pair<std::string_view, TokenId>>;

// The model's tokens that begin with `prefix`, without it.
Pieces pieces_of(const TokenizerSpec& spec, std::string_view prefix) {
  Pieces pieces;
  for (TokenId id = 0; id < spec.vocabulary.end_id(); ++id) {
    if (!spec.vocabulary.has(id) || spec.vocabulary.place(id) >= spec.model_tokens) continue;
    std::string_view text = spec.vocabulary.text(id);
    if (!text.starts_with(prefix)) continue;
    text.remove_prefix(prefix.size());
    pieces.emplace_back(text, id);
  }
  return pieces;
}

using Model = std::variant<Bpe, Unigram, WordPiece, WordLevel>;

Model make_model(TokenizerSpec& spec) {
  switch (spec.kind) {
    case ModelKind::bpe:
      break;
    case ModelKind::unigram:
      return Unigram({.pieces = PieceTrie(pieces_of(spec, "")),
                      .scores = std::move(spec.scores),
                      .unknown = spec.unknown,
                      .byte_tokens = fallback_tokens(spec)});
    case ModelKind::word_piece:
      return WordPiece({.starts = PieceTrie(pieces_of(spec, "")),
                        .continuations = PieceTrie(pieces_of(spec, spec.continuation)),
                        .unknown = *spec.unknown,
                        .most_characters = spec.most_word_characters});
    case ModelKind::word_level:
      return WordLevel(PieceTrie(pieces_of(spec, "")), spec.unknown);
  }
  return make_bpe(spec);
}

std::vector<AddedToken> without_special(std::vector<AddedToken> tokens) {
  std::erase_if(tokens, [](const AddedToken& token) { return token.special; });
  return tokens;
}

// One budget for all that loading does with regular expressions.
constexpr double kLoadSeconds = 2;

}  // namespace

struct Tokenizer::Data {
  explicit Data(TokenizerSpec spec) : Data(std::move(spec), RegexBudget(0, kLoadSeconds)) {}
  Data(TokenizerSpec spec, RegexBudget budget)
      : source(std::move(spec.source)),
        warnings(std::move(spec.warnings)),
        normalizer(std::move(spec.normalizer)),
        added(spec.added, normalizer, spec.splits_special, budget),
        added_but_special(without_special(spec.added), normalizer, false, budget),
        pre(std::move(spec.pre)),
        cuts_at_marks(can_cut_at_marks(spec)),
        decoder(std::move(spec.decode), texts_to_decode(spec, normalizer, budget), spec.model_tokens),
        is_special(spec.vocabulary.size()),
        is_skipped(spec.vocabulary.size()),
        bos(std::move(spec.bos)),
        eos(std::move(spec.eos)),
        end_of_text(spec.end_of_text),
        beginning_of_text(spec.beginning_of_text),
        model(make_model(spec)),
        vocabulary(std::move(spec.vocabulary)) {
    for (const AddedToken& token : spec.added) {
      is_special[vocabulary.place(token.id)] = token.special;
      if (token.special) special_ids.insert(token.id);
      // The library knows a special token by its text, and not where normalization makes it another.
      is_skipped[vocabulary.place(token.id)] =
          token.special &&
          (!token.normalized || normalizer.normalize(token.content, budget) == token.content);
    }
  }

  // Unigram alone has special tokens among what it may cut a text into.
  void encode_part(std::string_view part, bool finds_special, std::vector<TokenId>& out) const {
    if (const auto* unigram = std::get_if<Unigram>(&model); unigram != nullptr && !finds_special)
      return unigram->encode(part, out, special_ids);
    std::visit([&](const auto& any) { any.encode(part, out); }, model);
  }

  // Appends the ids of one word of the pre-tokenizer.
  void encode_word(std::string_view word, bool finds_special, WordCache& cache,
                   std::vector<TokenId>& out) const {
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t end = cuts_at_marks ? marked_word_end(kBlankMark, true, word, begin) : word.size();
      const std::string_view part = word.substr(begin, end - begin);
      if (!cache.append(part, out)) {
        encode_part(part, finds_special, out);
        cache.keep(out);
      }
      begin = end;
    }
  }

  std::string source;
  std::vector<std::string> warnings;
  Normalizer normalizer;
  AddedTokens added, added_but_special;
  PreTokenizer pre;
  bool cuts_at_marks;
  Decoder decoder;
  std::vector<bool> is_special,
      is_skipped;  // by place in the vocabulary; the second where decoding skips them
  std::unordered_set<TokenId> special_ids;
  std::vector<TokenId> bos, eos;
  std::optional<TokenId> end_of_text, beginning_of_text;
  Model model;
  Vocabulary vocabulary;
};

Tokenizer::Tokenizer(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  return from_files(read_tokenizer_files(folder));
}

Tokenizer Tokenizer::from_files(TokenizerFiles files) {
  TokenizerSpec spec = read_tokenizer(files);
  files = {};  // no longer needed: of a large vocabulary they take more than what is built of it
  return Tokenizer(std::make_unique<const Data>(std::move(spec)));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  check_utf8(text, "text");
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 1);
  if (add_special_tokens) ids.insert(ids.end(), data_->bos.begin(), data_->bos.end());
  encode_pieces(text, true, ids);
  if (add_special_tokens) ids.insert(ids.end(), data_->eos.begin(), data_->eos.end());
  return ids;
}

std::vector<TokenId> Tokenizer::encode_as_text(std::string_view text) const {
  check_utf8(text, "text");
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 1);
  encode_pieces(text, false, ids);
  return ids;
}

void Tokenizer::encode_pieces(std::string_view text, bool finds_special, std::vector<TokenId>& ids) const {
  const AddedTokens& added = finds_special ? data_->added : data_->added_but_special;
  MadeTexts made(text.size());
  WordCache cache(text.size());
  RegexBudget budget(text.size());
  const PreTokenizer::OnWord on_word = [&](std::string_view word) {
    data_->encode_word(word, finds_special, cache, ids);
  };
  for (const TextPiece& piece : added.split(text)) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      continue;
    }
    std::string_view between = text.substr(piece.begin, piece.end - piece.begin);
    if (!data_->normalizer.is_empty()) between = made.keep(data_->normalizer.normalize(between, budget));
    for (const TextPiece& part : added.split_normalized(between)) {
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else {
        const bool is_first = piece.begin == 0 && part.begin == 0;
        data_->pre.cut(between.substr(part.begin, part.end - part.begin), is_first, made, budget, on_word);
      }
    }
  }
}

std::span<const TokenId> Tokenizer::bos_tokens() const {
  return data_->bos;
}

std::span<const TokenId> Tokenizer::eos_tokens() const {
  return data_->eos;
}

void Tokenizer::decode_next(TokenId id, bool skip_special, DecodeState& state, std::string& out) const {
  if (!data_->vocabulary.has(id)) return;
  const std::size_t place = data_->vocabulary.place(id);
  if (!skip_special || !data_->is_skipped[place]) data_->decoder.push(place, state, out);
}

void Tokenizer::decode_end(DecodeState& state, std::string& out) const {
  data_->decoder.finish(state, out);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  DecodeState state;
  for (const TokenId id : ids) decode_next(id, skip_special, state, text);
  decode_end(state, text);
  return text;
}

std::int64_t Tokenizer::vocab_size() const {
  return data_->vocabulary.end_id();
}

bool Tokenizer::is_special(TokenId id) const {
  return data_->vocabulary.has(id) && data_->is_special[data_->vocabulary.place(id)];
}

std::string Tokenizer::token_text(TokenId id) const {
  return data_->vocabulary.has(id) ? data_->vocabulary.text(id) : std::string();
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  return data_->vocabulary.find(token);
}

std::optional<TokenId> Tokenizer::end_of_text() const {
  return data_->end_of_text;
}

std::optional<TokenId> Tokenizer::beginning_of_text() const {
  return data_->beginning_of_text;
}

std::string_view Tokenizer::source() const {
  return data_->source;
}

std::span<const std::string> Tokenizer::warnings() const {
  return data_->warnings;
}

}  // namespace assay
