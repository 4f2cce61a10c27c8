// Reads the model and the added tokens; tokenizer_components.cpp reads what is around them.
#include "assay/text/tokenizer_json.h"

#include <utility>

#include "assay/base/error.h"
#include "assay/text/tokenizer_components.h"

namespace assay {

namespace {

// With dropout the library gives other ids each time.
void check_model_options(const JsonView& model) {
  if (model.has("dropout") && model.number("dropout") != 0)
    throw Error("{}: unsupported dropout {}: expected none", model.where(), model.number("dropout"));
}

// They stand before each character of a word but its first, and after its last.
void read_affixes(const JsonView& model, TokenizerSpec& spec) {
  spec.bpe_prefix = model.text_or("continuing_subword_prefix", "");
  spec.bpe_suffix = model.text_or("end_of_word_suffix", "");
  check_length(spec.bpe_prefix, model.where() + ": continuing_subword_prefix");
  check_length(spec.bpe_suffix, model.where() + ": end_of_word_suffix");
}

void read_unknown(const JsonView& model, TokenizerSpec& spec) {
  const std::string text = model.text_or("unk_token", "");
  if (text.empty()) return;
  spec.unknown = spec.vocabulary.find(text);
  if (!spec.unknown) throw Error("{}: unk_token {} is not in the vocabulary", model.where(), in_quotes(text));
}

void read_bpe(const JsonView& model, TokenizerSpec& spec) {
  check_model_options(model);
  spec.ignore_merges = model.boolean_or("ignore_merges", false);
  spec.fuse_unknown = model.boolean_or("fuse_unk", false);
  spec.byte_fallback = model.boolean_or("byte_fallback", false);
  if (spec.byte_fallback && spec.words != WordForm::characters)
    throw Error("{}: unsupported byte_fallback: expected false with a ByteLevel pre_tokenizer",
                model.where());
  read_vocabulary(model.object("vocab").raw(), spec.vocabulary, model.where() + ": vocab");
  read_unknown(model, spec);
  const Json& merges = array_at(model, "merges");
  spec.merges.reserve(merges.size());
  const std::string where = model.where() + ": merges: entry";
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    const bool is_pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!is_pair && !merge.is_string())
      throw Error("{} {}: expected a text 'left right' or a pair of texts, found {}", where, i, shown(merge));
    spec.merges.push_back(
        is_pair
            ? merge_rule(spec.vocabulary, merge[0].get_ref<const std::string&>(),
                         merge[1].get_ref<const std::string&>(), where, i, spec.bpe_prefix)
            : merge_rule(spec.vocabulary, merge.get_ref<const std::string&>(), where, i, spec.bpe_prefix));
  }
}

void read_unigram(const JsonView& model, TokenizerSpec& spec) {
  spec.byte_fallback = model.boolean_or("byte_fallback", false);
  const std::string where = model.where() + ": vocab: entry";
  for (const Json& piece : array_at(model, "vocab")) {
    const auto id = static_cast<std::int64_t>(spec.scores.size());
    const bool is_pair =
        piece.is_array() && piece.size() == 2 && piece[0].is_string() && piece[1].is_number();
    if (!is_pair) throw Error("{} {}: expected a piece and its score, found {}", where, id, shown(piece));
    spec.vocabulary.add(piece[0].get_ref<const std::string&>(), id, model.where() + ": vocab");
    spec.scores.push_back(piece[1].get<double>());
  }
  if (spec.scores.empty()) throw Error("{}: vocab: expected pieces, found none", model.where());
  if (!model.has("unk_id")) return;
  const auto last = static_cast<std::int64_t>(spec.scores.size()) - 1;
  spec.unknown = static_cast<TokenId>(model.integer("unk_id", 0, last));
}

void read_word_piece(const JsonView& model, TokenizerSpec& spec) {
  spec.continuation = model.text_or("continuing_subword_prefix", "##");
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  spec.most_word_characters =
      static_cast<std::size_t>(model.integer_or("max_input_chars_per_word", 100, 0, kMost));
  read_vocabulary(model.object("vocab").raw(), spec.vocabulary, model.where() + ": vocab");
  read_unknown(model, spec);
  if (!spec.unknown)
    throw Error("{}: expected an unk_token, which words without tokens become, found none", model.where());
}

void read_word_level(const JsonView& model, TokenizerSpec& spec) {
  read_vocabulary(model.object("vocab").raw(), spec.vocabulary, model.where() + ": vocab");
  // Without it the library refuses texts with unknown words, and no others.
  spec.unknown = spec.vocabulary.find(model.text_or("unk_token", "<unk>"));
}

// Files of older versions do not name it.
ModelKind kind_of(const JsonView& model) {
  const bool is_list = model.has("vocab") && model.raw()["vocab"].is_array();
  const std::string type = model.text_or("type", is_list                                 ? "Unigram"
                                                 : model.has("max_input_chars_per_word") ? "WordPiece"
                                                 : model.has("merges")                   ? "BPE"
                                                                                         : "WordLevel");
  if (type == "BPE") return ModelKind::bpe;
  if (type == "Unigram") return ModelKind::unigram;
  if (type == "WordPiece") return ModelKind::word_piece;
  if (type == "WordLevel") return ModelKind::word_level;
  throw Error("{}: type: {} is not supported: expected BPE, Unigram, WordPiece or WordLevel", model.where(),
              short_text(type));
}

