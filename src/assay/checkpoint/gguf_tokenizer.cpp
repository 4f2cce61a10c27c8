#include "assay/checkpoint/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/base/piece_merges.h"
#include "assay/base/well_formed.h"
#include "assay/checkpoint/gguf_pretokenizer.h"

namespace assay {

namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model", kPreKey = "tokenizer.ggml.pre",
                           kTokensKey = "tokenizer.ggml.tokens", kTypesKey = "tokenizer.ggml.token_type",
                           kMergesKey = "tokenizer.ggml.merges", kScoresKey = "tokenizer.ggml.scores";

constexpr std::size_t kLongestGgufToken = 4096;  // the longest in use have some hundred bytes

// Makes the documents of one file.
class TokenizerMaker {
 public:
  explicit TokenizerMaker(const GgufFile& file)
      : file_(file), where_(file.where()), tokens_(needed_texts(kTokensKey)) {
    if (const GgufValue* types = file.array(kTypesKey, "integers")) {
      if (types->size() != tokens_.size())
        throw Error("{}: key '{}': expected {} types, one for each token, found {}", where_, kTypesKey,
                    tokens_.size(), types->size());
      types_ = types;
    }
    for (std::size_t id = 0; id < tokens_.size(); ++id) check_token(id);
  }

  TokenizerFiles make() {
    const std::string model = file_.text(kModelKey).value_or("");
    Json json = {{"version", "1.0"}};
    split_at_ = first_behind_model();
    if (model == "gpt2") {
      add_byte_level(json);
    } else if (model == "llama") {
      add_sentence_piece(json);
    } else {
      throw Error("{}: key '{}': '{}' is not supported; expected gpt2 or llama", where_, kModelKey,
                  printable(model.substr(0, 64)));
    }
    json["model"]["vocab"] = vocabulary();
    json["added_tokens"] = added_tokens();
    add_template(json);
    TokenizerFiles files{.where = where_, .source = "tokenizer of " + file_.path().filename().string()};
    files.tokenizer = {std::move(json), where_};
    files.config = {config(), where_};
    return files;
  }

 private:
  const GgufValue& needed_texts(std::string_view key) const {
    const GgufValue* list = file_.array(key, "texts");
    if (list == nullptr) throw Error("{}: the key '{}' is missing", where_, key);
    return *list;
  }

  GgufTokenType type(std::size_t id) const {
    return types_ == nullptr ? GgufTokenType::normal
                             : static_cast<GgufTokenType>(types_->integer(id).value_or(1));
  }
  std::string text(std::size_t id) const { return std::string(*tokens_.text(id)); }

  void check_token(std::size_t id) const {
    const std::string_view token = *tokens_.text(id);
    if (token.size() > kLongestGgufToken)
      throw Error("{}: key '{}': token {} has {} bytes: expected at most {}", where_, kTokensKey, id,
                  token.size(), kLongestGgufToken);
    if (!is_utf8(token))
      throw Error("{}: key '{}': token {}: expected UTF-8, found '{}'", where_, kTokensKey, id,
                  printable(token));
    if (types_ == nullptr) return;
    constexpr std::int64_t kLastType = static_cast<std::int64_t>(GgufTokenType::byte);
    const auto kind = types_->integer(id);
    if (kind.value_or(-1) < 0 || *kind > kLastType)
      throw Error("{}: key '{}': token {}: expected a type from 0 to {}, found {}", where_, kTypesKey, id,
                  kLastType, kind ? fmt::to_string(*kind) : "a number beyond 2^63");
  }

  bool is_added(std::size_t id) const {
    const GgufTokenType kind = type(id);
    return kind == GgufTokenType::control || kind == GgufTokenType::user_defined ||
           kind == GgufTokenType::unknown;
  }

  // Added tokens behind all others are no tokens of the model, as in tokenizer.json: they may be written in
  // characters that its words have not. Unused ones at the end fill a matrix up, and are left out.
  std::size_t first_behind_model() {
    end_ = tokens_.size();
    while (end_ > 0 && type(end_ - 1) == GgufTokenType::unused) --end_;
    std::size_t first = end_;
    while (first > 0 && is_added(first - 1)) --first;
    return first > 0 ? first : end_;
  }

