#include "assay/measure/disturbance.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "assay/base/format.h"

namespace assay {

Disturbance& Disturbance::operator+=(const Disturbance& other) {
  seconds += other.seconds;
  involuntary_switches += other.involuntary_switches;
  stolen_cpu_s += other.stolen_cpu_s;
  other_cpu_s += other.other_cpu_s;
  return *this;
}

DisturbanceWatch::DisturbanceWatch() : begin_(Clock::now()), counters_(read()) {}

DisturbanceWatch::Counters DisturbanceWatch::read() {
  Counters counters;
  rusage own{};
  if (getrusage(RUSAGE_SELF, &own) == 0) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    counters.own_s = seconds(own.ru_utime) + seconds(own.ru_stime);
    counters.switches = own.ru_nivcsw;
  }
  // cpu user nice system idle iowait irq softirq steal ...
  std::ifstream file("/proc/stat");
  std::string line;
  if (std::getline(file, line)) {
    std::istringstream words(line.substr(std::min<std::size_t>(4, line.size())));
    double ticks[8] = {};
    for (double& t : ticks) words >> t;
    const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
    counters.busy_s = (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / per_second;
    counters.stolen_s = ticks[7] / per_second;
  }
  return counters;
}

Disturbance DisturbanceWatch::so_far() const {
  const Counters now = read();
  Disturbance d;
  d.seconds = elapsed(begin_, Clock::now()).value;
  d.involuntary_switches = now.switches - counters_.switches;
  d.stolen_cpu_s = std::max(0.0, now.stolen_s - counters_.stolen_s);
  d.other_cpu_s = (now.busy_s - counters_.busy_s) - (now.own_s - counters_.own_s);
  return d;
}

std::vector<std::string> doubts_of(const Disturbance& d, int processors) {
  std::vector<std::string> doubts;
  const double available = d.seconds * std::max(1, processors);
  if (available <= 0) return doubts;
  // The counters move in steps of 10 ms.
  constexpr double kShortest = 0.2;
  // In steps, so that rows that were disturbed alike say the same.
  const auto add = [&](double value, std::initializer_list<double> steps, const auto& text) {
    double passed = 0;
    for (const double step : steps)
      if (value > step) passed = step;
    if (passed > 0) doubts.push_back(text(passed));
  };
  if (d.seconds >= kShortest) {
    add(100 * d.stolen_cpu_s / available, {1, 5, 20}, [](double percent) {
      return fmt::format("the hypervisor took more than {:g} % of the processors meanwhile", percent);
    });
    add(100 * d.other_cpu_s / available, {10, 25, 50}, [](double percent) {
      return fmt::format("other processes used more than {:g} % of the processors meanwhile", percent);
    });
    add(static_cast<double>(d.involuntary_switches) / d.seconds, {200, 1000},
        [](double often) { return fmt::format("interrupted more than {:g} times a second", often); });
  }
  return doubts;
}

}  // namespace assay
