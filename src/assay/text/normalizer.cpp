// Applies the steps one after the other, each to the whole text.
#include "assay/text/normalizer.h"

#include <algorithm>
#include <utility>

#include "assay/base/error.h"
#include "assay/text/byte_alphabet.h"
#include "assay/text/pretokenize.h"
#include "assay/text/utf8.h"
#include "assay/text/vocabulary.h"

namespace assay {

namespace {

std::string strip(std::string text, bool left, bool right) {
  const auto is_space = [&](std::size_t at, std::size_t& length) {
    return char_class(read_valid_utf8(text, at, length)) == CharClass::space;
  };
  std::size_t begin = 0, end = text.size(), length = 0;
  while (left && begin < end && is_space(begin, length)) begin += length;
  while (right && end > begin) {
    const std::size_t last = previous_utf8(text, end);
    if (!is_space(last, length)) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

std::string with_single_blanks(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string replace_matches(std::string_view text, const Regex& pattern, std::string_view content,
                            std::string_view where, RegexBudget& budget) {
  std::string out;
  std::size_t at = 0;
  Regex::Search search(pattern, text, budget);
  while (const auto match = search.next()) {
    out += text.substr(at, match->begin - at);
    out += content;
    at = match->end;
    if (out.size() > Normalizer::kAnyText + Normalizer::kMaxGrowth * text.size())
      throw Error("{}: expected replacements that make a text at most {} times as long, found {}", where,
                  Normalizer::kMaxGrowth, in_quotes(content));
  }
  return out += text.substr(at);
}

}  // namespace

std::string replace_all(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(pattern, at)) != text.npos; at = found + pattern.size()) {
    out += text.substr(at, found - at);
    out += content;
  }
  return out += text.substr(at);
}

Normalizer::Step& Normalizer::add(Step::Kind kind, const std::string& where) {
  if (steps_.size() == kMaxSteps) throw Error("{}: expected at most {} steps, found more", where, kMaxSteps);
  Step& step = steps_.emplace_back();
  step.kind = kind;
  step.where = where;
  return step;
}

void Normalizer::prepend(const std::string& prefix, const std::string& where) {
  prefix_bytes_ += prefix.size();
  if (prefix_bytes_ > kLongestPrefix)
    throw Error("{}: expected prefixes of at most {} bytes, found {}", where, kLongestPrefix,
                in_quotes(prefix));
  if (!prefix.empty()) add(Step::Kind::prepend, where).content = prefix;
}

void Normalizer::replace(const std::string& pattern, const std::string& content, const std::string& where) {
  if (pattern.empty()) throw Error("{}: expected a text to replace, found an empty one", where);
  growth_ *= std::max<std::size_t>(1, (content.size() + pattern.size() - 1) / pattern.size());
  if (growth_ > kMaxGrowth)
    throw Error("{}: expected replacements that make a text at most {} times as long, found {}", where,
                kMaxGrowth, in_quotes(content));
  Step& step = add(Step::Kind::replace, where);
  step.pattern = pattern;
  step.content = content;
}

void Normalizer::replace(Regex pattern, const std::string& content, const std::string& where) {
  Step& step = add(Step::Kind::replace_regex, where);
  step.regex = std::move(pattern);
  step.content = content;
}

void Normalizer::form(NormalForm form, const std::string& where) {
  add(Step::Kind::form, where).form = form;
}

void Normalizer::lower_case(const std::string& where) {
  add(Step::Kind::lower_case, where);
}

void Normalizer::strip_marks(const std::string& where) {
  add(Step::Kind::strip_marks, where);
}

void Normalizer::strip_blanks(bool left, bool right, const std::string& where) {
  Step& step = add(Step::Kind::strip_blanks, where);
  step.strips_left = left;
  step.strips_right = right;
}

void Normalizer::map_characters(Charsmap map, const std::string& where) {
  add(Step::Kind::map_characters, where).map = std::move(map);
}

void Normalizer::bert(const BertText& how, const std::string& where) {
  add(Step::Kind::bert, where).bert_text = how;
}

void Normalizer::nmt(const std::string& where) {
  add(Step::Kind::nmt, where);
}

void Normalizer::to_bytes(const std::string& where) {
  add(Step::Kind::bytes, where);
}

bool Normalizer::maps_bytes() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.kind == Step::Kind::bytes; });
}

void Normalizer::single_blanks(const std::string& where) {
  add(Step::Kind::single_blanks, where);
}

void Normalizer::double_first(const std::string& mark, const std::string& where) {
  add(Step::Kind::double_first, where).content = mark;
}

std::string Normalizer::apply(const Step& step, std::string text, RegexBudget& budget) {
  switch (step.kind) {
    case Step::Kind::prepend:
      return text.empty() ? text : step.content + text;
    case Step::Kind::replace:
      return replace_all(text, step.pattern, step.content);
    case Step::Kind::replace_regex:
      return replace_matches(text, *step.regex, step.content, step.where, budget);
    case Step::Kind::form:
      return to_normal_form(text, step.form);
    case Step::Kind::lower_case:
      return to_lower_case(text);
    case Step::Kind::strip_marks:
      return without_marks(text);
    case Step::Kind::strip_blanks:
      return strip(std::move(text), step.strips_left, step.strips_right);
    case Step::Kind::map_characters:
      return step.map->apply(text, kAnyText + kMaxTotalGrowth * text.size());
    case Step::Kind::bert:
      return to_bert_text(text, step.bert_text);
    case Step::Kind::nmt:
      return to_nmt_text(text);
    case Step::Kind::bytes:
      return to_byte_alphabet(text);
    case Step::Kind::single_blanks:
      return with_single_blanks(text);
    case Step::Kind::double_first:
      return text.starts_with(step.content) ? step.content + text : text;
  }
  return text;
}

std::string Normalizer::normalize(std::string_view text, RegexBudget& budget) const {
  std::string out(text);
  const std::size_t most = kAnyText + kMaxTotalGrowth * text.size();
  for (const Step& step : steps_) {
    out = apply(step, std::move(out), budget);
    if (out.size() > most)
      throw Error("{}: the steps together make more than {} bytes of a text of {}", step.where, most,
                  text.size());
  }
  return out;
}

std::string Normalizer::normalize(std::string_view text) const {
  RegexBudget budget(text.size());
  return normalize(text, budget);
}

}  // namespace assay