  Json vocabulary() const {
    Json vocabulary = Json::object();
    for (std::size_t id = 0; id < split_at_; ++id)
      if (!vocabulary.emplace(text(id), id).second && !is_added(id) && type(id) != GgufTokenType::unused)
        throw Error("{}: key '{}': token {}: '{}' stands twice", where_, kTokensKey, id, printable(text(id)));
    return vocabulary;
  }

  Json added_tokens() const {
    Json added = Json::array();
    for (std::size_t id = 0; id < end_; ++id)
      if (is_added(id))
        added.push_back({{"id", id},
                         {"content", text(id)},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false},
                         {"special", type(id) != GgufTokenType::user_defined}});
    return added;
  }

  void add_byte_level(Json& json) {
    const std::string pre = file_.text(kPreKey).value_or("default");
    GgufPretokenizer cut;
    if (!gguf_pretokenizer(pre, cut))
      throw Error("{}: key '{}': '{}' is not supported, the nearest is '{}'; expected one of: {}", where_,
                  kPreKey, printable(pre.substr(0, 64)),
                  nearest_name(pre.substr(0, 64), gguf_pretokenizers()),
                  fmt::join(gguf_pretokenizers(), ", "));
    adds_bos_ = cut.adds_bos;
    if (cut.has_nfc) json["normalizer"] = {{"type", "NFC"}};
    json["pre_tokenizer"] = cut.pre_tokenizer;
    json["decoder"] = {
        {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
    Json merges = Json::array();
    const GgufValue& list = needed_texts(kMergesKey);
    for (std::size_t i = 0; i < list.size(); ++i) merges.push_back(pair_of(*list.text(i), i));
    json["model"] = {{"type", "BPE"}, {"ignore_merges", cut.takes_whole_words}, {"merges", merges}};
  }

  // "left right", whose left token may be a blank itself.
  Json pair_of(std::string_view merge, std::size_t number) const {
    const std::size_t blank = merge.find(' ', 1);
    if (merge.empty() || blank == std::string_view::npos || blank + 1 == merge.size() || !is_utf8(merge))
      throw Error("{}: key '{}': entry {}: expected two tokens with a blank between them, found '{}'", where_,
                  kMergesKey, number, printable(merge));
    return Json::array({std::string(merge.substr(0, blank)), std::string(merge.substr(blank + 1))});
  }

  void add_sentence_piece(Json& json) {
    constexpr const char* kMark = "\u2581";
    adds_bos_ = true;
    const bool has_prefix = file_.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
    Json normalizers = Json::array(), decoders = Json::array();
    if (has_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kMark}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}});
    decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}});
    decoders.push_back({{"type", "ByteFallback"}});
    decoders.push_back({{"type", "Fuse"}});
    if (has_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    json["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
    json["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
    bool has_bytes = false;
    for (std::size_t id = 0; id < tokens_.size(); ++id) has_bytes |= type(id) == GgufTokenType::byte;
    json["model"] = {
        {"type", "BPE"}, {"fuse_unk", true}, {"byte_fallback", has_bytes}, {"merges", merges_of_scores()}};
    const auto unknown = id_of("unknown_token_id", 0);
    if (unknown && *unknown < split_at_) json["model"]["unk_token"] = text(*unknown);
  }

  Json merges_of_scores() const {
    const GgufValue* scores = file_.array(kScoresKey, "numbers");
    if (scores == nullptr || scores->size() != tokens_.size())
      throw Error("{}: key '{}': expected {} scores, one for each token, found {}", where_, kScoresKey,
                  tokens_.size(), scores == nullptr ? 0 : scores->size());
    std::vector<std::string> pieces;
    std::vector<float> ranks;
    std::unordered_map<std::string, bool> is_made;  // by merges: no token that is special or a byte
    for (std::size_t id = 0; id < split_at_; ++id) {
      const double score = *scores->number(id);
      if (std::isnan(score))
        throw Error("{}: key '{}': token {}: expected a number, found NaN", where_, kScoresKey, id);
      pieces.push_back(text(id));
      ranks.push_back(static_cast<float>(score));
      is_made[pieces.back()] |= type(id) == GgufTokenType::normal || type(id) == GgufTokenType::user_defined;
    }
    Json merges = Json::array();
    for (const auto& [left, right] : merges_of(pieces, ranks))
      if (is_made.at(left + right)) merges.push_back(Json::array({left, right}));
    return merges;
  }

  PieceMerges merges_of(const std::vector<std::string>& pieces, const std::vector<float>& ranks) const try {
    return merges_from_scores(pieces, ranks);
  } catch (const Error& error) {
    throw Error("{}: key '{}': {}", where_, kTokensKey, error.what());
  }

  // Nothing where the file has no such key, or -1 there.
  std::optional<std::size_t> id_of(const char* key, std::optional<std::int64_t> fallback = {}) const {
    const std::string name = fmt::format("tokenizer.ggml.{}", key);
    const auto said = file_.integer(name);
    const auto id = said ? said : fallback;
    if (!id || *id == -1 || *id == 0xFFFF'FFFF) return std::nullopt;
    if (*id < 0 || *id >= static_cast<std::int64_t>(tokens_.size())) {
      if (!said) return std::nullopt;
      throw Error("{}: key '{}': expected an id below {}, found {}", where_, name, tokens_.size(), *id);
    }
    return static_cast<std::size_t>(*id);
  }
  std::optional<std::size_t> bos() const { return id_of("bos_token_id", sentence_piece_default(1)); }
  std::optional<std::size_t> eos() const { return id_of("eos_token_id", sentence_piece_default(2)); }
  std::optional<std::int64_t> sentence_piece_default(std::int64_t id) const {
    return file_.text(kModelKey) == "llama" ? std::optional(id) : std::nullopt;
  }

  void add_template(Json& json) const {
    Json single = Json::array(), special = Json::object();
    const auto add = [&](bool is_wanted, std::optional<std::size_t> id) {
      if (!is_wanted || !id) return;
      single.push_back({{"SpecialToken", {{"id", text(*id)}, {"type_id", 0}}}});
      special[text(*id)] = {
          {"id", text(*id)}, {"ids", Json::array({*id})}, {"tokens", Json::array({text(*id)})}};
    };
    add(file_.boolean("tokenizer.ggml.add_bos_token").value_or(adds_bos_), bos());
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    add(file_.boolean("tokenizer.ggml.add_eos_token").value_or(false), eos());
    if (single.size() > 1)
      json["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", single},
                                {"pair", Json::array()},
                                {"special_tokens", special}};
  }

  Json config() const {
    // Transformers rebuilds the tokenizers of some model types by rules of its own, unless this is said.
    Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
    const auto add = [&](const char* name, std::optional<std::size_t> id) {
      if (id && *id < end_) config[name] = text(*id);
    };
    add("bos_token", bos());
    add("eos_token", eos());
    add("unk_token", id_of("unknown_token_id", sentence_piece_default(0)));
    add("pad_token", id_of("padding_token_id"));
    config["add_bos_token"] = file_.boolean("tokenizer.ggml.add_bos_token").value_or(adds_bos_);
    config["add_eos_token"] = file_.boolean("tokenizer.ggml.add_eos_token").value_or(false);
    const auto chat = file_.text("tokenizer.chat_template");
    if (chat && !is_utf8(*chat))
      throw Error("{}: key 'tokenizer.chat_template': expected UTF-8, found other bytes", where_);
    if (chat) config["chat_template"] = *chat;
    return config;
  }

  const GgufFile& file_;
  const std::string where_;
  const GgufValue& tokens_;
  const GgufValue* types_ = nullptr;
  std::size_t split_at_ = 0, end_ = 0;  // tokens of the model alone; all that are used
  bool adds_bos_ = false;
};

}  // namespace

bool has_gguf_tokenizer(const GgufFile& file) {
  const auto model = file.text(kModelKey);
  return file.value(kTokensKey) != nullptr && model != "none" && model != "no_vocab";
}

TokenizerFiles gguf_tokenizer_files(const GgufFile& file) {
  if (!has_gguf_tokenizer(file))
    throw Error("{}: expected a tokenizer (key '{}'), found none", file.where(), kTokensKey);
  return TokenizerMaker(file).make();
}

}  // namespace assay
