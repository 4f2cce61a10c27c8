// Works out each token's text once; what depends on its neighbours is done as tokens come.
#include "assay/text/decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "assay/text/byte_alphabet.h"
#include "assay/text/normalizer.h"
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

// As the `tokenizers` library cleans up what WordPiece gives.
std::string cleaned_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kReplaced[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [pattern, content] : kReplaced) text = replace_all(text, pattern, content);
  return text;
}

}  // namespace

std::string DecodeStep::apply(std::string_view token, bool is_first, bool is_last) const {
  switch (kind) {
    case Kind::replace:
      return replace_all(token, pattern, content);
    case Kind::marks:
      return replace_all(token, pattern, is_first && is_first_special ? "" : " ");
    case Kind::word_piece: {
      std::string text(token);
      if (!is_first && !pattern.empty() && token.starts_with(pattern))
        text.erase(0, pattern.size());
      else if (!is_first && !pattern.empty())
        text.insert(0, 1, ' ');
      return cleans_up ? cleaned_up(std::move(text)) : text;
    }
    case Kind::spaces:
      return is_first ? std::string(token) : " " + std::string(token);
    case Kind::suffix:
      return pattern.empty() ? std::string(token) : replace_all(token, pattern, is_last ? "" : " ");
    case Kind::strip:
      for (std::size_t i = 0; i < at_start && token.starts_with(pattern); ++i)
        token.remove_prefix(pattern.size());
      for (std::size_t i = 0; i < at_end && token.ends_with(pattern); ++i)
        token.remove_suffix(pattern.size());
      return std::string(token);
  }
  return std::string(token);
}

std::string Decoder::after(std::string text, bool is_first) const {
  for (const DecodeStep& step : rules_.after) text = step.apply(text, is_first, false);
  return text;
}

Decoder::Texts Decoder::texts_of(const std::vector<std::string>& tokens, bool is_first, bool is_last) const {
  Texts made;
  made.texts = tokens;
  if (rules_.joins_bytes) made.byte_values.resize(tokens.size());
  for (std::size_t place = 0; place < tokens.size(); ++place) {
    std::string& text = made.texts[place];
    for (const DecodeStep& step : rules_.before) text = step.apply(text, is_first, is_last);
    if (rules_.joins_bytes) made.byte_values[place] = byte_value(text);
    text = after(std::move(text), is_first);
  }
  return made;
}

Decoder::Decoder(DecodeRules rules, std::vector<std::string> tokens, std::size_t model_tokens)
    : rules_(std::move(rules)) {
  if (rules_.is_byte_level) {
    // Tokens that are only added stand for their text, and so do the model's outside the alphabet.
    for (std::size_t place = 0; place < std::min(model_tokens, tokens.size()); ++place)
      if (auto mapped = from_byte_alphabet(tokens[place])) tokens[place] = *mapped;
    texts_.texts = std::move(tokens);
    return;
  }
  const auto depends_on_place = [](const std::vector<DecodeStep>& steps) {
    return std::any_of(steps.begin(), steps.end(), [](const DecodeStep& step) {
      return step.kind == DecodeStep::Kind::word_piece || step.kind == DecodeStep::Kind::spaces ||
             (step.kind == DecodeStep::Kind::marks && step.is_first_special);
    });
  };
  const bool depends_on_first = depends_on_place(rules_.before) || depends_on_place(rules_.after);
  const bool depends_on_last = std::any_of(rules_.before.begin(), rules_.before.end(), [](const auto& step) {
    return step.kind == DecodeStep::Kind::suffix;
  });
  if (depends_on_first) first_texts_ = texts_of(tokens, true, false);
  if (depends_on_last) last_texts_ = texts_of(tokens, false, true);
  if (depends_on_first && depends_on_last) only_texts_ = texts_of(tokens, true, true);
  texts_ = texts_of(tokens, false, false);
}

void Decoder::append(std::string_view text, DecodeState& state, std::string& out) const {
  const DecodeStep& ends = rules_.ends;
  while (state.stripped < ends.at_start && !text.empty()) {
    if (!text.starts_with(ends.pattern)) {
      state.stripped = ends.at_start;
      break;
    }
    text.remove_prefix(ends.pattern.size());
    ++state.stripped;
  }
  if (ends.at_end == 0) {
    out += text;
    return;
  }
  // What may be the end of the text is held back.
  state.held += text;
  std::size_t keep = state.held.size();
  for (std::size_t i = 0;
       i < ends.at_end && std::string_view(state.held).substr(0, keep).ends_with(ends.pattern); ++i)
    keep -= ends.pattern.size();
  out.append(state.held, 0, keep);
  state.held.erase(0, keep);
}

void Decoder::end_run(DecodeState& state, std::string& out) const {
  if (state.run.empty()) return;
  const std::string run = std::move(state.run);
  state.run.clear();
  const auto emit = [&](std::string text) {
    append(after(std::move(text), !state.has_emitted), state, out);
    state.has_emitted = true;
  };
  if (is_valid_utf8(run)) return emit(run);
  // A run that is not characters throughout is replaced throughout, byte by byte.
  for (std::size_t i = 0; i < run.size(); ++i) emit(std::string(kReplacementCharacter));
}

// Whether a token is the last one shows when another comes: only what both texts begin with is known before.
void Decoder::push_text(const Texts& texts, const Texts& last_texts, std::size_t place, DecodeState& state,
                        std::string& out) const {
  append(state.if_not_last, state, out);
  const std::string &text = texts.texts[place], &last = last_texts.texts[place];
  auto [end, end_of_last] = std::mismatch(text.begin(), text.end(), last.begin(), last.end());
  append(std::string_view(text.begin(), end), state, out);
  state.if_not_last.assign(end, text.end());
  state.if_last.assign(end_of_last, last.end());
}

void Decoder::push(std::size_t place, DecodeState& state, std::string& out) const {
  const bool is_first = !state.has_begun && !first_texts_.texts.empty();
  const Texts& texts = is_first ? first_texts_ : texts_;
  state.has_begun = true;
  if (!texts.byte_values.empty() && texts.byte_values[place] >= 0) {
    state.run += static_cast<char>(static_cast<unsigned char>(texts.byte_values[place]));
    return;
  }
  end_run(state, out);
  state.has_emitted = true;
  if (!last_texts_.texts.empty())
    return push_text(texts, is_first ? only_texts_ : last_texts_, place, state, out);
  append(texts.texts[place], state, out);
}

void Decoder::finish(DecodeState& state, std::string& out) const {
  end_run(state, out);
  append(state.if_last, state, out);
  state.if_not_last.clear();
  state.if_last.clear();
  state.held.clear();
}

}  // namespace assay
