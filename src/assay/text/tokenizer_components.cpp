// Accepts the components of byte-level and SentencePiece-like BPE, and names what it finds in any other.
#include "assay/text/tokenizer_components.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

// Template pieces and ids beyond this are refused: templates in use have two or three.
constexpr std::size_t kMostTemplateTokens = 64;

// One component, with its type.
struct Component {
  std::string type;
  JsonView view;
};

// The components under `key`: those of a Sequence, which stand under `list_key`, or the one that stands
// alone. None where the key is missing or null.
std::vector<Component> components(const JsonView& file, std::string_view key, std::string_view list_key) {
  if (!file.has(key)) return {};
  const JsonView view = file.object(key);
  std::string type = view.text("type");
  if (type != "Sequence") return {{std::move(type), view}};
  std::vector<Component> all;
  for (const Json& item : array_at(view, list_key)) {
    if (!item.is_object())
      throw Error("{}: {}: expected an object, found {}", view.where(), list_key, shown(item));
    const JsonView one(item, view.where());
    all.push_back({one.text("type"), one});
  }
  return all;
}

// "A, B and 3 more"
std::string types_of(const std::vector<Component>& all) {
  constexpr std::size_t kShown = 6;
  std::string text;
  for (std::size_t i = 0; i < all.size() && i < kShown; ++i)
    text += (i == 0 ? "" : ", ") + short_text(all[i].type);
  if (all.size() > kShown) text += fmt::format(" and {} more", all.size() - kShown);
  return text;
}

// The literal text that a Replace or Split looks for.
std::string literal_pattern(const JsonView& view) {
  const JsonView pattern = view.object("pattern");
  if (pattern.has("Regex"))
    throw Error("{}: unsupported regular expression {}: expected a String", pattern.where(),
                in_quotes(pattern.text("Regex")));
  return pattern.text("String");
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

WordPattern read_split(const JsonView& view) {
  const JsonView pattern = view.object("pattern");
  const std::string regex = pattern.has("Regex") ? pattern.text("Regex") : pattern.text("String");
  const auto known = pattern.has("Regex") ? word_pattern(regex) : std::nullopt;
  if (!known)
    throw Error("{}: unsupported Split pattern {}: expected that of GPT-2, Llama 3 or Qwen2", view.where(),
                in_quotes(regex));
  if (const std::string behavior = view.text("behavior"); behavior != "Isolated")
    throw Error("{}: unsupported Split behavior {}: expected Isolated", view.where(), in_quotes(behavior));
  if (view.boolean_or("invert", false))
    throw Error("{}: unsupported Split with invert: expected false", view.where());
  return *known;
}

// A Sequence of Replace, ByteFallback, Fuse and Strip, in this order, any of them missing.
DecodeRules read_decoder_steps(const std::vector<Component>& all, const std::string& where) {
  DecodeRules rules;
  rules.kind = DecodeRules::Kind::steps;
  bool is_fused = false;
  int step = 0;
  for (const auto& [type, view] : all) {
    const int place = type == "Replace"        ? 1
                      : type == "ByteFallback" ? 2
                      : type == "Fuse"         ? 3
                      : type == "Strip"        ? 4
                                               : 0;
    const bool repeats = place == step && type != "Replace";
    if (place == 0 || place < step || repeats || (type == "Strip" && !is_fused))
      throw Error(
          "{}: unsupported decoder {}: expected Metaspace, or a Sequence of Replace, ByteFallback, Fuse and "
          "Strip",
          where, types_of(all));
    step = place;
    if (type == "Replace")
      rules.replacements.replace(literal_pattern(view), view.text("content"), view.where());
    if (type == "ByteFallback") rules.joins_bytes = true;
    if (type == "Fuse") is_fused = true;
    if (type != "Strip") continue;
    rules.strip = one_character(view, "content");
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    rules.most_stripped = static_cast<std::size_t>(view.integer("start", 0, kMost));
    if (const std::int64_t stop = view.integer("stop", 0, kMost); stop != 0)
      throw Error("{}: unsupported Strip of {} characters at the end: expected 0", view.where(), stop);
  }
  return rules;
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
    const bool is_known = id.is_number_unsigned() && id.get<std::uint64_t>() <= Vocabulary::kLargestId &&
                          spec.vocabulary.has(id.get<TokenId>());
    if (!is_known) throw Error("{}: ids: expected ids of the vocabulary, found {}", view.where(), shown(id));
    if (out.size() == kMostTemplateTokens)
      throw Error("{}: expected a template of at most {} special tokens, found more", post.where(),
                  kMostTemplateTokens);
    out.push_back(id.get<TokenId>());
  }
}

