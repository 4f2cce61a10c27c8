// Generated texts side by side, with the first difference from the baseline's marked.
#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/generated_texts.h"
#include "assay/report/html/markup.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"

namespace assay::report {

namespace {

constexpr std::size_t kLongestShown = 20000;  // bytes of a text; the rest is in results.json

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
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
  const std::size_t end = end_of_difference(text, at);
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
  if (const auto degradation = visible_degradation(results))
    text += html_paragraph(sentence_of(*degradation));
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
      if (const std::string repetition = is_compared ? repetition_of(w, base) : ""; !repetition.empty())
        text += fmt::format("<p class=\"note\">{}</p>\n", html_words(repetition));
      text += written(w, differs ? marked(w.text, at) : shown_part(w.text));
    }
    text += "</div>\n";
  }
  return text;
}

}  // namespace assay::report
