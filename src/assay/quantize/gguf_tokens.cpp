#include "assay/quantize/gguf_tokens.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json.h"
#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/gguf_pretokenizer.h"
#include "assay/checkpoint/gguf_tokenizer.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens", kScores = "tokenizer.ggml.scores",
                           kTypes = "tokenizer.ggml.token_type", kMerges = "tokenizer.ggml.merges";

// One entry of the vocabulary, as the file has it.
struct TokenToWrite {
  std::string text;
  GgufTokenType type = GgufTokenType::unused;
  float score = 0;
};

std::string kind_of(const Json& object) {
  const auto at = object.is_object() ? object.find("type") : object.end();
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// The steps of a normalizer or another part, whether they stand in a Sequence or not.
std::vector<Json> steps_of_part(const Json& tokenizer, const char* part, const char* list) {
  const auto at = tokenizer.find(part);
  if (at == tokenizer.end() || at->is_null()) return {};
  if (kind_of(*at) != "Sequence") return {*at};
  const auto steps = at->find(list);
  return steps != at->end() && steps->is_array() ? steps->get<std::vector<Json>>() : std::vector<Json>();
}

bool flag_of(const Json& object, const char* key, bool fallback) {
  const auto at = object.find(key);
  return at != object.end() && at->is_boolean() ? at->get<bool>() : fallback;
}

std::pair<std::string, std::string> merge_of(const Json& merge) {
  if (merge.is_array()) return {merge.at(0).get<std::string>(), merge.at(1).get<std::string>()};
  const auto text = merge.get<std::string>();
  const std::size_t blank = text.find(' ', 1);
  return {text.substr(0, blank), text.substr(blank + 1)};
}

// Writes the keys of one tokenizer. Its documents are those that Tokenizer::from_files() has taken.
class TokensToWrite {
 public:
  TokensToWrite(const ModelSource& source, std::int64_t vocabulary, GgufWriter& writer)
      : source_(source),
        files_(source.tokenizer_files()),
        tokenizer_(Tokenizer::from_files(files_)),
        writer_(writer),
        tokens_(static_cast<std::size_t>(vocabulary)) {}

  std::vector<std::string> write(const std::vector<TokenId>& end_tokens) {
    if (tokenizer_.vocab_size() > static_cast<std::int64_t>(tokens_.size()))
      throw Error("{}: expected a tokenizer of at most {} tokens, the rows of the embedding, found {}",
                  files_.where, tokens_.size(), tokenizer_.vocab_size());
    if (files_.pieces) {
      // Transformers' classes read tokenizer.model with rules of their own, which no key says.
      refuse("tokenizer.model without tokenizer.json");
    } else if (files_.tokenizer) {
      take_tokenizer_json();
    } else {
      take_plain_files();
    }
    fill_up();
    write_vocabulary();
    write_special_tokens(end_tokens);
    write_chat_template();
    return warnings_;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error("{}: a GGUF file keeps byte-level BPE and SentencePiece BPE here: found {}", files_.where,
                what);
  }

  void take_tokenizer_json() {
    const Json& json = files_.tokenizer->content;
    const Json& model = json.at("model");
    const std::string kind = kind_of(model);
    if (!kind.empty() && kind != "BPE") refuse(kind);
    if (!model.contains("merges")) refuse("a model without merges");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (model.contains(key) && model.at(key).is_string() && model.at(key) != "") refuse(key);
    const auto pre = steps_of_part(json, "pre_tokenizer", "pretokenizers");
    const bool is_bytes =
        std::any_of(pre.begin(), pre.end(), [](const Json& step) { return kind_of(step) == "ByteLevel"; });
    for (const auto& [text, id] : model.at("vocab").items())
      set(id.get<std::size_t>(), text, GgufTokenType::normal);
    for (const Json& merge : model.at("merges")) merges_.push_back(merge_of(merge));
    take_added(json);
    if (is_bytes) return set_byte_level(json);
    if (!flag_of(model, "byte_fallback", false)) refuse("BPE without bytes");
    set_sentence_piece(json);
  }

  // vocab.json and merges.txt are byte-level, as GPT-2's.
  void take_plain_files() {
    Json json = {{"model", {{"vocab", files_.vocabulary->content}}},
                 {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}};
    for (const auto& [text, id] : files_.vocabulary->content.items())
      set(id.get<std::size_t>(), text, GgufTokenType::normal);
    std::string_view rest = files_.merges->content;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty() && !line.starts_with("#version")) merges_.push_back(merge_of(std::string(line)));
    }
    for (const auto& [text, id] : files_.added_tokens.content.items())
      if (id.is_number_unsigned()) set(id.get<std::size_t>(), text, GgufTokenType::control);
    set_byte_level(json);
  }

  void set(std::size_t id, const std::string& text, GgufTokenType type) {
    if (id >= tokens_.size())
      throw Error("{}: token '{}': expected an id below {}, found {}", files_.where, printable(text),
                  tokens_.size(), id);
    tokens_[id].text = text;
    tokens_[id].type = type;
  }

  void take_added(const Json& json) {
    const auto added = json.find("added_tokens");
    if (added == json.end()) return;
    for (const Json& token : *added) {
      const auto text = token.at("content").get<std::string>();
      set(token.at("id").get<std::size_t>(), text,
          flag_of(token, "special", false) ? GgufTokenType::control : GgufTokenType::user_defined);
      for (const char* flag : {"lstrip", "rstrip", "single_word"})
        if (flag_of(token, flag, false))
          warnings_.push_back(fmt::format("added token '{}': {} is lost", printable(text), flag));
    }
  }

  // What the tokenizer takes as special, whichever of its files says so.
  void mark_special() {
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (tokens_[id].type == GgufTokenType::normal && tokenizer_.is_special(static_cast<TokenId>(id)))
        tokens_[id].type = GgufTokenType::control;
  }

  void set_byte_level(const Json& json) {
    const Json& model = json.at("model");
    const auto normalizer = steps_of_part(json, "normalizer", "normalizers");
    const bool has_nfc = normalizer.size() == 1 && kind_of(normalizer.front()) == "NFC";
    if (!normalizer.empty() && !has_nfc) refuse("a normalizer that is not NFC");
    const auto pre = gguf_pretokenizer_name(steps_of_part(json, "pre_tokenizer", "pretokenizers"), has_nfc,
                                            flag_of(model, "ignore_merges", false));
    if (!pre) refuse("a pre-tokenizer that none of tokenizer.ggml.pre's names stands for");
    pre_ = *pre;
    mark_special();
  }

  void set_sentence_piece(const Json& json) {
    is_byte_level_ = false;
    has_space_prefix_ = false;
    for (const Json& step : steps_of_part(json, "normalizer", "normalizers"))
      has_space_prefix_ |= kind_of(step) == "Prepend";
    for (const Json& step : steps_of_part(json, "pre_tokenizer", "pretokenizers"))
      if (kind_of(step) == "Metaspace")
        has_space_prefix_ |= step.value("prepend_scheme", std::string("always")) != "never" &&
                             flag_of(step, "add_prefix_space", true);
    // Scores in the order in which merges give tokens.
    std::unordered_map<std::string, float> scores;
    float score = 0;
    for (const auto& [left, right] : merges_) {
      std::string joined = left;
      joined += right;
      if (scores.try_emplace(std::move(joined), score - 1).second) score -= 1;
    }
    const std::string unknown = json.at("model").value("unk_token", std::string());
    for (TokenToWrite& token : tokens_) {
      const auto at = scores.find(token.text);
      token.score = at != scores.end() ? at->second : 0;
      const bool is_byte =
          token.text.size() == 6 && token.text.starts_with("<0x") && token.text.ends_with('>');
      if (is_byte && token.type == GgufTokenType::normal) token.type = GgufTokenType::byte;
      if (!unknown.empty() && token.text == unknown) token.type = GgufTokenType::unknown;
    }
    mark_special();
  }

  // Rows of the embedding without a token get one that is never used, as converters give them.
  void fill_up() {
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (tokens_[id].type == GgufTokenType::unused && tokens_[id].text.empty())
        tokens_[id].text = fmt::format("[PAD{}]", id);
  }

  void write_vocabulary() {
    std::vector<std::string> texts, merges;
    std::vector<float> scores;
    std::vector<std::int32_t> types;
    for (const TokenToWrite& token : tokens_) {
      texts.push_back(token.text);
      scores.push_back(token.score);
      types.push_back(static_cast<std::int32_t>(token.type));
    }
    writer_.add_text("tokenizer.ggml.model", is_byte_level_ ? "gpt2" : "llama");
    writer_.add_text("tokenizer.ggml.pre", is_byte_level_ ? pre_ : "default");
    writer_.add_texts(kTokens, texts);
    if (!is_byte_level_) writer_.add_f32s(kScores, scores);
    writer_.add_i32s(kTypes, types);
    if (!is_byte_level_) return writer_.add_bool("tokenizer.ggml.add_space_prefix", has_space_prefix_);
    for (const auto& [left, right] : merges_) merges.push_back(left + " " + right);
    writer_.add_texts(kMerges, merges);
  }

  // The id of a token that tokenizer_config.json names.
  std::optional<TokenId> named(const char* key) const {
    for (const Json* document : {&files_.config.content, &files_.special_tokens.content}) {
      const auto at = document->find(key);
      if (at == document->end()) continue;
      const Json& content = at->is_object() && at->contains("content") ? at->at("content") : *at;
      if (content.is_string())
        if (const auto id = tokenizer_.id_of(content.get<std::string>())) return id;
    }
    return std::nullopt;
  }

  // At most the one special token that these keys can ask for.
  bool has_one(std::span<const TokenId> added, const std::optional<TokenId>& id,
               std::string_view where) const {
    if (added.empty()) return false;
    if (added.size() == 1 && id == added.front()) return true;
    throw Error("{}: expected at most one special token {} a text, found {}", files_.where, where,
                added.size());
  }

  void write_special_tokens(const std::vector<TokenId>& end_tokens) {
    const auto add = [&](std::string_view name, std::optional<TokenId> id) {
      if (id)
        writer_.add_u32(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<std::uint32_t>(*id));
    };
    const auto added_bos = tokenizer_.bos_tokens(), added_eos = tokenizer_.eos_tokens();
    const auto bos = added_bos.size() == 1 ? std::optional(added_bos.front()) : named("bos_token");
    auto eos = added_eos.size() == 1 ? std::optional(added_eos.front()) : named("eos_token");
    if (!eos && !end_tokens.empty()) eos = end_tokens.front();
    add("bos", bos);
    add("eos", eos);
    add("unknown", named("unk_token"));
    add("padding", named("pad_token"));
    std::vector<TokenId> others;
    for (const TokenId id : end_tokens)
      if (id != eos) others.push_back(id);
    constexpr std::string_view kOthers[] = {"eot", "eom"};
    for (std::size_t i = 0; i < std::min(others.size(), std::size(kOthers)); ++i) add(kOthers[i], others[i]);
    writer_.add_bool("tokenizer.ggml.add_bos_token", has_one(added_bos, bos, "before"));
    writer_.add_bool("tokenizer.ggml.add_eos_token", has_one(added_eos, eos, "after"));
  }

  void write_chat_template() {
    constexpr std::uint64_t kLongest = std::uint64_t{1} << 24;
    const auto at = files_.config.content.find("chat_template");
    if (at != files_.config.content.end() && at->is_string())
      return writer_.add_text("tokenizer.chat_template", at->get<std::string>());
    for (const ModelSource::Companion& each : source_.companions())
      if (each.name == "chat_template.jinja")
        return writer_.add_text("tokenizer.chat_template",
                                each.file.empty() ? each.content : read_text_file(each.file, kLongest));
  }

  const ModelSource& source_;
  const TokenizerFiles files_;
  const Tokenizer tokenizer_;
  GgufWriter& writer_;
  std::vector<TokenToWrite> tokens_;
  std::vector<std::pair<std::string, std::string>> merges_;
  bool is_byte_level_ = true, has_space_prefix_ = true;
  std::string pre_;
  std::vector<std::string> warnings_;
};

