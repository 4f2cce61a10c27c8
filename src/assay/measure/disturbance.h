// What else went on while something was measured: counters of this process and of the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/base/units.h"

namespace assay {

struct Disturbance {
  double seconds = 0;                     // of the wall
  std::int64_t involuntary_switches = 0;  // of this process
  double stolen_cpu_s = 0;                // by the hypervisor, all processors together
  double other_cpu_s = 0;                 // used by other processes, all processors together
  Disturbance& operator+=(const Disturbance& other);
};

// Counters from its making on. What the system does not tell counts as zero.
class DisturbanceWatch {
 public:
  DisturbanceWatch();
  Disturbance so_far() const;

 private:
  struct Counters {
    double stolen_s = 0, busy_s = 0, own_s = 0;
    std::int64_t switches = 0;
  };
  static Counters read();
  TimePoint begin_;
  Counters counters_;
};

// Sentences where more was disturbed than a careful reader would let pass: steal above 1 % of the processors'
// time, other processes above 10 % (the kernel counts in hundredths of a second), more than 200 involuntary
// switches a second. Nothing below 0.2 s.
std::vector<std::string> doubts_of(const Disturbance& disturbance, int processors);

}  // namespace assay
