// Works out each token's text once; what depends on its neighbours is done as tokens come.
#include "assay/text/decoder.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "assay/text/byte_alphabet.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

// The byte that a token of the form <0xNN> stands for; -1 for any other.
std::int16_t byte_value(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  std::int16_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  return error == std::errc() && end == text.data() + 5 && value >= 0 ? value : std::int16_t{-1};
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = read_utf8(text, at);
    if (step.kind != Utf8Kind::good) return false;
    at += step.length;
  }
  return true;
}

}  // namespace

Decoder::Decoder(DecodeRules rules, std::vector<std::string> tokens, std::size_t model_tokens)
    : rules_(std::move(rules)), texts_(std::move(tokens)) {
  using Kind = DecodeRules::Kind;
  if (rules_.kind == Kind::metaspace && rules_.drops_first_marks) first_texts_.resize(texts_.size());
  if (rules_.joins_bytes) byte_values_.resize(texts_.size());
  for (std::size_t place = 0; place < texts_.size(); ++place) {
    std::string& text = texts_[place];
    if (rules_.kind == Kind::byte_level) {
      // Tokens that are only added stand for their text, and so do the model's outside the alphabet.
      if (auto mapped = place < model_tokens ? from_byte_alphabet(text) : std::nullopt) text = *mapped;
    } else if (rules_.kind == Kind::metaspace) {
      if (rules_.drops_first_marks) first_texts_[place] = replace_all(text, rules_.mark, "");
      text = replace_all(text, rules_.mark, " ");
    } else {
      text = rules_.replacements.normalize(text);
      if (rules_.joins_bytes) byte_values_[place] = byte_value(text);
    }
  }
}

void Decoder::append(std::string_view text, DecodeState& state, std::string& out) const {
  while (state.stripped < rules_.most_stripped && !text.empty()) {
    if (!text.starts_with(rules_.strip)) {
      state.stripped = rules_.most_stripped;
      break;
    }
    text.remove_prefix(rules_.strip.size());
    ++state.stripped;
  }
  out += text;
}

void Decoder::end_run(DecodeState& state, std::string& out) const {
  if (state.run.empty()) return;
  if (is_valid_utf8(state.run)) {
    append(state.run, state, out);
  } else {
    // A run that is not characters throughout is replaced throughout, byte by byte.
    for (std::size_t i = 0; i < state.run.size(); ++i) append(kReplacementCharacter, state, out);
  }
  state.run.clear();
}

void Decoder::push(std::size_t place, DecodeState& state, std::string& out) const {
  if (!byte_values_.empty() && byte_values_[place] >= 0) {
    state.run += static_cast<char>(static_cast<unsigned char>(byte_values_[place]));
    return;
  }
  end_run(state, out);
  const bool is_first = !state.has_begun;
  state.has_begun = true;
  append(is_first && !first_texts_.empty() ? first_texts_[place] : texts_[place], state, out);
}

void Decoder::finish(DecodeState& state, std::string& out) const {
  end_run(state, out);
}

}  // namespace assay
