#include "assay/text/special_tokens.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/text/tokenizer_json.h"

namespace assay {

namespace {

// In the order in which Transformers adds them.
constexpr std::array<std::string_view, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                    "pad_token", "cls_token", "mask_token"};

// A token as these files write one: its text, which is special then, or an object with flags.
std::optional<AddedToken> token_of(const Json& value, const std::string& where) {
  AddedToken token;
  token.special = true;
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    return token;
  }
  if (!value.is_object())
    throw Error("{}: expected a token's text, found {}", where, in_quotes(shown_value(value)));
  const JsonView view(value, where);
  token = read_added_token(view, 0, false);
  token.id = -1;
  token.normalized = view.boolean_or("normalized", !token.special);
  return token;
}

class SpecialTokens {
 public:
  SpecialTokens(const TokenizerFiles& files, TokenizerSpec& spec) : files_(files), spec_(spec) {
    config_says_all_ = JsonView(files.config.content, files.config.where).has("added_tokens_decoder");
  }

  void read(const NamedTokens& defaults) {
    read_named(files_.config);
    if (!config_says_all_) read_named(files_.special_tokens);
    for (const auto& [key, content] : defaults) {
      if (names_key(key)) continue;
      set(std::string(key), *token_of(Json(content), ""));
      defaults_.push_back(content);
    }
    read_added();
    add_all();
    spec_.splits_special =
        JsonView(files_.config.content, files_.config.where).boolean_or("split_special_tokens", false);
    if (const AddedToken* end = named("eos_token")) spec_.end_of_text = spec_.vocabulary.find(end->content);
    if (const AddedToken* begin = named("bos_token"))
      spec_.beginning_of_text = spec_.vocabulary.find(begin->content);
    if (!spec_.end_of_text) spec_.end_of_text = spec_.vocabulary.find(kEndOfText);
    if (!files_.tokenizer) read_around();
  }

 private:
  void set(const std::string& key, AddedToken token) {
    const auto same = [&](const auto& entry) { return entry.first == key; };
    const auto found = std::find_if(named_.begin(), named_.end(), same);
    if (found != named_.end()) {
      found->second = std::move(token);
    } else {
      named_.emplace_back(key, std::move(token));
    }
  }

  const AddedToken* named(std::string_view key) const {
    for (const auto& [name, token] : named_)
      if (name == key) return &token;
    return nullptr;
  }

  bool is_named(const std::string& content) const {
    return std::any_of(named_.begin(), named_.end(),
                       [&](const auto& entry) { return entry.second.content == content; });
  }

  // null counts: it says that there is none.
  bool names_key(std::string_view key) const {
    return files_.config.content.contains(key) ||
           (!config_says_all_ && files_.special_tokens.content.contains(key));
  }

  void read_named(const TokenizerFiles::Document& document) {
    // Names of their own: clang 14 captures no structured binding.
    const Json& file = document.content;
    const std::string& where = document.where;
    const auto read_key = [&](std::string_view key) {
      if (auto token = token_of(file[key], fmt::format("{}: {}", where, key))) {
        token->special = true;
        set(std::string(key), std::move(*token));
      }
    };
    for (const std::string_view key : kNames)
      if (file.contains(key)) read_key(key);
    // Those of one model alone, such as image_token, are texts: other keys end so too (add_bos_token).
    for (const auto& [key, value] : file.items()) {
      const bool is_known = std::find(kNames.begin(), kNames.end(), key) != kNames.end();
      if (!is_known && key.ends_with("_token") && value.is_string()) read_key(key);
    }
    const bool has_new_key = file.contains("extra_special_tokens") && !file["extra_special_tokens"].empty();
    const char* key = has_new_key ? "extra_special_tokens" : "additional_special_tokens";
    if (!file.contains(key) || !file[key].is_structured()) return;
    for (const Json& value : file[key])  // for an object, the values
      if (auto token = token_of(value, fmt::format("{}: {}", where, key)))
        extra_.push_back(std::move(*token));
  }

