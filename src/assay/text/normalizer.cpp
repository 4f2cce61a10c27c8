// Applies the steps one after the other, each to the whole text.
#include "assay/text/normalizer.h"

#include <algorithm>
#include <utility>

#include "assay/base/error.h"
#include "assay/text/vocabulary.h"

namespace assay {

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

void Normalizer::add(Step step, const std::string& where) {
  if (steps_.size() == kMostSteps)
    throw Error("{}: expected at most {} steps, found more", where, kMostSteps);
  steps_.push_back(std::move(step));
}

void Normalizer::prepend(const std::string& prefix, const std::string& where) {
  prefix_bytes_ += prefix.size();
  if (prefix_bytes_ > kLongestPrefix)
    throw Error("{}: expected prefixes of at most {} bytes, found {}", where, kLongestPrefix,
                in_quotes(prefix));
  if (!prefix.empty()) add({Step::Kind::prepend, "", prefix}, where);
}

void Normalizer::replace(const std::string& pattern, const std::string& content, const std::string& where) {
  if (pattern.empty()) throw Error("{}: expected a text to replace, found an empty one", where);
  growth_ *= std::max<std::size_t>(1, (content.size() + pattern.size() - 1) / pattern.size());
  if (growth_ > kLargestGrowth)
    throw Error("{}: expected replacements that make a text at most {} times as long, found {}", where,
                kLargestGrowth, in_quotes(content));
  add({Step::Kind::replace, pattern, content}, where);
}

void Normalizer::nfc(const std::string& where) {
  add({Step::Kind::nfc, "", ""}, where);
}

std::string Normalizer::normalize(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) {
    if (step.kind == Step::Kind::replace) out = replace_all(out, step.pattern, step.content);
    if (step.kind == Step::Kind::nfc) out = to_nfc(out);
    if (step.kind == Step::Kind::prepend && !out.empty()) out.insert(0, step.content);
  }
  return out;
}

}  // namespace assay
