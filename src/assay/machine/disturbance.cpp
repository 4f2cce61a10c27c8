#include "assay/machine/disturbance.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "assay/base/format.h"

namespace assay {

Disturbance& Disturbance::operator+=(const Disturbance& other) {
  seconds += other.seconds;
  involuntary_switches += other.involuntary_switches;
  stolen_cpu_s += other.stolen_cpu_s;
  other_cpu_s += other.other_cpu_s;
  processor_wait_s += other.processor_wait_s;
  minor_faults += other.minor_faults;
  major_faults += other.major_faults;
  migrations += other.migrations;
  watched_s += other.watched_s;
  watched_stolen_cpu_s += other.watched_stolen_cpu_s;
  throttle_events += other.throttle_events;
  quota_wait_s += other.quota_wait_s;
  if (other.highest_mhz > 0) {
    lowest_mhz = lowest_mhz > 0 ? std::min(lowest_mhz, other.lowest_mhz) : other.lowest_mhz;
    highest_mhz = std::max(highest_mhz, other.highest_mhz);
  }
  return *this;
}

namespace {

// 0 where there is no such file.
double number_of(const std::filesystem::path& path) {
  double number = 0;
  std::ifstream(path) >> number;
  return number;
}

// More would take longer to read than they tell.
std::vector<int> watched_processors() {
  constexpr std::size_t kMax = 16;
  std::vector<int> all = allowed_processors();
  all.resize(std::min(all.size(), kMax));
  return all;
}

std::int64_t throttle_events_of(const std::filesystem::path& processors) {
  double events = 0;
  for (const int processor : watched_processors())
    for (const char* what : {"core", "package"})
      events +=
          number_of(processors / fmt::format("cpu{}/thermal_throttle/{}_throttle_count", processor, what));
  return static_cast<std::int64_t>(events);
}

// Idle ones rest at a lower one.
double highest_mhz_of(const std::filesystem::path& processors) {
  double kilohertz = 0;
  for (const int processor : watched_processors())
    kilohertz =
        std::max(kilohertz, number_of(processors / fmt::format("cpu{}/cpufreq/scaling_cur_freq", processor)));
  return kilohertz / 1e3;
}

// "throttled_usec 12" of version 2 of control groups, "throttled_time 12000" in ns of version 1.
double quota_wait_of(const std::vector<std::string>& statistics) {
  double all = 0;
  for (const std::string& path : statistics) {
    std::ifstream file(path);
    std::string key;
    for (double number = 0; file >> key >> number;)
      all += key == "throttled_usec" ? 1e-6 * number : key == "throttled_time" ? 1e-9 * number : 0;
  }
  return all;
}

// "4105 2311 17": nanoseconds of running and of waiting for a processor, and time slices.
double processor_wait_of(const std::filesystem::path& task) {
  double running = 0, waiting = 0;
  std::ifstream(task / "schedstat") >> running >> waiting;
  return 1e-9 * waiting;
}

// "se.nr_migrations    :    12"; not in every kernel.
std::int64_t migrations_of(const std::filesystem::path& task) {
  std::ifstream file(task / "sched");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("se.nr_migrations"))
      if (const std::size_t colon = line.find(':'); colon != std::string::npos)
        return std::strtoll(line.c_str() + colon + 1, nullptr, 10);
  return 0;
}

}  // namespace

DisturbanceWatch::DisturbanceWatch(SystemFolders folders)
    : folders_(std::move(folders)),
      begin_(Clock::now()),
      watch_begin_(begin_),
      counters_(read()),
      stolen_before_s_(counters_.stolen_s) {}

void DisturbanceWatch::begin_run() {
  begin_ = Clock::now();
  counters_ = read();
}

DisturbanceWatch::Counters DisturbanceWatch::read() const {
  Counters counters;
  counters.throttle_events = throttle_events_of(folders_.processors);
  counters.quota_wait_s = quota_wait_of(folders_.quota_statistics);
  rusage own{};
  if (getrusage(RUSAGE_SELF, &own) == 0) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    counters.own_s = seconds(own.ru_utime) + seconds(own.ru_stime);
    counters.switches = own.ru_nivcsw;
    counters.minor_faults = own.ru_minflt;
    counters.major_faults = own.ru_majflt;
  }
  std::error_code code;
  for (const auto& task : std::filesystem::directory_iterator(folders_.tasks, code)) {
    counters.processor_wait_s += processor_wait_of(task.path());
    counters.migrations += migrations_of(task.path());
  }
  // cpu user nice system idle iowait irq softirq steal ...
  std::ifstream file(folders_.statistics);
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
  Disturbance d;
  d.seconds = elapsed(begin_, Clock::now()).value;
  const Counters now = read();
  d.involuntary_switches = now.switches - counters_.switches;
  d.stolen_cpu_s = std::max(0.0, now.stolen_s - counters_.stolen_s);
  d.other_cpu_s = (now.busy_s - counters_.busy_s) - (now.own_s - counters_.own_s);
  // A thread that ended meanwhile takes its numbers with it.
  d.processor_wait_s = std::max(0.0, now.processor_wait_s - counters_.processor_wait_s);
  d.migrations = std::max<std::int64_t>(0, now.migrations - counters_.migrations);
  d.minor_faults = now.minor_faults - counters_.minor_faults;
  d.major_faults = now.major_faults - counters_.major_faults;
  d.watched_s = elapsed(watch_begin_, Clock::now()).value;
  d.watched_stolen_cpu_s = std::max(0.0, now.stolen_s - stolen_before_s_);
  d.throttle_events = std::max<std::int64_t>(0, now.throttle_events - counters_.throttle_events);
  d.quota_wait_s = std::max(0.0, now.quota_wait_s - counters_.quota_wait_s);
  d.lowest_mhz = d.highest_mhz = highest_mhz_of(folders_.processors);
  return d;
}

}  // namespace assay
