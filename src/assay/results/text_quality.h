// What generated texts show of quality without a model: how much they repeat themselves, and from which
// precision on they are visibly worse than the baseline's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/results/results.h"

namespace assay {

// Distinct n-grams of ids / all n-grams (distinct-n, Li et al. 2016); 1 where there are none. The share that
// repeats, seq-rep-n of Welleck et al. (2020), is 1 less this, of the new tokens alone.
double distinct_share(std::span<const int> ids, std::size_t n);
inline double repeated_share(std::span<const int> ids, std::size_t n) {
  return 1 - distinct_share(ids, n);
}

// How often the phrase at the end of a text stands there in a row: at least two tokens three times (Holtzman
// et al. 2020), or one token four times. 0 where none does.
int phrase_at_end(std::span<const int> ids);

// A text is visibly worse where it ends in a repeated phrase and the baseline's of the same prompt does not.
// A configuration is where more of its texts are so than the other way round, or where its perplexity is
// shown to be at least kVisibleRatio times the baseline's.
inline constexpr double kVisibleRatio = 1.5;
struct VisibleDegradation {
  enum class Kind { none, from, undecided };
  Kind kind = Kind::none;
  std::string baseline;
  int prompts = 0;
  // For `from`, the largest configuration that is worse, where every smaller one is too or none is smaller;
  // for `undecided`, one that is worse, or has texts that are worse and others that are better.
  std::string subject = {};
  double weights_bytes = 0;
  std::string better = {};               // for `undecided`: a configuration that is smaller, and not worse
  std::string prompt = {}, quoted = {};  // the end of the subject's text, or where it diverges
  int times = 0;  // that its phrase stands in a row; 0: it is its perplexity that shows it
  double perplexity_ratio = 0;
  bool has_perplexity = false;  // a configuration beside the baseline has one
  std::string steadier = {};    // for `none`: a configuration that does not repeat where the baseline does
};
// From the texts of the trade-off, the first configuration's being the baseline's. Empty where there are not
// two configurations with texts.
std::optional<VisibleDegradation> visible_degradation(const ResultSet& results);

}  // namespace assay
