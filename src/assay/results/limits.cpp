#include "assay/results/limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "assay/base/error.h"
#include "assay/base/format.h"

namespace assay {

namespace {

constexpr std::array kLimitKinds = {
    LimitKind{"memory", "predicted_memory_bytes", false, "B", "peak memory"},
    LimitKind{"weights", "resident_weights_bytes", false, "B", "memory of the weights"},
    LimitKind{"latency", "total_latency_s", false, "ms", "total latency"},
    LimitKind{"ttft", "time_to_first_token_s", false, "ms", "time to first token"},
    LimitKind{"token", "time_per_output_token_ms", false, "ms", "time per output token"},
    LimitKind{"tokens-per-s", "tokens_per_sec", true, "", "tokens per second"},
    LimitKind{"ppl-ratio", "perplexity_ratio", false, "", "perplexity over the baseline's"},
    LimitKind{"kl", "kl_mean", false, "", "mean KL divergence from the baseline"},
    LimitKind{"agreement", "top1_agreement", true, "%", "share of equal most likely tokens"},
    LimitKind{"accuracy", "accuracy", true, "%", "accuracy"},
};

struct Unit {
  std::string_view name, of;  // the unit of the kinds that take it
  double factor;              // to the unit of `tag`, for kinds in seconds, bytes and shares
};
constexpr double kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi;
constexpr std::array kLimitUnits = {
    Unit{"GiB", "B", kGi}, Unit{"MiB", "B", kMi}, Unit{"KiB", "B", kKi}, Unit{"GB", "B", 1e9},
    Unit{"MB", "B", 1e6},  Unit{"KB", "B", 1e3},  Unit{"B", "B", 1},     Unit{"ms", "ms", 1e-3},
    Unit{"s", "ms", 1},    Unit{"%", "%", 1e-2},  Unit{"", "%", 1},      Unit{"", "", 1},
};

// Times have seconds in files, but for those whose tag says milliseconds.
double time_scale(const LimitKind& kind) {
  return kind.unit == "ms" && kind.tag.ends_with("_ms") ? 1e3 : 1;
}

const LimitKind* find_kind(std::string_view name) {
  const auto* at = std::find_if(kLimitKinds.begin(), kLimitKinds.end(),
                                [&](const LimitKind& kind) { return kind.name == name; });
  return at == kLimitKinds.end() ? nullptr : &*at;
}

std::string names() {
  std::vector<std::string_view> all;
  for (const LimitKind& kind : kLimitKinds) all.push_back(kind.name);
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string example_of(const LimitKind& kind) {
  if (kind.unit == "B") return "a size such as 700MiB or 2GiB";
  if (kind.unit == "ms") return "a time such as 200ms or 1.5s";
  if (kind.unit == "%") return "a share such as 97% or 0.97";
  return "a number above 0";
}

// Empty for what is no bound of this kind.
std::optional<double> read_bound(const LimitKind& kind, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error == std::errc() && std::isfinite(number) && number > 0)
    for (const Unit& known : kLimitUnits)
      if (known.of == kind.unit && known.name == unit) {
        const double bound = number * known.factor * time_scale(kind);
        if (kind.unit != "%" || bound <= 1) return bound;
      }
  return std::nullopt;
}

double bound_of(const LimitKind& kind, std::string_view text) {
  if (const std::optional<double> bound = read_bound(kind, text)) return *bound;
  throw FieldError("limit", "{}: expected {}, found '{}'", kind.name, example_of(kind), text.substr(0, 40));
}

// The shortest number that means the bound in this unit to the last bit; empty where none of 17 digits does.
std::string exact_number(const LimitKind& kind, const Unit& unit, double bound) {
  constexpr int kMostDigits = 17;
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    const std::string rounded = fmt::format("{:.{}g}", bound / unit.factor / time_scale(kind), digits);
    double number = 0;
    std::from_chars(rounded.data(), rounded.data() + rounded.size(), number);
    std::string text = fmt::format("{}", number);  // 3600, where so many digits alone give 3.6e+03
    if (read_bound(kind, text + std::string(unit.name)) == bound) return text;
  }
  return "";
}

void set(Limits& limits, std::string_view name, double bound) {
  for (Limit& limit : limits.limits)
    if (limit.name == name) {
      limit.bound = bound;
      return;
    }
  limits.limits.push_back({std::string(name), bound});
}

constexpr double kSmallLoss = 1.05, kNoLoss = 1.005, kReadingPace_ms = 100;

bool add_preset(Limits& limits, std::string_view name) {
  if (name == "laptop") {
    limits.goal = Goal::smallest;
    set(limits, "ppl-ratio", kSmallLoss);
  } else if (name == "server") {
    limits.goal = Goal::throughput;
    set(limits, "token", kReadingPace_ms);
  } else if (name == "best-quality") {
    limits.goal = Goal::fastest;
    set(limits, "ppl-ratio", kNoLoss);
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::span<const LimitKind> limit_kinds() {
  return kLimitKinds;
}

const LimitKind& kind_of(const Limit& limit) {
  const LimitKind* kind = find_kind(limit.name);
  if (kind == nullptr) throw Error("a limit on '{}': expected one of {}", limit.name, names());
  return *kind;
}

Limits limits_from_text(std::string_view text) {
  Limits limits;
  bool has_preset = false;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, comma - at);
    at = comma + 1;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      if (!add_preset(limits, part))
        throw FieldError("limit",
                         "expected NAME=BOUND or one of the presets laptop, server, best-quality, found '{}'",
                         part.substr(0, 40));
      if (has_preset) throw FieldError("limit", "expected at most one preset, found '{}' too", part);
      has_preset = true;
      continue;
    }
    const LimitKind* kind = find_kind(part.substr(0, equals));
    if (kind == nullptr)
      throw FieldError("limit", "expected one of {}, found '{}'", names(),
                       part.substr(0, equals).substr(0, 40));
    set(limits, kind->name, bound_of(*kind, part.substr(equals + 1)));
  }
  return limits;
}

