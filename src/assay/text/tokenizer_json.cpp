// Accepts the byte-level BPE tokenizers and names what it finds in any other.
#include "assay/text/tokenizer_json.h"

#include <utility>

#include "assay/base/error.h"

namespace assay {

namespace {

std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  return in_quotes(value.dump());
}

const Json& array_at(const JsonView& view, std::string_view key) {
  if (!view.has(key)) throw Error("{}: the key '{}' is missing", view.where(), key);
  const Json& value = *view.raw().find(key);
  if (!value.is_array()) throw Error("{}: {}: expected an array, found {}", view.where(), key, shown(value));
  return value;
}

// The component under `key` (pre_tokenizer, decoder), unwrapped from a Sequence of one.
JsonView component(const JsonView& file, std::string_view key, std::string_view list_key) {
  JsonView view = file.object(key);
  if (view.text("type") != "Sequence") return view;
  const Json& list = array_at(view, list_key);
  if (list.size() != 1)
    throw Error("{}: unsupported {}: expected one ByteLevel, found a Sequence of {}", file.where(), key,
                list.size());
  if (!list[0].is_object())
    throw Error("{}: {}: expected an object, found {}", view.where(), list_key, shown(list[0]));
  return {list[0], view.where()};
}

void read_components(const JsonView& file, TokenizerSpec& spec) {
  if (file.has("normalizer"))
    throw Error("{}: unsupported normalizer {}: expected none", file.where(),
                file.object("normalizer").text("type"));
  if (!file.has("pre_tokenizer"))
    throw Error("{}: unsupported pre_tokenizer: expected ByteLevel, found none", file.where());
  const JsonView pre = component(file, "pre_tokenizer", "pretokenizers");
  if (pre.text("type") != "ByteLevel")
    throw Error("{}: unsupported pre_tokenizer {}: expected ByteLevel", file.where(), pre.text("type"));
  spec.add_prefix_space = pre.boolean_or("add_prefix_space", true);
  spec.use_regex = pre.boolean_or("use_regex", true);
  if (file.has("decoder")) {
    const JsonView decoder = component(file, "decoder", "decoders");
    if (decoder.text("type") != "ByteLevel")
      throw Error("{}: unsupported decoder {}: expected ByteLevel", file.where(), decoder.text("type"));
  }
}

// What BPE can do in the library and byte-level models do not use.
void check_model_options(const JsonView& model) {
  if (const std::string type = model.text_or("type", "BPE"); type != "BPE")
    throw Error("{}: unsupported model type {}: expected BPE", model.where(), type);
  if (model.has("dropout") && model.number("dropout") != 0)
    throw Error("{}: unsupported dropout {}: expected none", model.where(), model.number("dropout"));
  if (model.boolean_or("byte_fallback", false))
    throw Error("{}: unsupported byte_fallback: expected false", model.where());
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const std::string text = model.text_or(key, ""); !text.empty())
      throw Error("{}: unsupported {} {}: expected none", model.where(), key, in_quotes(text));
}

void read_model(const JsonView& model, TokenizerSpec& spec) {
  check_model_options(model);
  spec.ignore_merges = model.boolean_or("ignore_merges", false);
  spec.fuse_unknown = model.boolean_or("fuse_unk", false);
  read_vocabulary(model.object("vocab").raw(), spec.vocabulary, model.where() + ": vocab");
  if (const std::string text = model.text_or("unk_token", ""); !text.empty()) {
    spec.unknown = spec.vocabulary.find(text);
    if (!spec.unknown)
      throw Error("{}: unk_token {} is not in the vocabulary", model.where(), in_quotes(text));
  }
  const Json& merges = array_at(model, "merges");
  spec.merges.reserve(merges.size());
  const std::string where = model.where() + ": merges: entry";
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    const bool is_pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!is_pair && !merge.is_string())
      throw Error("{} {}: expected \"left right\" or [\"left\", \"right\"], found {}", where, i,
                  shown(merge));
    spec.merges.push_back(is_pair
                              ? merge_rule(spec.vocabulary, merge[0].get_ref<const std::string&>(),
                                           merge[1].get_ref<const std::string&>(), where, i)
                              : merge_rule(spec.vocabulary, merge.get_ref<const std::string&>(), where, i));
  }
}

bool flag(const JsonView& view, std::string_view key, bool strict) {
  if (strict && !view.has(key)) throw Error("{}: the key '{}' is missing", view.where(), key);
  return view.boolean_or(key, false);
}

}  // namespace

void read_vocabulary(const Json& tokens, Vocabulary& vocabulary, const std::string& where) {
  for (const auto& [text, id] : tokens.items()) {
    if (!id.is_number_integer())
      throw Error("{}: token {}: expected an id, found {}", where, in_quotes(text), shown(id));
    // Beyond 2^63 an unsigned number would turn negative and still be refused, but be shown as what it is
    // not.
    if (id.is_number_unsigned() && id.get<std::uint64_t>() > std::uint64_t{Vocabulary::kLargestId})
      throw Error("{}: token {}: expected an id from 0 to {}, found {}", where, in_quotes(text),
                  Vocabulary::kLargestId, id.get<std::uint64_t>());
    vocabulary.add(text, id.get<std::int64_t>(), where);
  }
  if (vocabulary.size() == 0) throw Error("{}: expected tokens, found an empty vocabulary", where);
}

MergeRule merge_rule(const Vocabulary& vocabulary, std::string_view left, std::string_view right,
                     std::string_view where, std::size_t number) {
  const auto id_of = [&](std::string_view text) {
    const auto id = vocabulary.find(text);
    if (!id) throw Error("{} {}: token {} is not in the vocabulary", where, number, in_quotes(text));
    return *id;
  };
  const TokenId left_id = id_of(left), right_id = id_of(right);
  return {left_id, right_id, id_of(std::string(left) + std::string(right))};
}

MergeRule merge_rule(const Vocabulary& vocabulary, std::string_view line, std::string_view where,
                     std::size_t number) {
  const std::size_t blank = line.find(' ');
  if (blank == line.npos || line.find(' ', blank + 1) != line.npos)
    throw Error("{} {}: expected two tokens with a blank between them, found {}", where, number,
                in_quotes(line));
  return merge_rule(vocabulary, line.substr(0, blank), line.substr(blank + 1), where, number);
}

AddedToken read_added_token(const JsonView& view, std::int64_t id, bool strict) {
  if (id < 0 || id > Vocabulary::kLargestId)
    throw Error("{}: expected an id from 0 to {}, found {}", view.where(), Vocabulary::kLargestId, id);
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

TokenizerSpec read_tokenizer_json(const Json& file, const std::string& where) {
  const JsonView view(file, where);
  TokenizerSpec spec;
  spec.source = "tokenizer.json";
  if (const std::string version = view.text_or("version", "1.0"); version != "1.0")
    throw Error("{}: expected version 1.0, found {}", where, in_quotes(version));
  read_components(view, spec);
  read_model(view.object("model"), spec);
  spec.model_tokens = spec.vocabulary.size();
  if (!view.has("added_tokens")) return spec;
  std::size_t entry = 0;
  for (const Json& token : array_at(view, "added_tokens")) {
    const std::string token_where = fmt::format("{}: added_tokens: entry {}", where, entry++);
    if (!token.is_object()) throw Error("{}: expected an object, found {}", token_where, shown(token));
    const JsonView token_view(token, token_where);
    spec.add(read_added_token(token_view, token_view.integer("id", 0, Vocabulary::kLargestId), true),
             token_where);
  }
  return spec;
}

}  // namespace assay