  void read_added() {
    const JsonView config(files_.config.content, files_.config.where);
    if (config_says_all_) {
      const JsonView decoder = config.object("added_tokens_decoder");
      for (const auto& [id, token] : decoder.raw().items()) {
        const bool is_number = !id.empty() && id.size() <= 9 && id.find_first_not_of("0123456789") == id.npos;
        if (!is_number) throw Error("{}: expected ids as keys, found {}", decoder.where(), in_quotes(id));
        const JsonView view = decoder.object(id);
        AddedToken read = read_added_token(view, std::stoll(id), false);
        read.normalized = view.boolean_or("normalized", !read.special);
        added_.emplace(read.id, std::move(read));
      }
      return;
    }
    const auto& [added, where] = files_.added_tokens;
    for (const auto& [text, id] : added.items()) {
      AddedToken token;
      token.content = text;
      token.id = static_cast<TokenId>(JsonView(added, where).integer(text, 0, Vocabulary::kMaxId));
      token.special = is_named(text) || is_extra(text);
      token.normalized = !token.special;
      if (!added_.emplace(token.id, token).second)
        throw Error("{}: token {}: expected an id of its own, found {}", where, in_quotes(text), token.id);
    }
    for (const AddedToken& token : spec_.added) {  // those of tokenizer.json stand as they are
      added_.erase(token.id);
      if (!token.special && is_named(token.content)) added_.emplace(token.id, token);
    }
  }

  bool is_extra(const std::string& content) const {
    return std::any_of(extra_.begin(), extra_.end(),
                       [&](const AddedToken& token) { return token.content == content; });
  }

  void add_all() {
    for (const auto& [id, token] : added_) {
      AddedToken read = token;
      read.special = read.special || is_named(read.content);
      spec_.add(std::move(read), config_says_all_ ? files_.config.where : files_.added_tokens.where);
    }
    const auto add_missing = [&](AddedToken token, bool is_config) {
      // What only the class names adds no token to a vocabulary.
      const bool is_default = std::find(defaults_.begin(), defaults_.end(), token.content) != defaults_.end();
      if (!spec_.is_added(token.content) && (!is_default || spec_.vocabulary.find(token.content)))
        spec_.add(std::move(token), is_config ? files_.config.where : files_.special_tokens.where);
    };
    for (const std::string_view key : kNames)
      if (const AddedToken* token = named(key)) add_missing(*token, files_.config.content.contains(key));
    for (const auto& [key, token] : named_) add_missing(token, files_.config.content.contains(key));
    for (const AddedToken& token : extra_) add_missing(token, true);
  }

  // The tokens that `add_bos_token` and `add_eos_token` put around a text.
  void read_around() {
    const JsonView config(files_.config.content, files_.config.where);
    const auto read = [&](const char* adds, const char* key, std::vector<TokenId>& out) {
      if (!config.boolean_or(adds, false)) return;
      const AddedToken* token = named(key);
      if (token == nullptr) return;  // Transformers adds none then
      const auto id = spec_.vocabulary.find(token->content);
      if (!id)
        throw Error("{}: {} is true, but {} {} is not in the vocabulary", config.where(), adds, key,
                    in_quotes(token->content));
      out.push_back(*id);
    };
    read("add_bos_token", "bos_token", spec_.bos);
    read("add_eos_token", "eos_token", spec_.eos);
  }

  const TokenizerFiles& files_;
  TokenizerSpec& spec_;
  bool config_says_all_ = false;
  std::vector<std::pair<std::string, AddedToken>> named_;
  std::vector<AddedToken> extra_;
  std::vector<std::string> defaults_;
  std::map<TokenId, AddedToken> added_;
};

}  // namespace

void read_special_tokens(const TokenizerFiles& files, const NamedTokens& defaults, TokenizerSpec& spec) {
  SpecialTokens(files, spec).read(defaults);
}

}  // namespace assay
