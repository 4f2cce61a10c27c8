#include "assay/text/sentencepiece_spec.h"

#include <memory>
#include <span>
#include <unordered_set>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/base/piece_merges.h"
#include "assay/text/sentencepiece_model.h"
#include "assay/text/tokenizer_json.h"

namespace assay {

namespace {

constexpr const char* kMark = "\xE2\x96\x81";  // U+2581
using PieceType = SentencePieceModel::PieceType;

void decode_characters(TokenizerSpec& spec, bool joins_bytes, bool is_fused, bool strips) {
  spec.decode = {};
  spec.decode.is_byte_level = false;
  spec.decode.before = {{.kind = DecodeStep::Kind::replace, .pattern = kMark, .content = " "}};
  spec.decode.joins_bytes = joins_bytes;
  if (is_fused && strips) {
    spec.decode.ends.pattern = " ";
    spec.decode.ends.at_start = 1;
  }
}

class SentencePieceReader {
 public:
  SentencePieceReader(const TokenizerFiles& files, NamedTokens& defaults)
      : config_(files.config.content, files.config.where),
        where_(files.pieces->where),
        model_(read_sentencepiece_model(files.pieces->content, where_)),
        defaults_(defaults) {}

  TokenizerSpec read(const std::string& class_name) {
    if (class_name == "LlamaTokenizer") {
      read_llama();
    } else if (class_name == "GemmaTokenizer") {
      read_gemma();
    } else if (class_name == "T5Tokenizer") {
      read_t5();
    } else {
      read_any();
    }
    return std::move(spec_);
  }

 private:
  void read_llama() {
    add_pieces();
    add_merges(merges_from_order(texts_));
    set_llama_rules(config_, spec_, defaults_);
    add_special(true);
  }

  void read_gemma() {
    add_pieces();
    add_merges(merges_from_order(texts_));
    spec_.byte_fallback = true;
    spec_.unknown = spec_.vocabulary.find("<unk>");
    spec_.normalizer.replace(" ", kMark, where_);
    decode_characters(spec_, true, true, false);
    defaults_ = {{"bos_token", "<bos>"},
                 {"eos_token", "<eos>"},
                 {"unk_token", "<unk>"},
                 {"pad_token", "<pad>"},
                 {"mask_token", "<mask>"}};
    add_special(true);
  }

  void read_t5() {
    constexpr std::int64_t kMostExtra = 100'000;
    add_pieces();
    const std::int64_t extra = config_.integer_or("extra_ids", 100, 0, kMostExtra);
    for (std::int64_t i = extra - 1; i >= 0; --i) {
      texts_.push_back(fmt::format("<extra_id_{}>", i));
      spec_.vocabulary.add(texts_.back(), static_cast<std::int64_t>(spec_.scores.size()), where_);
      spec_.scores.push_back(0);
    }
    spec_.model_tokens = spec_.vocabulary.size();
    spec_.kind = ModelKind::unigram;
    set_unknown(2);
    map_characters();
    spec_.pre = PreTokenizer({SplitStep{CharSet::blanks, SplitBehavior::removed},
                              Metaspace{.replacement = kMark, .prepend = Metaspace::Prepend::always}});
    spec_.decode.is_byte_level = false;
    spec_.decode.before = {{.kind = DecodeStep::Kind::marks, .pattern = kMark}};
    defaults_ = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
    add_special(true);
    for (std::int64_t i = 0; i < extra; ++i) add_token(fmt::format("<extra_id_{}>", i), true);
    if (const auto end = spec_.vocabulary.find("</s>")) spec_.eos = {*end};
  }

  // As SpmConverter builds it from what the file says.
  void read_any() {
    rename_pieces();
    add_pieces();
    spec_.byte_fallback = model_.byte_fallback;
    std::vector<std::string_view> user_defined;
    for (std::size_t i = 0; i < texts_.size(); ++i)
      if (model_.pieces[i].type == PieceType::user_defined) user_defined.push_back(texts_[i]);
    if (model_.kind == SentencePieceModel::Kind::unigram) {
      spec_.kind = ModelKind::unigram;
      set_unknown(model_.unknown_id);
    } else {
      add_ranked_merges();
      spec_.unknown = spec_.vocabulary.find(model_.unknown_piece);
      spec_.ignore_merges = !user_defined.empty();
    }
    const bool is_legacy = config_.boolean_or("legacy", true);
    normalize_as_said(is_legacy);
    std::vector<PreTokenizer::Step> steps;
    if (model_.adds_dummy_prefix)
      steps.emplace_back(
          Metaspace{.replacement = kMark,
                    .prepend = is_legacy ? Metaspace::Prepend::always : Metaspace::Prepend::first,
                    .splits = false});
    if (!user_defined.empty())
      steps.emplace_back(SplitStep{std::make_shared<const PatternFinder>(user_defined)});
    spec_.pre = PreTokenizer(std::move(steps));
    decode_characters(spec_, model_.byte_fallback, model_.byte_fallback || model_.adds_dummy_prefix,
                      model_.adds_dummy_prefix);
    if (model_.bos_id >= 0) defaults_.emplace_back("bos_token", model_.bos_piece);
    if (model_.eos_id >= 0) defaults_.emplace_back("eos_token", model_.eos_piece);
    if (model_.unknown_id >= 0) defaults_.emplace_back("unk_token", model_.unknown_piece);
    add_special(false);
  }

