// What studies found out, as values: report/prose makes sentences of them. Each names its fields once, in
// fields(), for files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "assay/results/quality_findings.h"
#include "assay/results/verdict.h"

namespace assay {

// How much equal processes differ, and what the median comparison of the run detects.
struct NoiseFinding {
  static constexpr std::string_view kKind = "noise";
  NoiseEstimate noise;
  std::optional<double> median_detectable_difference = {};
  void fields(auto&& visit) {
    visit("noise", noise);
    visit("median_detectable_difference", median_detectable_difference);
  }
};

// Where the text of a configuration diverges from the baseline's.
struct TextDivergence {
  static constexpr std::string_view kKind = "text_divergence";
  struct Prompt {
    std::int64_t equal_tokens = 0, tokens = 0;  // equal ones stand before the first that differs
    double repeated_share = 0;                  // how much of the text repeats a passage, in the baseline's
    double baseline_repeated_share = 0;
    bool has_diverged() const { return equal_tokens < tokens; }
    void fields(auto&& visit) {
      visit("equal_tokens", equal_tokens);
      visit("tokens", tokens);
      visit("repeated_share", repeated_share);
      visit("baseline_repeated_share", baseline_repeated_share);
    }
  };
  std::string subject = {};
  std::vector<Prompt> prompts = {};
  void fields(auto&& visit) {
    visit("subject", subject);
    visit("prompts", prompts);
  }
};

// Each prompt length against the one before it.
struct LengthTrend {
  static constexpr std::string_view kKind = "length_trend";
  std::vector<Comparison> steps;
  void fields(auto&& visit) { visit("steps", steps); }
};

// The time of a decode step in ms as a polynomial of its position, the constant first.
struct StepFit {
  static constexpr std::string_view kKind = "step_fit";
  static constexpr std::size_t kFewest = 2, kMost = 3;  // coefficients: a line, or quadratic
  bool cache = true;
  std::vector<double> coefficients = {};
  double r2 = 0;
  void fields(auto&& visit) {
    visit("cache", cache);
    visit("coefficients", coefficients);
    visit("r2", r2);
  }
};
// Where the fitted lines with and without the cache cross, among the positions from first to last.
struct StepCrossing {
  static constexpr std::string_view kKind = "step_crossing";
  double position = 0, first = 0, last = 0;
  void fields(auto&& visit) {
    visit("position", position);
    visit("first", first);
    visit("last", last);
  }
};
// A case that is faster without the KV cache than with it.
struct CacheWithoutGain {
  static constexpr std::string_view kKind = "cache_without_gain";
  Comparison comparison = {};
  void fields(auto&& visit) { visit("comparison", comparison); }
};

struct PaddingOverhead {
  static constexpr std::string_view kKind = "padding_overhead";
  std::int64_t padding_tokens = 0, computed_tokens = 0;  // in the prompts
  Comparison comparison = {};                            // with the same prompts, not padded
  void fields(auto&& visit) {
    visit("padding_tokens", padding_tokens);
    visit("computed_tokens", computed_tokens);
    visit("comparison", comparison);
  }
};

// The same prompts take longer in a larger batch.
struct SlowerBatch {
  static constexpr std::string_view kKind = "slower_batch";
  Comparison comparison = {};
  void fields(auto&& visit) { visit("comparison", comparison); }
};

struct KvCacheSaving {
  static constexpr std::string_view kKind = "kv_cache_saving";
  std::string subject, baseline;
  double memory_ratio = 1;
  std::optional<Comparison> decode_step = {};
  void fields(auto&& visit) {
    visit("subject", subject);
    visit("baseline", baseline);
    visit("memory_ratio", memory_ratio);
    visit("decode_step", decode_step);
  }
};

// An edge-case prompt that is faster or slower than the typical one, and the phase that explains most of it.
struct EdgeDifference {
  static constexpr std::string_view kKind = "edge_difference";
  Comparison comparison = {};
  std::string phase = {};
  double percent = 0;  // how much of the difference it explains
  std::int64_t prompt_tokens = 0, typical_prompt_tokens = 0;
  void fields(auto&& visit) {
    visit("comparison", comparison);
    visit("phase", phase);
    visit("percent", percent);
    visit("prompt_tokens", prompt_tokens);
    visit("typical_prompt_tokens", typical_prompt_tokens);
  }
};

// The smallest number of threads that none was shown to beat.
struct ThreadChoice {
  static constexpr std::string_view kKind = "thread_choice";
  std::string chosen;
  bool is_fastest = false;  // alone; else none of larger numbers is shown to be faster
  std::optional<Comparison> with_fewest = {};
  void fields(auto&& visit) {
    visit("chosen", chosen);
    visit("is_fastest", is_fastest);
    visit("with_fewest", with_fewest);
  }
};

// A sentence of a file of schema 1, which has no values.
struct StatedFinding {
  static constexpr std::string_view kKind = "stated";
  std::string text;
  void fields(auto&& visit) { visit("text", text); }
};

using Finding = std::variant<NoiseFinding, TextDivergence, LengthTrend, StepFit, StepCrossing,
                             CacheWithoutGain, PaddingOverhead, SlowerBatch, KvCacheSaving, EdgeDifference,
                             ThreadChoice, TaskFlips, KlComparison, StatedFinding>;

}  // namespace assay
