// Decoders: what is done to each token, then to runs of bytes, to what they became, and to the whole text.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "assay/base/error.h"
#include "assay/text/tokenizer_components.h"

namespace assay {

namespace {

constexpr std::size_t kMaxDecodeSteps = 16;

class DecoderReader {
 public:
  DecoderReader(const std::vector<Component>& all, std::string where) : all_(all), where_(std::move(where)) {
    rules_.is_byte_level = false;
  }

  DecodeRules read() {
    if (all_.size() > kMaxDecodeSteps)
      throw Error("{}: decoder: expected at most {} steps, found {}", where_, kMaxDecodeSteps, all_.size());
    for (const auto& [type, view] : all_) {
      if (type == "Replace") {
        add(read_replace(view));
      } else if (type == "Metaspace") {
        const Metaspace metaspace = read_metaspace(view);
        add({.kind = DecodeStep::Kind::marks,
             .pattern = metaspace.replacement,
             .is_first_special = metaspace.prepend != Metaspace::Prepend::never});
      } else if (type == "WordPiece") {
        add({.kind = DecodeStep::Kind::word_piece,
             .pattern = view.text_or("prefix", "##"),
             .cleans_up = view.boolean_or("cleanup", true)});
      } else if (type == "BPEDecoder") {
        add({.kind = DecodeStep::Kind::suffix, .pattern = view.text_or("suffix", "</w>")});
        needs_last_ = true;
      } else if (type == "Strip") {
        read_strip(view);
      } else if (type == "ByteFallback" && !rules_.joins_bytes && !is_fused_) {
        rules_.joins_bytes = true;
      } else if (type == "Fuse" && !is_fused_) {
        is_fused_ = true;
      } else {
        refuse();
      }
    }
    // The last of a run of bytes is no token of its own.
    if (needs_last_ && rules_.joins_bytes) refuse();
    return std::move(rules_);
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error(
        "{}: unsupported decoder {}: expected ByteLevel, or a Sequence of Replace, Metaspace, WordPiece, "
        "Strip and one of ByteFallback and BPEDecoder, then Fuse, then Strip",
        where_, types_of(all_));
  }

  void add(DecodeStep step) {
    if (is_fused_) refuse();
    (rules_.joins_bytes ? rules_.after : rules_.before).push_back(std::move(step));
  }

  DecodeStep read_replace(const JsonView& view) {
    bool is_regex = false;
    DecodeStep step{.kind = DecodeStep::Kind::replace, .pattern = pattern_text(view, is_regex)};
    if (is_regex)
      throw Error("{}: pattern: unsupported regular expression {}: expected a String", view.where(),
                  in_quotes(step.pattern));
    step.content = view.text("content");
    growth_.replace(step.pattern, step.content, view.where());  // refuses what grows too much
    return step;
  }

  void read_strip(const JsonView& view) {
    constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
    DecodeStep step{.kind = DecodeStep::Kind::strip, .pattern = one_character(view, "content")};
    step.at_start = static_cast<std::size_t>(view.integer("start", 0, kMax));
    step.at_end = static_cast<std::size_t>(view.integer("stop", 0, kMax));
    if (!is_fused_) return add(std::move(step));
    if (has_ends_) refuse();
    has_ends_ = true;
    rules_.ends = std::move(step);
  }

  const std::vector<Component>& all_;
  std::string where_;
  DecodeRules rules_;
  Normalizer growth_;
  bool is_fused_ = false, has_ends_ = false, needs_last_ = false;
};

}  // namespace

void read_decoder(const JsonView& file, TokenizerSpec& spec) {
  const std::vector<Component> all = components(file, "decoder", "decoders");
  if (spec.words != WordForm::characters) {
    if (!all.empty() && (all.size() > 1 || all[0].type != "ByteLevel"))
      throw Error("{}: unsupported decoder {}: expected ByteLevel", file.where(), types_of(all));
    return;
  }
  if (all.size() == 1 && all[0].type == "ByteLevel") return;
  spec.decode = DecoderReader(all, file.where()).read();
  // Without a decoder the library puts blanks between tokens.
  if (all.empty()) spec.decode.before.push_back({.kind = DecodeStep::Kind::spaces});
}

}  // namespace assay
