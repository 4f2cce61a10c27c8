// Shares of right answers: their intervals, and what two sets of answers to the same questions show.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/statistics/statistics.h"

namespace assay::statistics {

// The interval of Wilson (1927) for a share of `right` in `n`; [0, 1] for n = 0.
Interval wilson_interval(std::int64_t right, std::int64_t n, double level = 0.95);

// Answers of a subject and its baseline to the same items.
struct PairedCounts {
  std::int64_t both_right = 0, both_wrong = 0;
  std::int64_t lost = 0;    // the baseline is right, the subject wrong
  std::int64_t gained = 0;  // the other way round

  std::int64_t items() const { return both_right + both_wrong + lost + gained; }
  std::int64_t flips() const { return lost + gained; }
  // The subject's share of right answers minus the baseline's.
  double difference() const;
};
// Throws std::logic_error for lists of different lengths.
PairedCounts paired_counts(const std::vector<bool>& subject, const std::vector<bool>& baseline);

// McNemar's test (1947) that flips go both ways alike, two-sided: by the binomial below kExactFlips flips,
// and from there on by chi-squared with the correction for continuity.
inline constexpr std::int64_t kExactFlips = 25;
double mcnemar_p_value(const PairedCounts& counts);

// The interval of the difference by Newcombe, "Improved confidence intervals for the difference between
// binomial proportions based on paired data" (1998), method 10.
Interval difference_interval(const PairedCounts& counts, double level = 0.95);

// The difference in shares that as many items with this rate of flips detect at 5 % with a chance of 90 %:
// 3.24 sqrt(flips / items / items). Where nothing flipped, that of one flip.
double detectable_share(const PairedCounts& counts);

}  // namespace assay::statistics