  // `added_tokens_decoder` may give pieces other names: of placeholders, above all.
  void rename_pieces() {
    if (!config_.has("added_tokens_decoder")) return;
    const JsonView decoder = config_.object("added_tokens_decoder");
    std::unordered_set<std::string> kept;
    for (std::size_t i = 0; i < model_.pieces.size(); ++i)
      if (!decoder.has(std::to_string(i))) kept.insert(model_.pieces[i].text);
    for (std::size_t i = 0; i < model_.pieces.size(); ++i)
      if (const std::string id = std::to_string(i); decoder.has(id))
        if (std::string name = decoder.object(id).text("content"); !kept.contains(name))
          model_.pieces[i].text = std::move(name);
  }

  void add_pieces() {
    for (const SentencePieceModel::Piece& piece : model_.pieces) {
      texts_.push_back(piece.text);
      spec_.vocabulary.add(piece.text, static_cast<std::int64_t>(spec_.scores.size()), where_);
      spec_.scores.push_back(static_cast<double>(piece.score));
    }
    spec_.model_tokens = spec_.vocabulary.size();
  }

  void add_merges(const PieceMerges& merges) {
    spec_.scores.clear();
    spec_.fuse_unknown = true;
    std::size_t number = 0;
    for (const auto& [left, right] : merges)
      spec_.merges.push_back(merge_rule(spec_.vocabulary, left, right, where_ + ": merge", number++));
  }

  void add_ranked_merges() {
    std::vector<std::string> normal;
    std::vector<float> scores;
    for (const SentencePieceModel::Piece& piece : model_.pieces) {
      if (piece.type != PieceType::normal) continue;
      normal.push_back(piece.text);
      scores.push_back(piece.score);
    }
    add_merges(merges_as_ranked(normal, scores));
  }

  void set_unknown(std::int32_t id) {
    if (id < 0 || id >= static_cast<std::int32_t>(spec_.model_tokens))
      throw Error("{}: unk_id: expected the id of a piece, found {}", where_, id);
    spec_.unknown = id;
  }

  void map_characters() {
    if (!model_.charsmap.empty())
      spec_.normalizer.map_characters(Charsmap(model_.charsmap, where_ + ": precompiled_charsmap"), where_);
  }

  void normalize_as_said(bool is_legacy) {
    map_characters();
    if (model_.removes_extra_blanks) spec_.normalizer.single_blanks(where_);
    if (model_.escapes_blanks) spec_.normalizer.replace(" ", kMark, where_);
    // Metaspace puts no mark before a text that begins with one, where SentencePiece does.
    if (model_.adds_dummy_prefix && is_legacy) spec_.normalizer.double_first(kMark, where_);
  }

  void add_token(const std::string& content, bool is_special) {
    AddedToken token;
    token.content = content;
    token.special = is_special;
    spec_.add(std::move(token), where_);
  }

  // Control pieces are found in a text and special; pieces that a user has defined are found. A list of such
  // tokens beside the file stands in their place.
  void add_special(bool takes_user_defined) {
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"})
      if (config_.has(key) && !config_.raw()[key].empty()) return;
    for (const SentencePieceModel::Piece& piece : model_.pieces) {
      const bool is_control = piece.type == PieceType::control;
      if (is_control || (takes_user_defined && piece.type == PieceType::user_defined))
        add_token(piece.text, is_control);
    }
  }

  JsonView config_;
  std::string where_;
  SentencePieceModel model_;
  NamedTokens& defaults_;
  TokenizerSpec spec_;
  std::vector<std::string> texts_;
};

}  // namespace

void set_llama_rules(const JsonView& config, TokenizerSpec& spec, NamedTokens& defaults) {
  spec.byte_fallback = true;
  spec.fuse_unknown = true;
  spec.ignore_merges = false;
  spec.unknown.reset();
  spec.normalizer = {};
  const bool adds_prefix = config.boolean_or("add_prefix_space", true);
  Metaspace metaspace{.replacement = kMark, .splits = false};
  metaspace.prepend = !adds_prefix                         ? Metaspace::Prepend::never
                      : config.boolean_or("legacy", false) ? Metaspace::Prepend::always
                                                           : Metaspace::Prepend::first;
  spec.pre = PreTokenizer({metaspace});
  decode_characters(spec, true, true, adds_prefix);
  defaults = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
}

void set_code_llama_rules(const JsonView& config, const std::string& unknown, TokenizerSpec& spec) {
  NamedTokens ignored;
  set_llama_rules(config, spec, ignored);
  const bool adds_prefix = config.boolean_or("add_prefix_space", true);
  spec.unknown = spec.vocabulary.find(unknown);
  spec.pre =
      PreTokenizer({Metaspace{.replacement = kMark,
                              .prepend = adds_prefix ? Metaspace::Prepend::first : Metaspace::Prepend::never,
                              .splits = false}});
  decode_characters(spec, true, true, true);
}

// Its pre-tokenizer splits at blanks, of which the normalizer leaves none.
void set_gemma_rules(const JsonView& config, const std::string& unknown, TokenizerSpec& spec) {
  spec.byte_fallback = true;
  spec.fuse_unknown = true;
  spec.ignore_merges = false;
  spec.unknown = spec.vocabulary.find(unknown);
  spec.normalizer = {};
  spec.normalizer.replace(" ", kMark, config.where());
  spec.pre = {};
  decode_characters(spec, true, true, false);
}

TokenizerSpec read_sentencepiece(const TokenizerFiles& files, const std::string& class_name,
                                 NamedTokens& defaults) {
  return SentencePieceReader(files, defaults).read(class_name);
}

}  // namespace assay
