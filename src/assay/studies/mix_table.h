// What each part of a model costs in each candidate format, and the choices that sums of it give: of the
// least KL within bytes of weights, of the fewest bytes within a KL, both within the time of a decode step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/base/units.h"
#include "assay/statistics/knapsack.h"

namespace assay {

// One item in one format.
struct MixOption {
  Bytes bytes;
  double kl = 0;                    // the item alone, mean over the tokens
  double step_change = 0;           // seconds that a decode step takes longer than the baseline's
  std::vector<double> tokens = {};  // the KL of each token
  bool is_offered = true;  // else the item's inputs are no whole blocks of the format: it has no score
};

// The candidate of each item.
using FormatChoice = std::vector<std::size_t>;

struct MixSums {
  double bytes = 0, kl = 0, step = 0;  // step: seconds, 0 where times were not measured
};

struct MixTable {
  std::vector<std::vector<MixOption>> options = {};  // by item, by candidate
  Bytes other;                                       // what is no item takes
  std::optional<double> base_step = {};              // seconds of the baseline's decode step, where measured

  MixSums sums_of(const FormatChoice& choice) const;
  // The sum of the items' KL, token by token.
  std::vector<double> predicted_tokens(const FormatChoice& choice) const;
  // The candidates of each item that are offered, and whether every item is offered one of them.
  std::vector<FormatChoice> offered() const;
  bool is_offered_to_all(std::size_t candidate) const;
};

struct MixBounds {
  double bytes = std::numeric_limits<double>::infinity(), step = std::numeric_limits<double>::infinity();
};

// Chooses by sums. Without a bound on steps all choices that none betters are known at once.
class MixChooser {
 public:
  // Both outlive it. `max_step` is infinite where times do not count.
  MixChooser(const MixTable& table, double max_step);

  // None where no choice is within.
  std::optional<FormatChoice> least_kl(double max_bytes);
  std::optional<FormatChoice> least_bytes(double max_kl);
  // The least seconds of a step within the bytes.
  double fastest_step(double max_bytes) const;
  // The choices next to one on the curve of the least KL by bytes: at least kNeighbourShare fewer or more.
  std::vector<FormatChoice> neighbours_of(const FormatChoice& choice);

  const std::optional<statistics::KnapsackFront>& front() const { return front_; }
  FormatChoice choice_of(std::size_t point) const;  // a point on the front
  // By how much the last choice may miss the best: bytes of a front that was thinned; the KL (or, of
  // least_bytes(), the bytes) by which a choice with a bound on steps is not proven to be the best.
  double slack() const { return slack_; }

 private:
  std::optional<FormatChoice> within_steps(bool counts_kl, double bound);
  // What the places among each item's offered candidates stand for.
  FormatChoice candidates_at(const std::vector<std::size_t>& places) const;

  const MixTable& table_;
  std::vector<FormatChoice> offered_;
  double max_step_, slack_ = 0;
  std::optional<statistics::KnapsackFront> front_;
};
inline constexpr double kNeighbourShare = 0.01;

// Exchanges of two items' formats, one for a narrower and one for a wider, within the bounds: those first by
// which the sum of KL grows least. No item is in more than two of them.
std::vector<FormatChoice> exchanges_of(const MixTable& table, const FormatChoice& choice,
                                       const MixBounds& bounds, std::size_t most);

// What exchanges made of a choice, and the KL of its tokens with all parts together.
struct ExchangedChoice {
  FormatChoice choice;
  std::vector<double> kl;
  std::int64_t tried = 0, kept = 0;
};
// Tries at most so many exchanges, and keeps each that diverges less by a paired test of its own
// (Bonferroni); then those of the new choice. `measure` gives the KL of a choice's tokens, or nothing for one
// that must not be taken.
ExchangedChoice exchange_pairs(const MixTable& table, ExchangedChoice start, const MixBounds& bounds,
                               std::int64_t most,
                               const std::function<std::vector<double>(const FormatChoice&)>& measure);

}  // namespace assay
