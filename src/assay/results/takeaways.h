// What a result supports, as values: takeaways, what to choose, and how many more processes would decide the
// rest. report/prose makes sentences of them.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "assay/results/results.h"

namespace assay {

// What may be the best of several: a tie needs a test that shows equality within the margin.
struct BestOf {
  std::vector<std::string> tied;       // labels: the one with the best figure, then those that equal it
  std::vector<std::string> undecided;  // shown neither to equal it nor to be worse
  bool is_one() const { return tied.size() == 1 && undecided.empty(); }
};

// The configurations with the smallest weights, where those are smaller than the baseline's.
struct MemoryTakeaway {
  std::vector<std::string> smallest;  // labels
  std::string baseline;
  double bytes = 0, baseline_bytes = 0;
  double bits_per_weight = 0;          // 0: not known
  bool has_quantized_lm_head = false;  // what keeps it from being smaller is something else then
};

// The configurations that nothing was shown to beat, against the baseline.
struct LatencyTakeaway {
  BestOf fastest;  // the first has the lowest latency
  std::string baseline;
  bool has_baseline = false;  // among the fastest
  double baseline_s = 0;
  std::optional<Comparison> against_baseline = {};  // the first's, where it is shown to be faster
  // The smallest configuration, where it is shown to be slower than the fastest, and what slows it down.
  struct Slow {
    Comparison comparison;
    double percent_of_roofline = 0;
    std::string largest_gap;
  };
  std::optional<Slow> smallest = {};
};

// Which configurations lose least and most, as ratios of perplexity.
struct QualityTakeaway {
  struct Extreme {
    // What overlaps with the extreme one's interval is tied with it where the two intervals leave no ratio of
    // the two beyond the margin.
    BestOf rows;
    Comparison comparison;  // the extreme one's
  };
  std::string baseline;
  Extreme least;
  std::optional<Extreme> most = {};  // empty: one configuration alone was compared
};

// Which of the two smallest configurations diverges less from the baseline.
struct DivergenceTakeaway {
  KlComparison comparison;
};

struct CacheTakeaway {
  Comparison comparison;  // without the cache against with it, of the longest prompt
  double prompt_tokens = 0;
};

struct BatchingTakeaway {
  BestOf fastest;                                   // the first has the highest throughput
  Value tokens_per_sec;                             // the first's
  std::optional<Comparison> against_smallest = {};  // where it is shown to be faster
};

// How many comparisons of a run are undecided, and how many processes would probably decide them. A pair of
// rows counts once, where the best of them is compared with the others too.
struct MoreProcesses {
  static constexpr int kMaxTimes = 10;  // nobody waits for more times as many
  int undecided = 0, comparisons = 0, undecided_of_text = 0;
  int processes = 0, decided = 0;  // 0: kMaxTimes as many as now would decide none
  double seconds = 0;              // that a run with `processes` takes; 0: not known
  std::string command;             // that starts such a run; empty: not known
};

using Takeaway = std::variant<MemoryTakeaway, LatencyTakeaway, QualityTakeaway, DivergenceTakeaway,
                              CacheTakeaway, BatchingTakeaway, MoreProcesses>;

// From rows of the scenarios tradeoff, cache and batches and their comparisons, in the order of the variant.
// A rule whose rows or tests are missing gives nothing. A superlative names what beats all others by the
// corrected tests, else all that are tied with the best figure or undecided against it.
std::vector<Takeaway> takeaways_of(const ResultSet& results);

// The longest time per token and sequence at which a batch is recommended for a server: ten tokens a second,
// faster than people read.
inline constexpr double kServerTokenBound_ms = 100;

// The perplexity ratio that a small device may have.
inline constexpr double kSmallDeviceRatio = 1.05;

// What to choose; empty where no test supports a choice.
struct Recommendation {
  std::string small_device;  // the smallest whose perplexity ratio is at most kSmallDeviceRatio
  double small_bytes = 0;
  std::optional<double> small_perplexity_ratio = {};  // at most; empty for the baseline
  // Of those with smaller weights, whose ratio may be larger, the one that comes nearest.
  struct TooLossy {
    std::string label;
    double bytes = 0, perplexity_ratio = 0;  // at most
    bool operator==(const TooLossy&) const = default;
  };
  std::optional<TooLossy> small_nearest = {};
  int small_unknown = 0;  // how many have smaller weights and a perplexity that was not compared

  // The batch with the highest throughput within kServerTokenBound_ms, of a precision whose perplexity ratio
  // is at most kSmallDeviceRatio.
  std::string server;
  std::string server_batch;
  std::vector<std::string> server_tied, server_undecided;  // other batches
  std::optional<double> server_perplexity_ratio = {};      // at most; empty for the baseline
  Value server_tokens_per_sec;
  double server_token_ms = 0;  // at most
  bool has_one_server_configuration = true;

  std::string best_quality;  // the fastest that is shown to be faster and to lose nothing
  std::optional<Comparison> best_quality_speed = {};  // empty: it is the baseline
};
// Empty where nothing can be recommended.
std::optional<Recommendation> recommendation_of(const ResultSet& results);

// The command line of a run with this number of processes in place of its own.
std::string with_processes(std::string command, int processes);
// The same command without its budget.
std::string without_budget(std::string command);
// Empty where every comparison has its verdict.
std::optional<MoreProcesses> more_processes_of(const ResultSet& results);

}  // namespace assay
