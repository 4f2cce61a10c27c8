// What the readers of components share, and post-processors.
#include "assay/text/tokenizer_components.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

// Template pieces and ids beyond this are refused: templates in use have two or three.
constexpr std::size_t kMaxTemplateTokens = 64;

void append_components(const JsonView& view, std::string_view list_key, std::vector<Component>& all) {
  std::string type = view.text("type");
  if (type != "Sequence") return all.push_back({std::move(type), view});
  for (const Json& item : array_at(view, list_key)) {
    if (!item.is_object())
      throw Error("{}: {}: expected an object, found {}", view.where(), list_key, shown(item));
    append_components(JsonView(item, view.where()), list_key, all);
  }
}

void check_known(const Json& id, const std::string& where, const TokenizerSpec& spec) {
  const bool is_known = id.is_number_unsigned() && id.get<std::uint64_t>() <= Vocabulary::kMaxId &&
                        spec.vocabulary.has(id.get<TokenId>());
  if (!is_known) throw Error("{}: expected ids of the vocabulary, found {}", where, shown(id));
}

// BertProcessing and RobertaProcessing: [CLS] before a text, [SEP] after it. What the latter says of blanks
// changes offsets only.
void read_around(const JsonView& post, TokenizerSpec& spec) {
  const auto id_at = [&](const char* key) {
    const Json& pair = array_at(post, key);
    if (pair.size() != 2 || !pair[0].is_string())
      throw Error("{}: {}: expected a token and its id, found {}", post.where(), key, shown(pair));
    check_known(pair[1], fmt::format("{}: {}", post.where(), key), spec);
    return pair[1].get<TokenId>();
  };
  spec.bos.insert(spec.bos.begin(), id_at("cls"));
  spec.eos.push_back(id_at("sep"));
}

// The ids of one special token of a template, by the template's own list.
void append_template_ids(const JsonView& post, const JsonView& piece, const TokenizerSpec& spec,
                         std::vector<TokenId>& out) {
  const std::string name = piece.text("id");
  const JsonView tokens = post.object("special_tokens");
  const auto token = tokens.raw().find(name);
  if (token == tokens.raw().end() || !token->is_object())
    throw Error("{}: expected an entry for {}, which the template names, found none", tokens.where(),
                in_quotes(name));
  const JsonView view(*token, fmt::format("{}: {}", tokens.where(), in_quotes(name)));
  for (const Json& id : array_at(view, "ids")) {
    check_known(id, view.where() + ": ids", spec);
    if (out.size() == kMaxTemplateTokens)
      throw Error("{}: expected a template of at most {} special tokens, found more", post.where(),
                  kMaxTemplateTokens);
    out.push_back(id.get<TokenId>());
  }
}

void read_template(const JsonView& post, TokenizerSpec& spec) {
  std::vector<TokenId> before, after;
  bool has_text = false;
  const Json& pieces = array_at(post, "single");
  if (pieces.size() > kMaxTemplateTokens)
    throw Error("{}: single: expected at most {} pieces, found {}", post.where(), kMaxTemplateTokens,
                pieces.size());
  for (const Json& item : pieces) {
    if (!item.is_object()) throw Error("{}: single: expected an object, found {}", post.where(), shown(item));
    const JsonView piece(item, post.where() + ": single");
    if (piece.has("SpecialToken")) {
      append_template_ids(post, piece.object("SpecialToken"), spec, has_text ? after : before);
      continue;
    }
    const std::string sequence = piece.object("Sequence").text("id");
    if (sequence != "A" || has_text)
      throw Error("{}: single: expected the sequence A once, found {}", post.where(),
                  has_text ? "another sequence after it" : in_quotes(sequence));
    has_text = true;
  }
  if (!has_text) throw Error("{}: single: expected the sequence A, found none", post.where());
  // A second template is applied to what the first one gives.
  spec.bos.insert(spec.bos.begin(), before.begin(), before.end());
  spec.eos.insert(spec.eos.end(), after.begin(), after.end());
}

}  // namespace

std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  return in_quotes(shown_value(value));
}

std::string short_text(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  const bool is_word = text.size() <= 40 && std::all_of(text.begin(), text.end(), is_plain);
  return is_word && !text.empty() ? text : in_quotes(text);
}

const Json& array_at(const JsonView& view, std::string_view key) {
  if (!view.has(key)) throw Error("{}: the key '{}' is missing", view.where(), key);
  const Json& value = *view.raw().find(key);
  if (!value.is_array()) throw Error("{}: {}: expected an array, found {}", view.where(), key, shown(value));
  return value;
}

std::vector<Component> components(const JsonView& file, std::string_view key, std::string_view list_key) {
  std::vector<Component> all;
  if (file.has(key)) append_components(file.object(key), list_key, all);
  return all;
}

std::string types_of(const std::vector<Component>& all) {
  constexpr std::size_t kShown = 6;
  std::string text;
  for (std::size_t i = 0; i < all.size() && i < kShown; ++i)
    text += (i == 0 ? "" : ", ") + short_text(all[i].type);
  if (all.size() > kShown) text += fmt::format(" and {} more", all.size() - kShown);
  return text;
}

std::string one_character(const JsonView& view, std::string_view key) {
  std::string text = view.text(key);
  std::size_t length = 0;
  if (!text.empty()) read_valid_utf8(text, 0, length);
  if (text.empty() || length != text.size())
    throw Error("{}: {}: expected one character, found {}", view.where(), key, in_quotes(text));
  return text;
}

Metaspace read_metaspace(const JsonView& view) {
  Metaspace metaspace;
  metaspace.replacement = one_character(view, "replacement");
  metaspace.splits = view.boolean_or("split", true);
  const std::string scheme = view.text_or("prepend_scheme", "always");
  if (scheme == "always") {
    metaspace.prepend = Metaspace::Prepend::always;
  } else if (scheme == "first") {
    metaspace.prepend = Metaspace::Prepend::first;
  } else if (scheme == "never") {
    metaspace.prepend = Metaspace::Prepend::never;
  } else {
    throw Error("{}: prepend_scheme: expected always, first or never, found {}", view.where(),
                in_quotes(scheme));
  }
  // Older files have only this key, where the newer library refuses what contradicts the other.
  if (!view.boolean_or("add_prefix_space", true)) {
    if (view.has("prepend_scheme") && scheme != "never")
      throw Error("{}: add_prefix_space is false, but prepend_scheme is {}", view.where(), scheme);
    metaspace.prepend = Metaspace::Prepend::never;
  }
  return metaspace;
}

std::string pattern_text(const JsonView& view, bool& is_regex) {
  const JsonView pattern = view.object("pattern");
  is_regex = pattern.has("Regex");
  return pattern.text(is_regex ? "Regex" : "String");
}

void read_post_processor(const JsonView& file, TokenizerSpec& spec) {
  for (const auto& [type, view] : components(file, "post_processor", "processors")) {
    if (type == "ByteLevel") continue;  // it changes offsets only
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      read_around(view, spec);
    } else if (type == "TemplateProcessing") {
      read_template(view, spec);
    } else {
      throw Error(
          "{}: unsupported post_processor {}: expected TemplateProcessing, BertProcessing, RobertaProcessing "
          "or "
          "ByteLevel",
          file.where(), short_text(type));
    }
  }
  if (spec.bos.size() + spec.eos.size() > kMaxTemplateTokens)
    throw Error("{}: post_processor: expected at most {} special tokens, found {}", file.where(),
                kMaxTemplateTokens, spec.bos.size() + spec.eos.size());
}

}  // namespace assay
