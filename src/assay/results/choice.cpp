#include "assay/results/choice.h"

#include <algorithm>

namespace assay {

double Choice::predicted_s() const {
  double all = before_s;
  for (const ChosenStudy& study : studies) all += study.predicted_s;
  return all;
}

double Choice::whole_s() const {
  double all = before_s;
  for (const ChosenStudy& study : studies) all += study.whole_s;
  return all;
}

bool Choice::is_whole() const {
  return std::all_of(studies.begin(), studies.end(),
                     [](const ChosenStudy& study) { return study.is_whole(); });
}

const ChosenStudy* Choice::find(const std::string& study) const {
  for (const ChosenStudy& chosen : studies)
    if (chosen.name == study) return &chosen;
  return nullptr;
}

}  // namespace assay