// The merges of a tokenizer.json, sorted.
std::vector<std::pair<std::string, std::string>> sorted_merges(const TokenizerFiles& files) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json& merge : files.tokenizer->content.at("model").at("merges"))
    merges.push_back(merge_of(merge));
  std::sort(merges.begin(), merges.end());
  return merges;
}

// Texts that tell tokenizers apart: cases, digits, blanks, contractions, other scripts, bytes.
constexpr std::string_view kProbes[] = {
    "Hello, world! The quick brown fox jumps over the lazy dog.",
    " leading and  two   blanks ",
    "tabs\tand\nlines\n\n\nand\r\nmore  \n  indented",
    "don't we'll I'M they'RE it's",
    "1234567 12 3.14 0x1F 2026-11-27",
    "na\u00efve fa\u00e7ade \u2014 \u6771\u4eac\u90fd \ud55c\uad6d\uc5b4 "
    "\u0420\u0443\u0441\u0441\u043a\u0438\u0439 \u0939\u093f\u0928\u094d\u0926\u0940 "
    "\U0001f642\U0001f468\u200d\U0001f469",
    "def f(x): return x**2  # comment {a: [1, 2]} <b>&amp;</b> a_b-c/d\\e",
    "\u2581mark \u00a0nbsp e\u0301 \ufb01 \u00bd",
    "!!!??? ... ,,, ((())) --- ===",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa xXxXxX ABCdefGHI",
    ""};

