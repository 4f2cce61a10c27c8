// Reads the documents of a tokenizer, and adds what those beside the vocabulary say of special tokens.
#include "assay/text/tokenizer_spec.h"

#include <algorithm>
#include <map>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/text/tokenizer_json.h"

namespace assay {

namespace {

// Searching for them takes up to a hundred bytes of memory for each.
constexpr std::size_t kMaxAddedBytes = std::size_t{2} << 20;
constexpr std::string_view kEndOfText = "<|endoftext|>";

void read_merges_text(const TokenizerFiles::Text& merges, TokenizerSpec& spec) {
  const std::string_view text = merges.content;
  check_utf8(text, merges.where);
  const std::string where = merges.where + ": line";
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    spec.merges.push_back(merge_rule(spec.vocabulary, line, where, number));
  }
}

// added_tokens.json ({"token": id}) and tokenizer_config.json's added_tokens_decoder ({"id": {...}}), which
// stand beside vocab.json. In the order of their ids, the later file's flags standing.
void read_tokens_beside(const TokenizerFiles& files, TokenizerSpec& spec) {
  std::map<std::int64_t, AddedToken> tokens;
  const auto& [added, added_where] = files.added_tokens;
  for (const auto& [text, id] : added.items()) {
    const auto number = JsonView(added, added_where).integer(text, 0, Vocabulary::kMaxId);
    AddedToken token;
    token.content = text;
    token.id = static_cast<TokenId>(number);
    token.normalized = true;
    if (!tokens.emplace(number, token).second)
      throw Error("{}: token {}: expected an id of its own, found {}", added_where, in_quotes(text), number);
  }
  const JsonView config_view(files.config.content, files.config.where);
  if (config_view.has("added_tokens_decoder")) {
    const JsonView decoder = config_view.object("added_tokens_decoder");
    for (const auto& [id, token] : decoder.raw().items()) {
      const bool is_number = !id.empty() && id.size() <= 9 && id.find_first_not_of("0123456789") == id.npos;
      if (!is_number) throw Error("{}: expected ids as keys, found {}", decoder.where(), in_quotes(id));
      const std::int64_t number = std::stoll(id);
      tokens[number] = read_added_token(decoder.object(id), number, false);
    }
  }
  for (auto& [id, token] : tokens) spec.add(std::move(token), files.where);
}

// A token as these files write one: its text, or an object that has it as `content`.
std::optional<std::string> token_content(const Json& value, const std::string& where) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) return JsonView(value, where).text("content");
  throw Error("{}: expected a token's text, found {}", where, in_quotes(value.dump()));
}

// The tokens that `add_bos_token` and `add_eos_token` put around a text, as Transformers 5 reads them beside
// vocab.json.
void read_tokens_around(const JsonView& config, TokenizerSpec& spec) {
  const auto read = [&](const char* adds, const char* key, std::vector<TokenId>& out) {
    if (!config.boolean_or(adds, false)) return;
    const std::string content =
        config.has(key) ? *token_content(config.raw()[key], fmt::format("{}: {}", config.where(), key))
                        : std::string(kEndOfText);
    const auto id = spec.vocabulary.find(content);
    if (!id)
      throw Error("{}: {} is true, but {} {} is not in the vocabulary", config.where(), adds, key,
                  in_quotes(content));
    out.push_back(*id);
  };
  read("add_bos_token", "bos_token", spec.bos);
  read("add_eos_token", "eos_token", spec.eos);
}

TokenizerSpec read_vocabulary_and_merges(const TokenizerFiles& files) {
  TokenizerSpec spec;
  read_vocabulary(files.vocabulary->content, spec.vocabulary, files.vocabulary->where);
  spec.model_tokens = spec.vocabulary.size();
  read_merges_text(*files.merges, spec);
  const JsonView config_view(files.config.content, files.config.where);
  spec.words = WordForm::bytes;
  ByteLevelStep bytes;
  bytes.adds_prefix_space = config_view.boolean_or("add_prefix_space", false);
  std::vector<PreTokenizer::Step> steps;
  // The one class of Transformers with this form of files whose rules are not those of GPT-2.
  if (config_view.text_or("tokenizer_class", "").starts_with("Qwen2Tokenizer")) {
    spec.normalizer.form(NormalForm::nfc, config_view.where());
    steps.emplace_back(SplitStep{WordPattern::qwen2});
    bytes = {.splits = false};
  }
  steps.emplace_back(bytes);
  spec.pre = PreTokenizer(std::move(steps));
  read_tokens_beside(files, spec);
  spec.make_special(kEndOfText);
  read_tokens_around(config_view, spec);
  return spec;
}

void read_special_tokens(const TokenizerFiles::Document& document, TokenizerSpec& spec) {
  const auto& [file, where] = document;
  for (const char* key :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (!file.contains(key)) continue;
    const auto content = token_content(file[key], fmt::format("{}: {}", where, key));
    if (!content || !spec.make_special(*content)) continue;
    if (std::string_view(key) == "eos_token" && !spec.end_of_text)
      spec.end_of_text = spec.vocabulary.find(*content);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!file.contains(key) || !file[key].is_structured()) continue;
    for (const Json& value : file[key])  // for an object, the values
      if (const auto content = token_content(value, fmt::format("{}: {}", where, key)))
        spec.make_special(*content);
  }
}

}  // namespace

void TokenizerSpec::add(AddedToken token, const std::string& where) {
  if (token.content.empty()) return;  // the library passes over it too
  check_length(token.content, where);
  added_bytes_ += token.content.size();
  if (added_bytes_ > kMaxAddedBytes)
    throw Error("{}: token {}: expected added tokens of at most {} bytes together, found more", where,
                in_quotes(token.content), kMaxAddedBytes);
  if (const auto known = vocabulary.find(token.content)) {
    if (*known != token.id)
      throw Error("{}: token {}: expected id {}, which it has already, found {}", where,
                  in_quotes(token.content), *known, token.id);
  } else {
    const TokenId next = std::max(next_added_, static_cast<TokenId>(model_tokens));
    if (token.id != next && !vocabulary.has(token.id))
      throw Error("{}: token {}: expected id {}, the next one, found {}", where, in_quotes(token.content),
                  next, token.id);
    vocabulary.add(token.content, token.id, where);
  }
  if (!place_of_added_.emplace(token.id, added.size()).second)
    throw Error("{}: token {} is added twice", where, in_quotes(token.content));
  next_added_ = std::max(next_added_, token.id + 1);
  added.push_back(std::move(token));
}

bool TokenizerSpec::make_special(std::string_view content) {
  const auto id = vocabulary.find(content);
  if (!id || content.empty()) return false;
  const auto [place, is_new] = place_of_added_.emplace(*id, added.size());
  if (is_new) {
    added.emplace_back();
    added.back().content = content;
    added.back().id = *id;
  }
  added[place->second].special = true;
  return true;
}

TokenizerSpec read_tokenizer(const TokenizerFiles& files) {
  TokenizerSpec spec = files.tokenizer ? read_tokenizer_json(files.tokenizer->content, files.tokenizer->where)
                                       : read_vocabulary_and_merges(files);
  spec.source = files.source;
  read_special_tokens(files.config, spec);
  read_special_tokens(files.special_tokens, spec);
  if (!spec.end_of_text) spec.end_of_text = spec.vocabulary.find(kEndOfText);
  return spec;
}

}  // namespace assay
