// The three to four sentences that a result supports, each with its figure and the test behind it, and what
// to choose.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/results/results.h"

namespace assay {

// By rule, from rows of the scenarios tradeoff, cache and batches and their comparisons. A rule whose rows or
// tests are missing gives nothing. A superlative names what beats all others by the corrected tests, else all
// that are tied; a ratio carries its interval.
//   memory    how many times smaller the smallest configuration is, and what keeps it from being smaller
//   latency   the fastest configurations, against the baseline; what slows the smallest one down
//   quality   which lose least and most, as ratios of perplexity
//   cache, batching  what they gain
//   undecided how many comparisons are, and the command that would probably decide them
std::vector<std::string> takeaways_of(const ResultSet& results);

// The longest time per token and sequence at which a batch is recommended for a server: ten tokens a second,
// faster than people read.
inline constexpr double kServerTokenBound_ms = 100;

// What to choose, by label; empty where no test supports a choice. For a small device the smallest whose
// perplexity rises by 5 % at most; for a server the batch with the highest throughput within
// kServerTokenBound_ms; for best quality the fastest that is shown to be faster and to lose nothing.
struct Recommendation {
  std::string small_device, server, best_quality;
  std::vector<std::string> sentences;  // one for each that is not empty, with its figures
};
// Empty where nothing can be recommended.
std::optional<Recommendation> recommendation_of(const ResultSet& results);

// How many comparisons of a run are undecided, and how many processes would probably decide them.
struct MoreProcesses {
  int undecided = 0, comparisons = 0;
  int processes = 0, decided = 0;  // 0: ten times as many as now would decide none
  double seconds = 0;              // that a run with `processes` takes; 0: not known
  std::string sentence;
};
// The command line of a run with this number of processes in place of its own.
std::string with_processes(std::string command, int processes);

// Empty where every comparison has its verdict.
std::optional<MoreProcesses> more_processes_of(const ResultSet& results);

}  // namespace assay
