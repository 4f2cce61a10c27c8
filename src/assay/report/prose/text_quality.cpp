// What generated texts show of quality.
#include "assay/base/format.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"

namespace assay::report {

namespace {

std::string quoted_text(const std::string& text) {
  constexpr std::size_t kLongest = 240;  // escapes included
  return fmt::format("\"{}\"", one_line(text, kLongest));
}

// What shows it, of the subject: a clause.
std::string what_shows_it(const VisibleDegradation& found) {
  if (found.times > 0)
    return fmt::format(
        "after {} its text ends in a phrase that stands {} times in a row, {}, where that of {} "
        "does not",
        quoted_text(found.prompt), found.times, quoted_text(found.quoted), in_sentence(found.baseline));
  std::string text = fmt::format("its perplexity is {:.2g} times that of {}", found.perplexity_ratio,
                                 in_sentence(found.baseline));
  if (!found.quoted.empty())
    text += fmt::format(", and after {} it goes on with {}", quoted_text(found.prompt),
                        quoted_text(found.quoted));
  return text;
}

}  // namespace

std::string sentence_of(const VisibleDegradation& found) {
  const std::string prompts = counted(found.prompts, "prompt");
  switch (found.kind) {
    case VisibleDegradation::Kind::from:
      return fmt::format("Degradation is visible from {}{} on: {}.", in_sentence(found.subject),
                         found.weights_bytes > 0
                             ? fmt::format(" ({} of weights)", shown_mebibytes(found.weights_bytes))
                             : "",
                         what_shows_it(found));
    case VisibleDegradation::Kind::undecided:
      return fmt::format(
          "From {} it is undecided at which precision degradation becomes visible. It shows in {}: {}; but "
          "{}.",
          prompts, in_sentence(found.subject), what_shows_it(found),
          found.better.empty()
              ? "after another prompt it is the other way round"
              : in_sentence(found.better) + " is smaller, and its texts are not visibly worse");
    case VisibleDegradation::Kind::none:
      break;
  }
  std::string text = fmt::format(
      "In {} no precision shows visible degradation: none ends in a repeated phrase more often than {}, and ",
      prompts, in_sentence(found.baseline));
  text += found.has_perplexity
              ? fmt::format("no perplexity is shown to be {:.2g} times as high.", kVisibleRatio)
              : "perplexities were not measured.";
  if (!found.steadier.empty())
    text += fmt::format(" {} repeats itself where {} does not.", at_start(found.baseline),
                        in_sentence(found.steadier));
  return text;
}

}  // namespace assay::report