void read_model(const JsonView& model, TokenizerSpec& spec) {
  switch (spec.kind) {
    case ModelKind::bpe:
      return read_bpe(model, spec);
    case ModelKind::unigram:
      return read_unigram(model, spec);
    case ModelKind::word_piece:
      return read_word_piece(model, spec);
    case ModelKind::word_level:
      return read_word_level(model, spec);
  }
}

bool flag(const JsonView& view, std::string_view key, bool strict) {
  if (strict && !view.has(key)) throw Error("{}: the key '{}' is missing", view.where(), key);
  return view.boolean_or(key, false);
}

void read_added_tokens(const JsonView& view, TokenizerSpec& spec) {
  if (!view.has("added_tokens")) return;
  std::size_t entry = 0;
  for (const Json& token : array_at(view, "added_tokens")) {
    const std::string token_where = fmt::format("{}: added_tokens: entry {}", view.where(), entry++);
    if (!token.is_object()) throw Error("{}: expected an object, found {}", token_where, shown(token));
    const JsonView token_view(token, token_where);
    spec.add(read_added_token(token_view, token_view.integer("id", 0, Vocabulary::kMaxId), true),
             token_where);
  }
}

}  // namespace

void read_vocabulary(const Json& tokens, Vocabulary& vocabulary, const std::string& where) {
  for (const auto& [text, id] : tokens.items()) {
    if (!id.is_number_integer())
      throw Error("{}: token {}: expected an id, found {}", where, in_quotes(text), shown(id));
    // Beyond 2^63 an unsigned number would turn negative and still be refused, but be shown as what it is
    // not.
    if (id.is_number_unsigned() && id.get<std::uint64_t>() > std::uint64_t{Vocabulary::kMaxId})
      throw Error("{}: token {}: expected an id from 0 to {}, found {}", where, in_quotes(text),
                  Vocabulary::kMaxId, id.get<std::uint64_t>());
    vocabulary.add(text, id.get<std::int64_t>(), where);
  }
  if (vocabulary.size() == 0) throw Error("{}: expected tokens, found an empty vocabulary", where);
}

MergeRule merge_rule(const Vocabulary& vocabulary, std::string_view left, std::string_view right,
                     std::string_view where, std::size_t number, std::string_view prefix) {
  const auto id_of = [&](std::string_view text) {
    const auto id = vocabulary.find(text);
    if (!id) throw Error("{} {}: token {} is not in the vocabulary", where, number, in_quotes(text));
    return *id;
  };
  const TokenId left_id = id_of(left), right_id = id_of(right);
  if (!right.starts_with(prefix))
    throw Error("{} {}: expected a second token that begins with continuing_subword_prefix {}, found {}",
                where, number, in_quotes(prefix), in_quotes(right));
  return {left_id, right_id, id_of(std::string(left) + std::string(right.substr(prefix.size())))};
}

MergeRule merge_rule(const Vocabulary& vocabulary, std::string_view line, std::string_view where,
                     std::size_t number, std::string_view prefix) {
  const std::size_t blank = line.find(' ');
  if (blank == line.npos || line.find(' ', blank + 1) != line.npos)
    throw Error("{} {}: expected two tokens with a blank between them, found {}", where, number,
                in_quotes(line));
  return merge_rule(vocabulary, line.substr(0, blank), line.substr(blank + 1), where, number, prefix);
}

AddedToken read_added_token(const JsonView& view, std::int64_t id, bool strict) {
  if (id < 0 || id > Vocabulary::kMaxId)
    throw Error("{}: expected an id from 0 to {}, found {}", view.where(), Vocabulary::kMaxId, id);
  AddedToken token;
  token.content = view.text("content");
  token.id = static_cast<TokenId>(id);
  token.special = flag(view, "special", strict);
  token.single_word = flag(view, "single_word", strict);
  token.lstrip = flag(view, "lstrip", strict);
  token.rstrip = flag(view, "rstrip", strict);
  token.normalized = flag(view, "normalized", strict);
  return token;
}

TokenizerSpec read_tokenizer_json(const Json& file, const std::string& where,
                                  std::optional<bool> adds_prefix_space) {
  const JsonView view(file, where);
  TokenizerSpec spec;
  if (const std::string version = view.text_or("version", "1.0"); version != "1.0")
    throw Error("{}: expected version 1.0, found {}", where, in_quotes(version));
  const JsonView model = view.object("model");
  spec.kind = kind_of(model);
  if (spec.kind == ModelKind::bpe) read_affixes(model, spec);  // in front of what they change
  read_normalizer(view, spec);
  read_pre_tokenizer(view, spec, adds_prefix_space);
  read_decoder(view, spec);
  read_model(model, spec);
  spec.model_tokens = spec.vocabulary.size();
  read_added_tokens(view, spec);
  read_post_processor(view, spec);
  return spec;
}

}  // namespace assay
