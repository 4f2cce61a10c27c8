// What studies found out.
#include <algorithm>
#include <cmath>

#include "assay/base/format.h"
#include "assay/report/prose/prose.h"

namespace assay::report {

namespace {

using Sentences = std::vector<std::string>;

Sentences said(const NoiseFinding& found) {
  const NoiseEstimate& noise = found.noise;
  std::string text = fmt::format(
      "A/A run: equal configurations in {} processes differ by {:+.1f} %. The standard deviation is "
      "{:.1f} % between processes and {:.1f} % between runs of a process. With a power of 90 %, one "
      "comparison of as many processes detects a difference of {:.1f} %",
      noise.processes, 100 * noise.bias, 100 * noise.between, 100 * noise.within,
      100 * noise.detectable_difference);
  if (found.median_detectable_difference)
    text += fmt::format("; the median comparison of this run, corrected for multiplicity, detects {:.1f} %",
                        100 * *found.median_detectable_difference);
  return {text + "."};
}

// A passage that is repeated more than in the baseline's text.
std::string repetition(const TextDivergence::Prompt& prompt) {
  if (!repeats_more(prompt)) return "";
  return fmt::format(" (a repeated passage makes up {:.0f} % of it, more than in the baseline's)",
                     100 * prompt.repeated_share);
}

Sentences said(const TextDivergence& found) {
  std::vector<std::string> parts;
  bool has_diverged = false;
  for (std::size_t i = 0; i < found.prompts.size(); ++i) {
    const TextDivergence::Prompt& prompt = found.prompts[i];
    has_diverged = has_diverged || prompt.has_diverged();
    parts.push_back(prompt.has_diverged()
                        ? fmt::format("prompt {} after {} token{}{}", i + 1, prompt.equal_tokens,
                                      prompt.equal_tokens == 1 ? "" : "s", repetition(prompt))
                        : fmt::format("prompt {} not at all{}", i + 1, repetition(prompt)));
  }
  if (!has_diverged)
    return {fmt::format("{} does not diverge from the baseline's text.", at_start(found.subject))};
  return {fmt::format("{} diverges from the baseline's text: {}.", at_start(found.subject),
                      fmt::join(parts, ", "))};
}

// "rises in 2, stays within 2 % in 1".
std::string counted_verdicts(const std::vector<Comparison>& steps) {
  std::vector<std::string> found;
  const auto add = [&](Verdict verdict, const std::string& what) {
    const auto count =
        std::count_if(steps.begin(), steps.end(), [&](const Comparison& c) { return c.verdict == verdict; });
    if (count > 0) found.push_back(fmt::format("{} in {}", what, count));
  };
  double margin = 0;
  for (const Comparison& c : steps) margin = std::max(margin, c.margin);
  add(Verdict::higher, "rises");
  add(Verdict::no_difference, fmt::format("stays within {:.2g} %", 100 * margin));
  add(Verdict::cannot_tell, "is undecided");
  add(Verdict::too_few, "has too few processes for a verdict");
  add(Verdict::lower, "falls");
  return fmt::format("{}", fmt::join(found, ", "));
}

Sentences said(const LengthTrend& found) {
  Sentences sentences{fmt::format("From one prompt length to the next, latency {} of {} comparisons.",
                                  counted_verdicts(found.steps), found.steps.size())};
  std::vector<std::string> falls;
  for (const Comparison& c : found.steps)
    if (c.verdict == Verdict::lower) falls.push_back(sentence_of(c));
  if (!falls.empty())
    sentences.push_back(
        fmt::format("A longer prompt takes less time than a shorter one: {}.", fmt::join(falls, "; ")));
  return sentences;
}

// Nanoseconds in the unit that leaves less than a thousand of it.
std::string shown_nanoseconds(double value) {
  const double size = std::abs(value);
  if (size < 999.5) return fmt::format("{:.3g} ns", size);
  return size < 999.5e3 ? fmt::format("{:.3g} us", size / 1e3) : fmt::format("{:.4g} ms", size / 1e6);
}

Sentences said(const StepFit& fit) {
  const auto sign = [](double x) { return x < 0 ? '-' : '+'; };
  std::string text = fmt::format("{:.4g} ms {} {} per position", fit.coefficients[0],
                                 sign(fit.coefficients[1]), shown_nanoseconds(1e6 * fit.coefficients[1]));
  const bool is_quadratic = fit.coefficients.size() > 2;
  if (is_quadratic)
    text += fmt::format(" {} {} per position squared", sign(fit.coefficients[2]),
                        shown_nanoseconds(1e6 * fit.coefficients[2]));
  return {fmt::format("{} the KV cache, a decode step takes {} (R2 {:.2f}){}.",
                      fit.cache ? "With" : "Without", text, fit.r2,
                      is_quadratic ? " in a quadratic fit" : "")};
}

Sentences said(const StepCrossing& crossing) {
  return {fmt::format(
      "The fitted lines cross at position {:.0f}, within the measured {:.0f} to {:.0f}; beyond it a step "
      "with the KV cache is faster.",
      crossing.position, crossing.first, crossing.last)};
}

Sentences said(const CacheWithoutGain& found) {
  return {fmt::format("The KV cache does not help: {}.", sentence_of(found.comparison))};
}

Sentences said(const PaddingOverhead& found) {
  const double percent = found.computed_tokens > 0 ? 100 * static_cast<double>(found.padding_tokens) /
                                                         static_cast<double>(found.computed_tokens)
                                                   : 0;
  return {fmt::format("{}: {} of {} computed prompt tokens are padding ({:.0f} %).",
                      at_start(found.comparison.subject), found.padding_tokens, found.computed_tokens,
                      percent)};
}

Sentences said(const SlowerBatch& found) {
  return {fmt::format("The same prompts take longer in a larger batch: {}.", sentence_of(found.comparison))};
}

Sentences said(const KvCacheSaving& found) {
  std::string text = fmt::format("Keys and values in {} take {:.2f} times the memory of {}.",
                                 in_sentence(found.subject), found.memory_ratio, in_sentence(found.baseline));
  if (found.decode_step) text += fmt::format(" Decode steps: {}.", sentence_of(*found.decode_step));
  return {text};
}

Sentences said(const EdgeDifference& found) {
  return {fmt::format("{}: {} explains {:.0f} % of the difference (prompts of {} and {} tokens).",
                      sentence_of(found.comparison), found.phase, found.percent, found.prompt_tokens,
                      found.typical_prompt_tokens)};
}

Sentences said(const ThreadChoice& found) {
  std::string text =
      fmt::format("Use {}: {}", in_sentence(found.chosen),
                  found.is_fastest ? "this number is the fastest" : "no larger number is shown to be faster");
  if (found.with_fewest)
    text += fmt::format(", {} than {}", factor_with_interval(*found.with_fewest),
                        in_sentence(found.with_fewest->baseline));
  return {text + "."};
}

Sentences said(const TaskFlips& found) {
  const std::int64_t flips = found.to_wrong + found.to_right;
  if (flips == 0)
    return {fmt::format("{} answers {} of the task as {} does.", at_start(found.subject),
                        found.items == 1 ? "the 1 item" : fmt::format("all {} items", found.items),
                        in_sentence(found.baseline))};
  return {fmt::format(
      "{} flips {} of {} of the task: {} from right to wrong and {} from wrong to right. Its accuracy "
      "changes by {:+.1f} points against {} (95 % interval {:+.1f} to {:+.1f}), {} (McNemar, p = {:.2g}). "
      "With as many flips, {} show{} a change of {:.1f} points nine times in ten.",
      at_start(found.subject), flips, counted(found.items, "item"), found.to_wrong, found.to_right,
      100 * found.change, in_sentence(found.baseline), 100 * found.low, 100 * found.high,
      found.is_shown ? "which is more than chance" : "which may be chance", found.p_value,
      counted(found.items, "item"), found.items == 1 ? "s" : "", 100 * found.detectable_change)};
}

// It is a takeaway.
Sentences said(const KlComparison&) {
  return {};
}

Sentences said(const StatedFinding& found) {
  return {found.text};
}

}  // namespace

bool repeats_more(const TextDivergence::Prompt& prompt) {
  constexpr double kRepetitive = 0.5, kMore = 0.1;
  return prompt.repeated_share >= kRepetitive &&
         prompt.repeated_share > prompt.baseline_repeated_share + kMore;
}

Sentences sentences_of(const Finding& finding) {
  return std::visit([](const auto& found) { return said(found); }, finding);
}

}  // namespace assay::report
