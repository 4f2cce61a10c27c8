// Pre-tokenizers: the steps of the file, each by its type.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/text/tokenizer_components.h"

namespace assay {

namespace {

SplitBehavior read_behavior(const JsonView& view, const std::string& name) {
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw Error(
      "{}: behavior: expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, found {}",
      view.where(), in_quotes(name));
}

// Whether all that a pattern without gaps matches becomes a word of its own.
bool isolates_matches(const SplitStep& step) {
  return step.behavior == SplitBehavior::isolated ||
         (step.behavior == SplitBehavior::removed && step.inverts);
}

SplitStep read_split(const JsonView& view) {
  SplitStep step;
  step.behavior = read_behavior(view, view.text("behavior"));
  step.inverts = view.boolean_or("invert", false);
  bool is_regex = false;
  std::string pattern = pattern_text(view, is_regex);
  const auto known = is_regex && isolates_matches(step) ? word_pattern(pattern) : std::nullopt;
  if (known) {
    step.matches = *known;
  } else if (is_regex || pattern.empty()) {
    step.matches = Regex(pattern, view.where());
  } else {
    step.matches = std::move(pattern);
  }
  return step;
}

ByteLevelStep read_byte_level(const JsonView& view) {
  return {.adds_prefix_space = view.boolean_or("add_prefix_space", true),
          .splits = view.boolean_or("use_regex", true)};
}

PreTokenizer::Step read_step(const Component& component, const JsonView& file) {
  const auto& [type, view] = component;
  if (type == "Split") return read_split(view);
  if (type == "ByteLevel") return read_byte_level(view);
  if (type == "Metaspace") return read_metaspace(view);
  if (type == "Digits")
    return SplitStep{CharSet::numbers, view.boolean_or("individual_digits", false)
                                           ? SplitBehavior::isolated
                                           : SplitBehavior::contiguous};
  if (type == "Punctuation")
    return SplitStep{CharSet::punctuation, read_behavior(view, view.text_or("behavior", "Isolated"))};
  if (type == "Whitespace") return SplitStep{WordsAndSymbols{}, SplitBehavior::removed, true};
  if (type == "WhitespaceSplit") return SplitStep{CharSet::blanks, SplitBehavior::removed};
  if (type == "FixedLength")
    return FixedLengthStep{
        static_cast<std::size_t>(view.integer_or("length", 5, 1, std::numeric_limits<std::uint32_t>::max()))};
  if (type == "CharDelimiterSplit")
    return SplitStep{one_character(view, "delimiter"), SplitBehavior::removed};
  throw Error(
      "{}: unsupported pre_tokenizer {}: expected ByteLevel, Split, Metaspace, Digits, Punctuation, "
      "Whitespace, WhitespaceSplit, CharDelimiterSplit, FixedLength or BertPreTokenizer",
      file.where(), short_text(type));
}

}  // namespace

void read_pre_tokenizer(const JsonView& file, TokenizerSpec& spec, std::optional<bool> adds_prefix_space) {
  constexpr int kMostByteLevels = 2;  // each makes a text up to twice as long
  const std::vector<Component> all = components(file, "pre_tokenizer", "pretokenizers");
  if (all.size() > PreTokenizer::kMaxSteps)
    throw Error("{}: pre_tokenizer: expected at most {} steps, found {}", file.where(),
                PreTokenizer::kMaxSteps, all.size());
  std::vector<PreTokenizer::Step> steps;
  const auto is_bytes = [](const Component& component) { return component.type == "ByteLevel"; };
  const auto count = std::count_if(all.begin(), all.end(), is_bytes);
  // Steps after it, a second one among them, see characters of the byte alphabet.
  if (count > kMostByteLevels)
    throw Error("{}: pre_tokenizer: expected ByteLevel at most {} times, found it {} times", file.where(),
                kMostByteLevels, count);
  // With a prefix or suffix the symbols of BPE are no single bytes.
  const bool is_on_bytes = spec.kind == ModelKind::bpe && count == 1 && is_bytes(all.back()) &&
                           spec.bpe_prefix.empty() && spec.bpe_suffix.empty();
  if (count > 0) spec.words = is_on_bytes ? WordForm::bytes : WordForm::mapped_bytes;
  for (const Component& component : all) {
    if (component.type == "BertPreTokenizer") {
      steps.emplace_back(SplitStep{CharSet::blanks, SplitBehavior::removed});
      steps.emplace_back(SplitStep{CharSet::punctuation, SplitBehavior::isolated});
      continue;
    }
    steps.push_back(read_step(component, file));
    if (auto* bytes = std::get_if<ByteLevelStep>(&steps.back())) {
      bytes->maps = spec.words == WordForm::mapped_bytes;
      bytes->adds_prefix_space = adds_prefix_space.value_or(bytes->adds_prefix_space);
    }
  }
  spec.pre = PreTokenizer(std::move(steps));
}

}  // namespace assay
