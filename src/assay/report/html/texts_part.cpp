// Generated texts side by side, with the first difference from the baseline's marked.
#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/html/markup.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"

namespace assay::report {

namespace {

constexpr std::size_t kLongestShown = 20000;  // bytes of a text; the rest is in results.json

// One text, and all whose it is.
struct Writing {
  std::string text;
  std::vector<std::string> labels;
};
struct PromptTexts {
  std::string prompt;
  std::vector<Writing> writings;  // the first is the baseline's
};

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// Where b first differs from a, at the beginning of a character.
std::size_t first_difference(const std::string& a, const std::string& b) {
  std::size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  while (at > 0 && ((at < b.size() && is_continuation(b[at])) || (at < a.size() && is_continuation(a[at]))))
    --at;
  return at;
}

std::int64_t characters_in(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); });
}

std::vector<PromptTexts> texts_by_prompt(const ResultSet& results) {
  // The baseline's text stands among those of the precisions too.
  const auto is_repeated = [&](const GeneratedText& text) {
    return text.scenario == Scenario::baseline &&
           std::any_of(results.texts.begin(), results.texts.end(), [&](const GeneratedText& other) {
             return other.prompt == text.prompt && other.scenario == Scenario::tradeoff;
           });
  };
  std::vector<PromptTexts> all;
  for (const GeneratedText& t : results.texts) {
    if (is_repeated(t)) continue;
    auto at =
        std::find_if(all.begin(), all.end(), [&](const PromptTexts& p) { return p.prompt == t.prompt; });
    if (at == all.end()) at = all.insert(all.end(), {t.prompt, {}});
    const std::string label = t.scenario == Scenario::tradeoff ? t.generated_by : t.label;
    const auto same = std::find_if(at->writings.begin(), at->writings.end(),
                                   [&](const Writing& w) { return w.text == t.text; });
    if (same == at->writings.end())
      at->writings.push_back({t.text, {label}});
    else
      same->labels.push_back(label);
  }
  return all;
}

std::string shown_part(std::string_view text) {
  if (text.size() <= kLongestShown) return html_text(text);
  std::size_t end = kLongestShown;
  while (end > 0 && is_continuation(text[end])) --end;
  return html_text(text.substr(0, end)) + "<em>... results.json has the rest</em>";
}

// The first word from `at` on is marked.
std::string marked(const std::string& text, std::size_t at) {
  if (at >= text.size()) return shown_part(text) + "<mark>(ends here)</mark>";
  std::size_t end = text.find_first_of(" \n", at + 1);
  constexpr std::size_t kLongestMark = 40;
  end = std::min({end, at + kLongestMark, text.size()});
  while (end < text.size() && is_continuation(text[end])) ++end;
  return fmt::format("{}<mark>{}</mark>{}", shown_part(text.substr(0, at)),
                     html_text(text.substr(at, end - at)), shown_part(text.substr(end)));
}

std::string names_of(const std::vector<std::string>& labels) {
  std::vector<std::string> shown;
  for (const std::string& label : labels) shown.push_back(one_line(label, 120));
  return joined(shown);
}

// A long text scrolls in a frame, which the keyboard has to reach.
std::string written(const Writing& writing, const std::string& shown) {
  constexpr std::size_t kLong = 900;
  const std::string frame = writing.text.size() <= kLong
                                ? ""
                                : fmt::format(" long\" tabindex=\"0\" role=\"group\" aria-label=\"Text of {}",
                                              html_words(names_of(writing.labels)));
  return fmt::format("<div class=\"written{}\"><bdi>{}</bdi></div>\n</article>\n", frame, shown);
}

}  // namespace

std::string texts_part(const ResultSet& results) {
  std::string text;
  for (const PromptTexts& p : texts_by_prompt(results)) {
    // Edge cases have no prompt of their own here, and nothing to be compared with.
    const bool is_compared = !p.prompt.empty();
    text += html_heading(3, is_compared ? "Prompt: " + one_line(p.prompt, 300) : "Edge-case prompts");
    text += "<div class=\"texts\">\n";
    const Writing& base = p.writings.front();
    for (const Writing& w : p.writings) {
      const bool differs = is_compared && &w != &base;
      const std::size_t at = differs ? first_difference(base.text, w.text) : 0;
      text += fmt::format("<article>\n{}", html_heading(4, names_of(w.labels)));
      if (w.labels.size() > 1)
        text += fmt::format("<p class=\"note\">{} configurations generate this text.</p>\n", w.labels.size());
      if (differs)
        text += fmt::format("<p class=\"note\">Differs from the first text after {}.</p>\n",
                            counted(characters_in(std::string_view(w.text).substr(0, at)), "character"));
      text += written(w, differs ? marked(w.text, at) : shown_part(w.text));
    }
    text += "</div>\n";
  }
  return text;
}

}  // namespace assay::report
