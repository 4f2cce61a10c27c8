// The sentences of results, for tests that check what people read.
#pragma once

#include <string>
#include <vector>

#include "assay/report/prose/prose.h"
#include "assay/studies/cache_and_padding.h"
#include "assay/studies/registry.h"

namespace assay {

using report::sentence_of;
using report::sentences_of;
using report::shown_duration;
using report::verdict_word;

inline std::string sentence_of(const MoreProcesses& more) {
  return report::sentence_of(Takeaway(more));
}

inline std::vector<std::string> step_sentences(const StepTimes& on, const StepTimes& off) {
  return report::sentences_of(step_findings(on, off));
}

// What the study of an A/A run concludes.
inline std::string describe_noise(const NoiseEstimate& noise, const std::vector<Comparison>& comparisons) {
  ExperimentResult judged;
  judged.noise = noise;
  judged.comparisons = comparisons;
  return report::sentences_of(study_named("noise").conclude(judged)).at(0);
}

namespace test {

template <typename Results>
std::vector<std::string> remarks_of(const Results& results) {
  return report::sentences_of(results.findings);
}

inline std::vector<std::string> takeaway_texts(const ResultSet& results) {
  return report::sentences_of(takeaways_of(results));
}

inline std::vector<std::string> recommendation_texts(const ResultSet& results) {
  const auto recommended = recommendation_of(results);
  return recommended ? report::sentences_of(*recommended) : std::vector<std::string>();
}

}  // namespace test
}  // namespace assay