void read_template(const JsonView& post, TokenizerSpec& spec) {
  std::vector<TokenId> before, after;
  bool has_text = false;
  const Json& pieces = array_at(post, "single");
  if (pieces.size() > kMostTemplateTokens)
    throw Error("{}: single: expected at most {} pieces, found {}", post.where(), kMostTemplateTokens,
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
  return in_quotes(value.dump());
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

void read_normalizer(const JsonView& file, TokenizerSpec& spec) {
  for (const auto& [type, view] : components(file, "normalizer", "normalizers")) {
    if (type == "Prepend") {
      spec.normalizer.prepend(view.text("prepend"), view.where());
    } else if (type == "Replace") {
      spec.normalizer.replace(literal_pattern(view), view.text("content"), view.where());
    } else if (type == "NFC") {
      spec.normalizer.nfc(view.where());
    } else {
      throw Error("{}: unsupported normalizer {}: expected Prepend, Replace or NFC", file.where(),
                  short_text(type));
    }
  }
}

void read_pre_tokenizer(const JsonView& file, TokenizerSpec& spec) {
  PreTokenizer& pre = spec.pre;
  const std::vector<Component> all = components(file, "pre_tokenizer", "pretokenizers");
  if (all.empty()) return;
  if (all.size() == 1 && all[0].type == "Metaspace") {
    pre.metaspace = read_metaspace(all[0].view);
    return;
  }
  const bool has_split = all.size() == 2 && all[0].type == "Split";
  if (all.back().type != "ByteLevel" || all.size() != (has_split ? 2 : 1))
    throw Error("{}: unsupported pre_tokenizer {}: expected ByteLevel, Split and ByteLevel, or Metaspace",
                file.where(), types_of(all));
  const JsonView& bytes = all.back().view;
  pre.is_byte_level = true;
  pre.add_prefix_space = bytes.boolean_or("add_prefix_space", true);
  const bool use_regex = bytes.boolean_or("use_regex", true);
  if (has_split) {
    if (use_regex || pre.add_prefix_space)
      throw Error("{}: unsupported {} of ByteLevel after Split: expected false", bytes.where(),
                  use_regex ? "use_regex" : "add_prefix_space");
    pre.pattern = read_split(all[0].view);
  } else if (use_regex) {
    pre.pattern = WordPattern::gpt2;
  }
}

void read_decoder(const JsonView& file, TokenizerSpec& spec) {
  const std::vector<Component> all = components(file, "decoder", "decoders");
  if (spec.pre.is_byte_level) {
    if (!all.empty() && (all.size() > 1 || all[0].type != "ByteLevel"))
      throw Error("{}: unsupported decoder {}: expected ByteLevel", file.where(), types_of(all));
    return;
  }
  if (all.empty())
    throw Error("{}: unsupported decoder: expected Metaspace or a Sequence, found none", file.where());
  if (all.size() == 1 && all[0].type == "Metaspace") {
    const Metaspace metaspace = read_metaspace(all[0].view);
    spec.decode.kind = DecodeRules::Kind::metaspace;
    spec.decode.mark = metaspace.replacement;
    spec.decode.drops_first_marks = metaspace.prepend != Metaspace::Prepend::never;
    return;
  }
  spec.decode = read_decoder_steps(all, file.where());
}

void read_post_processor(const JsonView& file, TokenizerSpec& spec) {
  for (const auto& [type, view] : components(file, "post_processor", "processors")) {
    if (type == "ByteLevel") continue;  // it changes offsets only
    if (type != "TemplateProcessing")
      throw Error("{}: unsupported post_processor {}: expected TemplateProcessing or ByteLevel", file.where(),
                  short_text(type));
    read_template(view, spec);
  }
  if (spec.bos.size() + spec.eos.size() > kMostTemplateTokens)
    throw Error("{}: post_processor: expected at most {} special tokens, found {}", file.where(),
                kMostTemplateTokens, spec.bos.size() + spec.eos.size());
}

}  // namespace assay
