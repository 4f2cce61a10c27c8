// Somebody's results beside a run of the same rows here: which of their figures hold.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "assay/results/compare_results.h"
#include "assay/results/named.h"
#include "assay/results/results.h"

namespace assay {

enum class Outcome { reproduced, differs, cannot_tell };
std::string_view name_of(Outcome outcome);  // in files: "reproduced", "differs", "cannot_tell"

// One figure of a row, or the ids that it generated (metric "ids").
struct VerifiedFigure {
  std::string metric;
  Outcome outcome = Outcome::cannot_tell;
  double theirs = 0, ours = 0;  // 0 of ids
  std::string reason;           // why it cannot be told, or what explains a difference; empty: nothing to add
  std::optional<Comparison> comparison = {};  // speed alone has one: ours against theirs
};

struct VerifiedRow {
  Scenario scenario = Scenario::baseline;
  std::string label, configuration;
  std::vector<VerifiedFigure> figures;
  std::string reason = {};  // why nothing of it can be compared: the row failed, or was not measured here
  // The worst of its figures: a difference, else what cannot be told.
  Outcome outcome() const;
};

struct Verification {
  std::vector<std::string> unlike;  // what tells the two machines or programs apart
  std::vector<VerifiedRow> rows;    // in their order
  // The worst of its rows.
  Outcome outcome() const;
  // Relative: differences of speed from here on are found with a chance of 90 %, whichever way hours have
  // drifted; 0: no speed was tested.
  double detectable_difference = 0;
};

// The speed of equal programs drifts by as much within hours on a shared machine.
inline constexpr double kDrift = 0.1;
// Where a test would miss a change by as much one time in ten, it says nothing.
inline constexpr double kMaxUndetected = 0.5;

// Rows are matched as compare_results() does. Ids, perplexity, KL divergence, accuracy and bytes are counted:
// computed by the same kernels in the same precision they must be equal, to the last digit; other kernels
// round differently, so that only bytes can be told then. A latency differs where its corrected interval
// (compare_results.h) lies wholly beyond `drift`; where the machine's own speed explains the difference it
// counts as reproduced, and the reason says so. Results of other models are refused: Error.
Verification verify(const ResultSet& theirs, const ResultSet& ours, double drift = kDrift);

}  // namespace assay
