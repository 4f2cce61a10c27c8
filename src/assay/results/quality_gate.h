// Limits of quality that a gate holds: the KL divergence and the top-1 agreement that a run measured of its
// candidates, and the accuracy on a task against that of an earlier run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/results/results.h"
#include "assay/statistics/paired_counts.h"

namespace assay {

inline constexpr std::string_view kKlMetric = "kl_mean", kAgreementMetric = "top1_agreement",
                                  kAccuracyMetric = "accuracy";

// A figure of B, beside A's where A has it.
struct QualityRow {
  Scenario scenario = Scenario::divergence;
  std::string label, metric;                          // one of the three
  std::optional<double> a = {};                       // accuracy has it
  double b = 0;                                       // nats, or shares
  std::optional<statistics::Interval> interval = {};  // that of b; for accuracy, that of its change
  std::int64_t count = 0;                             // scored tokens, or items
  std::string untested = {};             // why the answers of the two cannot be paired; empty where they can
  statistics::PairedCounts counts = {};  // for accuracy
  bool has_equal_answers = false;        // all log-likelihoods, to the bit
  std::string place() const;             // "divergence, nf4"
};

// The divergences of B, then the accuracies that both measured.
std::vector<QualityRow> quality_rows(const ResultSet& a, const ResultSet& b);

// Limits that are judged together are a family of their own: the chance of any false verdict, "broken" or
// "kept", is this at most (Holm 1979). Of each, how probable a figure as far from the limit would be if the
// true one were at it: from its interval, by Student's t with three degrees of freedom fewer than it has
// blocks of tokens. 1 where there is no interval; for an accuracy McNemar's p value of no change.
inline constexpr double kFalseLimitVerdict = 0.05;
double limit_p_value(const QualityRow& row, double limit);

enum class LimitVerdict { kept, broken, undecided };
std::string_view name_of(LimitVerdict verdict);
// A KL divergence or an agreement is on one side of its limit where its p value is 5 % / divisor at most, and
// else undecided: with a divisor of 1, where its interval holds the limit. `limit` of an accuracy is a fall,
// as a share: it is broken where McNemar's test at 5 % / divisor shows a fall and that of these items is
// larger; undecided where nothing shows, the interval of the change reaches beyond the limit, and these items
// would miss a fall of kShownFalls times it in more than one of ten cases. A limit of 0 asks for what can be
// found at all.
inline constexpr double kShownFalls = 2;
LimitVerdict judge_limit(const QualityRow& row, double limit, int divisor = 1);

// Clauses: what broke the limit, and what would decide, where the error level is divided by `divisor`.
std::string broken_limit(const QualityRow& row, double limit);
std::string undecided_limit(const QualityRow& row, double limit, int divisor = 1);

}  // namespace assay