// The text that both give other ids, if any.
std::optional<std::string_view> parting_text(const Tokenizer& one, const Tokenizer& other) {
  for (const std::string_view text : kProbes)
    if (one.encode(text) != other.encode(text)) return text;
  return std::nullopt;
}

// By tokenizer.json alone, whatever class of Transformers reads it.
Tokenizer tokenizer_of_the_file(TokenizerFiles files) {
  files.config.content.erase("tokenizer_class");
  files.model_type.clear();
  files.model_class.clear();
  return Tokenizer::from_files(files);
}

}  // namespace

std::vector<std::string> add_gguf_tokens(const ModelSource& source, std::int64_t vocabulary,
                                         const std::vector<TokenId>& end_tokens, GgufWriter& writer) {
  if (source.has_tokenizer()) return TokensToWrite(source, vocabulary, writer).write(end_tokens);
  writer.add_text("tokenizer.ggml.model", "none");
  return {"the model has no tokenizer, and so has the file"};
}

std::string check_gguf_tokens(const ModelSource& source, const ModelSource& written) {
  if (!source.has_tokenizer()) return {};
  const TokenizerFiles files = source.tokenizer_files(), written_files = written.tokenizer_files();
  const Tokenizer before = Tokenizer::from_files(files), after = Tokenizer::from_files(written_files);
  const std::string& where = files.where;
  if (files.tokenizer && sorted_merges(files) != sorted_merges(written_files))
    throw Error(
        "{}: a GGUF file keeps SentencePiece's merges as scores of tokens: expected every pair that joins to "
        "a token, found other merges",
        where);
  for (TokenId id = 0; id < static_cast<TokenId>(before.vocab_size()); ++id)
    if (before.token_text(id) != after.token_text(id) && !before.token_text(id).empty())
      throw Error("{}: token {}: a GGUF file gives '{}' for '{}'", where, id, printable(after.token_text(id)),
                  printable(before.token_text(id)));
  const auto text = parting_text(before, after);
  if (!text) return {};
  if (!files.tokenizer || parting_text(tokenizer_of_the_file(files), after))
    throw Error("{}: a GGUF file cannot keep this tokenizer: it gives other ids for the text '{}'", where,
                printable(*text));
  return fmt::format(
      "the GGUF file splits texts as {} says, where the class that Transformers 5 reads it with gives other "
      "ids "
      "for the text '{}'",
      files.tokenizer->where, printable(*text));
}

}  // namespace assay