std::string_view name_of(Goal goal) {
  constexpr std::string_view kNames[] = {"fastest", "smallest", "throughput"};
  return kNames[static_cast<std::size_t>(goal)];
}

std::optional<Goal> goal_named(std::string_view name) {
  for (const Goal goal : {Goal::fastest, Goal::smallest, Goal::throughput})
    if (name_of(goal) == name) return goal;
  return std::nullopt;
}

std::string shown_bound(const Limit& limit) {
  const LimitKind& kind = kind_of(limit);
  std::string best, best_number;
  bool is_best_whole = false;  // 1 or more in its unit: 200ms rather than 0.2s
  for (const Unit& unit : kLimitUnits) {
    if (unit.of != kind.unit) continue;
    const std::string number = exact_number(kind, unit, limit.bound);
    if (number.empty()) continue;
    const bool is_whole = limit.bound >= unit.factor * time_scale(kind);
    if (!best.empty() && (is_best_whole != is_whole ? is_best_whole : best_number.size() <= number.size()))
      continue;
    best = unit.name.empty() ? number : fmt::format("{} {}", number, unit.name);
    best_number = number;
    is_best_whole = is_whole;
  }
  return best.empty() ? shown(kind, limit.bound) : best;
}

std::string text_of(const Limit& limit) {
  std::string figure = shown_bound(limit);
  std::erase(figure, ' ');
  return fmt::format("{}={}", limit.name, figure);
}

std::string text_of(const Limits& limits) {
  std::vector<std::string> all;
  for (const Limit& limit : limits.limits) all.push_back(text_of(limit));
  return fmt::format("{}", fmt::join(all, ","));
}

std::string shown(const LimitKind& kind, double value) {
  if (kind.unit == "B") {
    const double size = std::abs(value);
    if (size >= kGi) return fmt::format("{:.4g} GiB", value / kGi);
    return size >= kMi ? fmt::format("{:.4g} MiB", value / kMi) : fmt::format("{:.4g} KiB", value / kKi);
  }
  if (kind.unit == "ms") {
    const double seconds = value / time_scale(kind);
    return seconds >= 1 ? fmt::format("{:.4g} s", seconds) : fmt::format("{:.4g} ms", 1e3 * seconds);
  }
  if (kind.unit == "%") return fmt::format("{:.4g} %", 100 * value);
  return fmt::format("{:.4g}", value);
}

}  // namespace assay
