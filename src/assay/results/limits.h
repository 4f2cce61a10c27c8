// What a user needs of a configuration: `--limit memory=2GiB,ttft=200ms,kl=0.05`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Everything a limit can be set on, by the name that users type.
struct LimitKind {
  std::string_view name;  // "ttft"
  std::string_view tag;   // the metric's: "time_to_first_token_s"
  bool is_minimum = false;
  std::string_view unit;  // that shares, times and sizes are typed in: "ms"; empty: a plain number
  std::string_view text;  // what it bounds, in a sentence: "time to first token"
};
std::span<const LimitKind> limit_kinds();

struct Limit {
  std::string name;  // a LimitKind's
  double bound = 0;  // in the metric's unit: seconds, bytes, a ratio, nats
  bool operator==(const Limit&) const = default;
};
const LimitKind& kind_of(const Limit& limit);

// What is wanted among the configurations within the limits.
enum class Goal { fastest, smallest, throughput };

// Limits and the goal among what they leave.
struct Limits {
  Goal goal = Goal::fastest;
  std::vector<Limit> limits = {};
  bool operator==(const Limits&) const = default;
};

// Joined by commas: NAME=BOUND, with the bounds 2GiB, 500MB, 200ms, 1.5s, 20, 97%; and the presets laptop
// (smallest, ppl-ratio=1.05), server (highest throughput of a batch, token=100ms) and best-quality (fastest,
// ppl-ratio=1.005), which further limits may narrow. A name that is given twice has the later bound. Throws
// FieldError of "limit".
Limits limits_from_text(std::string_view text);
// A text that limits_from_text() reads as the same limits, in the order given: "memory=2GiB,ttft=200ms".
std::string text_of(const Limits& limits);
// "memory=2GiB", "memory=3600KiB", "ttft=200ms", "agreement=97%": in a unit in which the bound is exact, so
// that limits_from_text() gives the same one.
std::string text_of(const Limit& limit);
// The bound alone: "3600 KiB".
std::string shown_bound(const Limit& limit);
// The names of goals in files: "fastest", "smallest", "throughput".
std::string_view name_of(Goal goal);
std::optional<Goal> goal_named(std::string_view name);
// A figure of this kind in the unit that a limit is typed in: "1.9 GiB", "187 ms".
std::string shown(const LimitKind& kind, double value);

}  // namespace assay
