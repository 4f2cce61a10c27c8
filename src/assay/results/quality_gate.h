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

enum class LimitVerdict { kept, broken, undecided };
// A KL divergence breaks its limit where its interval lies above it, an agreement where its interval lies
// below, and both are undecided where the interval holds the limit or there is none. `limit` of an accuracy
// is a fall, as a share: it is broken where McNemar's test at 5 % / divisor shows a fall and that of these
// items is larger; undecided where nothing shows, the interval of the change reaches beyond the limit, and
// these items would miss a fall of kShownFalls times it in more than one of ten cases. A limit of 0 asks for
// what can be found at all.
inline constexpr double kShownFalls = 2;
LimitVerdict judge_limit(const QualityRow& row, double limit, int divisor = 1);

// Clauses: what broke the limit, and what would decide.
std::string broken_limit(const QualityRow& row, double limit);
std::string undecided_limit(const QualityRow& row, double limit);

}  // namespace assay
