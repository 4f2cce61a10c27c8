// Reads the documents of a tokenizer, and adds what those beside the vocabulary say of special tokens.
#include "assay/text/tokenizer_spec.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/text/sentencepiece_spec.h"
#include "assay/text/special_tokens.h"
#include "assay/text/tokenizer_class.h"
#include "assay/text/tokenizer_json.h"

namespace assay {

namespace {

// Searching for them takes up to a hundred bytes of memory for each.
constexpr std::size_t kMaxAddedBytes = std::size_t{2} << 20;

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
  return spec;
}

// These classes have a ByteLevel pre-tokenizer of their own, which follows the key.
std::optional<bool> prefix_space_of(const TokenizerFiles& files, const std::string& class_name) {
  const JsonView config(files.config.content, files.config.where);
  const bool follows = class_name == "RobertaTokenizer" || class_name == "BartTokenizer" ||
                       class_name == "BlenderbotTokenizer";
  if (!follows || !config.has("add_prefix_space")) return std::nullopt;
  return config.boolean_or("add_prefix_space", false);
}

}  // namespace

void TokenizerSpec::add(AddedToken token, const std::string& where) {
  if (token.content.empty()) return;  // the library passes over it too
  check_length(token.content, where);
  if (!is_added(token.content)) added_bytes_ += token.content.size();
  if (added_bytes_ > kMaxAddedBytes)
    throw Error("{}: token {}: expected added tokens of at most {} bytes together, found more", where,
                in_quotes(token.content), kMaxAddedBytes);
  const TokenId written = token.id;
  const auto known = vocabulary.find(token.content);
  // As the library counts: from the model's tokens on, and never an id that an added token has.
  token.id = known.value_or(std::max(next_added_, static_cast<TokenId>(model_tokens)));
  if (!known) vocabulary.add(token.content, token.id, where);
  if (written >= 0 && written != token.id && ++other_ids_ == 1)
    warnings.push_back(fmt::format("{}: token {} has id {}, as Transformers counts, and not {} as written",
                                   where, in_quotes(token.content), token.id, written));
  const auto [place, is_new] = place_of_added_.emplace(token.id, added.size());
  next_added_ = std::max(next_added_, token.id + 1);
  if (is_new) {
    added.push_back(std::move(token));
  } else {
    added[place->second] = std::move(token);
  }
}

bool TokenizerSpec::is_added(std::string_view content) const {
  const auto id = vocabulary.find(content);
  return content.empty() || (id && place_of_added_.contains(*id));
}

TokenizerSpec read_tokenizer(const TokenizerFiles& files) {
  const std::string class_name = class_of(files);
  NamedTokens defaults = default_tokens(class_name);
  TokenizerSpec spec;
  if (files.tokenizer) {
    spec = read_tokenizer_json(files.tokenizer->content, files.tokenizer->where,
                               prefix_space_of(files, class_name));
    set_class_rules(class_name, files, spec, defaults);
  } else if (files.pieces) {
    spec = read_sentencepiece(files, class_name, defaults);
  } else {
    spec = read_vocabulary_and_merges(files);
  }
  spec.source = files.source;
  const JsonView config(files.config.content, files.config.where);
  if (spec.kind != ModelKind::bpe && config.boolean_or("clean_up_tokenization_spaces", false))
    spec.warnings.push_back(
        fmt::format("{}: clean_up_tokenization_spaces is true, which Transformers follows, and blanks before "
                    "punctuation stay in decoded text here",
                    config.where()));
  read_special_tokens(files, defaults, spec);
  return spec;
}

}  // namespace assay
