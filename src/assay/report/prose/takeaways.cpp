// What a result supports, and what to choose.
#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/prose/prose.h"

namespace assay::report {

namespace {

std::string rate_of(const Value& value) {
  return with_interval(value.value, value.interval, 4) + " tokens/s";
}

// "a is the fastest", "a and b tie for being the fastest", "which of a and b is the fastest is undecided".
std::string superlative(const BestOf& best, const char* is_best, const char* tie_for_it) {
  if (best.undecided.empty())
    return best.is_one() ? fmt::format("{} {}", in_sentence(best.tied.front()), is_best)
                         : fmt::format("{} {}", joined(best.tied), tie_for_it);
  std::vector<std::string> all = best.tied;
  all.insert(all.end(), best.undecided.begin(), best.undecided.end());
  return fmt::format("which of {} {} is undecided{}", joined(all), is_best,
                     best.tied.size() == 1 ? "" : fmt::format(" ({} are tied)", joined(best.tied)));
}

std::string said(const MemoryTakeaway& memory) {
  std::string text =
      fmt::format("Memory: the weights of {} take {}{}, {:.1f}x less than those of {} ({}).",
                  joined(memory.smallest), shown_mebibytes(memory.bytes),
                  memory.smallest.size() == 1 ? "" : " each", memory.baseline_bytes / memory.bytes,
                  in_sentence(memory.baseline), shown_mebibytes(memory.baseline_bytes));
  if (memory.bits_per_weight <= 0) return text;
  // Transformers' rule keeps the embedding and the LM head; codes have scales.
  return text +
         fmt::format(" They average {:.1f} bits per weight, because {}.", memory.bits_per_weight,
                     memory.has_quantized_lm_head
                         ? "positions, norms and biases are not quantized and every group of codes has a "
                           "scale"
                         : "the embedding and the LM head are not quantized and every group of codes "
                           "has a scale");
}

std::string said(const LatencyTakeaway& latency) {
  std::string text = "Latency: " + superlative(latency.fastest, "is the fastest", "tie for the fastest");
  if (latency.has_baseline)
    text += latency.fastest.is_one()
                ? fmt::format(" ({:.1f} ms)", 1e3 * latency.baseline_s)
                : fmt::format(". None is shown to be faster than {}", in_sentence(latency.baseline));
  if (const auto& c = latency.against_baseline)
    text += latency.fastest.is_one()
                ? fmt::format(", {} than {}", factor_with_interval(*c), in_sentence(c->baseline))
                : fmt::format(". {} is {} than {}", at_start(c->subject), factor_with_interval(*c),
                              in_sentence(c->baseline));
  text += ".";
  if (const auto& small = latency.smallest) {
    const Comparison& c = small->comparison;
    text += fmt::format(" {}, the smallest, is {} than {} and reaches {:.0f} % of the roofline",
                        at_start(c.subject), factor_with_interval(c), in_sentence(c.baseline),
                        small->percent_of_roofline);
    if (!small->largest_gap.empty()) text += "; in its profiled run most was lost to " + small->largest_gap;
    text += ".";
  }
  return text;
}

std::string described(const Comparison& c) {
  const char* verdict = c.verdict == Verdict::higher          ? ""
                        : c.verdict == Verdict::no_difference ? ", no loss beyond the margin"
                        : c.verdict == Verdict::lower         ? ", lower than the baseline"
                                                              : ", undecided";
  return fmt::format("{} (perplexity {}{})", in_sentence(c.subject), factor_with_interval(c), verdict);
}

std::string said(const QualityTakeaway& quality) {
  const std::string head = fmt::format("Quality against {}: ", in_sentence(quality.baseline));
  if (!quality.most) return fmt::format("{}{}.", head, described(quality.least.comparison));
  const auto extreme = [](const QualityTakeaway::Extreme& of, const char* loses) {
    if (of.rows.is_one()) return fmt::format("{} loses {}", described(of.comparison), loses);
    return superlative(of.rows, fmt::format("loses {}", loses).c_str(),
                       fmt::format("tie for losing {}", loses).c_str());
  };
  return fmt::format("{}{}; {}.", head, extreme(quality.least, "least"), extreme(*quality.most, "most"));
}

std::string said(const DivergenceTakeaway& divergence) {
  const KlComparison& c = divergence.comparison;
  // What tells them apart is the interval of their difference.
  const std::optional<statistics::Interval> difference =
      statistics::Interval{c.difference_low, c.difference_high, 0.95};
  const std::string kl = fmt::format("KL {} and {} nats per token", shown_number(c.subject_kl, difference),
                                     shown_number(c.other_kl, difference));
  const std::string head = fmt::format("Divergence from {}, of the two smallest: ", in_sentence(c.baseline));
  if (c.is_within_floor)
    return fmt::format("{}{} and {} are not distinguishable from the noise floor ({}).", head,
                       in_sentence(c.subject), in_sentence(c.other), kl);
  if (c.is_decided)
    return fmt::format("{}{} diverges less than {} ({}; difference [{:.2g}, {:.2g}]).", head,
                       in_sentence(c.subject), in_sentence(c.other), kl, c.difference_low, c.difference_high);
  std::string text = fmt::format("{}{} and {} are not told apart ({})", head, in_sentence(c.subject),
                                 in_sentence(c.other), kl);
  if (c.tokens_needed > 0)
    text += fmt::format("; a text of about {} tokens would probably tell", c.tokens_needed);
  return text + ".";
}

std::string said(const CacheTakeaway& cache) {
  const Comparison& c = cache.comparison;
  if (c.verdict != Verdict::higher || !c.interval) return fmt::format("KV cache: {}.", sentence_of(c));
  return fmt::format("KV cache: without it, generating after a prompt of {:.0f} tokens is {}.",
                     cache.prompt_tokens, factor_with_interval(c));
}

std::string said(const BatchingTakeaway& batching) {
  const std::string rate = rate_of(batching.tokens_per_sec);
  const BestOf& best = batching.fastest;
  std::string text =
      "Batching: " + superlative(best, "has the highest throughput", "tie for the highest throughput") +
      (best.is_one() ? ", " + rate : fmt::format("; {} generates {}", in_sentence(best.tied.front()), rate));
  if (const auto& c = batching.against_smallest)
    text += fmt::format("{} and is {} than {}", best.is_one() ? "," : "", factor_with_interval(*c),
                        in_sentence(c->baseline));
  return text + ".";
}

// The command comes last: a terminal shows it on a line of its own.
std::string said(const MoreProcesses& more) {
  std::string text = fmt::format("Undecided: {} of {} comparisons.", more.undecided, more.comparisons);
  if (const int texts = more.undecided_of_text; texts > 0)
    text += fmt::format(" {} comparison{} of perplexity need{} a longer text.", texts, texts == 1 ? "" : "s",
                        texts == 1 ? "s" : "");
  if (more.processes > 0) {
    text += fmt::format(" {} processes would probably decide {} of {}{}", more.processes, more.decided,
                        more.undecided_of_text > 0 ? "the others" : "them",
                        more.seconds > 0 ? fmt::format(", in about {}", shown_duration(more.seconds)) : "");
    text += more.command.empty() ? "." : fmt::format(": {}", more.command);
  } else if (more.undecided > more.undecided_of_text) {
    text += fmt::format(" {} times as many processes would not decide {}.", MoreProcesses::kMaxTimes,
                        more.undecided_of_text > 0 ? "the others" : "them");
  }
  return text;
}

// Why nothing smaller was chosen.
std::string smaller_sentence(const Recommendation& r) {
  std::string text;
  if (r.small_nearest)
    text = fmt::format(" {} takes {}, but its perplexity may be {:.3g} times the baseline's.",
                       at_start(r.small_nearest->label), shown_mebibytes(r.small_nearest->bytes),
                       r.small_nearest->perplexity_ratio);
  if (r.small_unknown > 0)
    text += fmt::format(
        " {} with smaller weights {} no comparison of perplexity.",
        r.small_unknown == 1 ? "One configuration" : fmt::format("{} configurations", r.small_unknown),
        r.small_unknown == 1 ? "has" : "have");
  return text;
}

// "at most 1.01 times the baseline's"
std::string ratio_at_most(double ratio) {
  const std::string shown = fmt::format("{:.4g}", ratio);
  return fmt::format("at most {}the baseline's", shown == "1" ? "" : shown + " times ");
}

std::string small_sentence(const Recommendation& r) {
  const std::string bytes = shown_mebibytes(r.small_bytes);
  if (!r.small_perplexity_ratio) {
    const bool is_smallest = !r.small_nearest && r.small_unknown == 0;
    return fmt::format("For a small device, choose {}, the baseline, whose weights take {}: {}.{}",
                       in_sentence(r.small_device), bytes,
                       is_smallest ? "none has smaller weights"
                                   : fmt::format("none with smaller weights is shown to have a perplexity of "
                                                 "at most {} times the baseline's",
                                                 kSmallDeviceRatio),
                       smaller_sentence(r));
  }
  return fmt::format(
      "For a small device, choose {}: its weights take {}, and its perplexity is {} (bound: {} times).{}",
      in_sentence(r.small_device), bytes, ratio_at_most(*r.small_perplexity_ratio), kSmallDeviceRatio,
      smaller_sentence(r));
}

std::string server_sentence(const Recommendation& r) {
  std::vector<std::string> beside;
  if (!r.server_tied.empty()) beside.push_back("tied with " + joined(r.server_tied));
  if (!r.server_undecided.empty()) beside.push_back("undecided against " + joined(r.server_undecided));
  const std::string loss = r.server_perplexity_ratio
                               ? fmt::format(", and its perplexity is {} (bound: {} times)",
                                             ratio_at_most(*r.server_perplexity_ratio), kSmallDeviceRatio)
                               : "";
  return fmt::format(
      "For a server, choose {} of {}{}: it generates {}{} a token takes at most {:.3g} ms (bound: {:.0f} "
      "ms){}.{}",
      r.server_batch, in_sentence(r.server),
      beside.empty() ? "" : fmt::format(" ({})", fmt::join(beside, ", ")), rate_of(r.server_tokens_per_sec),
      loss.empty() ? ", and" : ",", r.server_token_ms, kServerTokenBound_ms, loss,
      r.has_one_server_configuration ? " Other precisions were not measured in batches." : "");
}

std::string quality_sentence(const Recommendation& r) {
  if (!r.best_quality_speed)
    return fmt::format(
        "For best quality, choose {}, the baseline: no faster precision is shown to keep its quality.",
        in_sentence(r.best_quality));
  return fmt::format("For best quality, choose {}: its perplexity shows no loss, and it is {} than {}.",
                     in_sentence(r.best_quality), factor_with_interval(*r.best_quality_speed),
                     in_sentence(r.best_quality_speed->baseline));
}

}  // namespace

std::string sentence_of(const Takeaway& takeaway) {
  return std::visit([](const auto& found) { return said(found); }, takeaway);
}

std::vector<std::string> sentences_of(std::span<const Takeaway> takeaways) {
  std::vector<std::string> all;
  for (const Takeaway& takeaway : takeaways) all.push_back(sentence_of(takeaway));
  return all;
}

std::vector<std::string> sentences_of(const Recommendation& r) {
  std::vector<std::string> all;
  if (!r.small_device.empty()) all.push_back(small_sentence(r));
  if (!r.server.empty()) all.push_back(server_sentence(r));
  if (!r.best_quality.empty()) all.push_back(quality_sentence(r));
  return all;
}

}  // namespace assay::report
