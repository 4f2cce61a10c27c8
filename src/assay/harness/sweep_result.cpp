// What a sweep's results say of their samples.
#include <algorithm>
#include <cmath>

#include "assay/harness/sweep.h"

namespace assay {

std::vector<double> CaseResult::each(double Sample::*member) const {
  std::vector<double> all;
  for (const auto& [place, sample] : samples) all.push_back(sample.*member);
  return all;
}

std::vector<SampleId> CaseResult::places() const {
  std::vector<SampleId> all;
  for (const auto& [place, sample] : samples) all.push_back(place);
  return all;
}

const CaseResult* SweepResult::find(const std::string& key) const {
  for (const CaseResult& c : cases)
    if (c.spec.key() == key) return &c;
  return nullptr;
}

std::vector<std::vector<double>> log_ratios(const CaseResult& subject, const CaseResult& baseline,
                                            double Sample::*member) {
  std::map<int, std::vector<double>> by_process;
  for (const auto& [place, sample] : subject.samples)
    if (const auto other = baseline.samples.find(place); other != baseline.samples.end())
      by_process[place.process].push_back(
          std::log(std::max(1e-300, sample.*member) / std::max(1e-300, other->second.*member)));
  std::vector<std::vector<double>> all;
  for (auto& [process, ratios] : by_process) all.push_back(std::move(ratios));
  return all;
}

}  // namespace assay
