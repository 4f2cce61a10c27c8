// What a run has measured so far, as a table that is drawn again and again.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "assay/results/results.h"

namespace assay::report {

struct LiveCase {
  std::string label;
  std::string reason;                  // why it failed; empty where it did not
  double first_s = 0;                  // its first run, which is not timed
  std::map<SampleId, double> seconds;  // the latency of each timed run
};

// The cases of each study in the order in which they began; the first of a study is what its others are
// compared with.
class LiveTable {
 public:
  LiveCase& at(const std::string& study, const std::string& key);
  // Lines of a table with latencies, intervals and verdicts so far; of more than `most` rows the last ones.
  // At most four more lines: its head and rule, how many cases are above, and what a ratio is of.
  std::vector<std::string> lines(std::size_t width, std::size_t most) const;

 private:
  struct Study {
    std::string name;
    std::vector<std::string> keys;
    std::vector<LiveCase> cases;
  };
  Study& study(const std::string& name);
  std::vector<Study> studies_;
};

}  // namespace assay::report
