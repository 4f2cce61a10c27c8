#include "assay/results/machine_speed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "assay/base/format.h"
#include "assay/statistics/replicates.h"

namespace assay {

namespace {

constexpr const char* kRoundTripTag = "thread_round_trip_us";
// Nothing, reading and multiplying: what a time is measured in.
constexpr std::string_view kUnits[] = {"", "roofline_gb_s", "roofline_gflops"};

// By process: times in the unit, whose logarithms therefore are added; rates are divided by it.
std::map<int, double> in_unit(const Row& row, std::string_view tag, bool is_rate, std::string_view unit) {
  std::map<int, double> logs = log_medians(row, tag);
  if (unit.empty()) return logs;
  const std::map<int, double> speeds = log_medians(row, unit);
  std::erase_if(logs, [&](const auto& each) { return !speeds.contains(each.first); });
  for (auto& [process, log] : logs) log += is_rate ? -speeds.at(process) : speeds.at(process);
  return logs;
}

// Over rows, by visit. Rows that did not fit into memory together ran in processes of other numbers, and a
// row may run in each of these groups: what counts is the order.
std::vector<double> visits_of(std::span<const Row* const> rows, std::string_view tag, bool is_rate,
                              std::string_view unit) {
  std::vector<std::vector<double>> of_rows;
  std::size_t visits = std::numeric_limits<std::size_t>::max();
  for (const Row* row : rows) {
    std::vector<double>& own = of_rows.emplace_back();
    for (const auto& [process, log] : in_unit(*row, tag, is_rate, unit)) own.push_back(log);
    visits = std::min(visits, own.size());
  }
  std::vector<double> means(visits);
  for (const std::vector<double>& own : of_rows)
    for (std::size_t i = 0; i < visits; ++i) {
      const std::size_t begin = i * own.size() / visits, end = (i + 1) * own.size() / visits;
      means[i] +=
          statistics::mean(std::span(own).subspan(begin, end - begin)) / static_cast<double>(rows.size());
    }
  return means;
}

double geometric_mean(const std::map<int, double>& logs) {
  double sum = 0;
  for (const auto& [process, log] : logs) sum += log;
  return std::exp(sum / static_cast<double>(logs.size()));
}

}  // namespace

std::map<int, double> log_medians(const Row& row, std::string_view tag) {
  const Value* value = row.find(tag);
  if (value == nullptr || value->samples.size() != row.places.size()) return {};
  std::map<int, std::vector<double>> samples;
  for (std::size_t i = 0; i < value->samples.size(); ++i)
    samples[row.places[i].process].push_back(value->samples[i]);
  std::map<int, double> medians;
  for (const auto& [process, own] : samples)
    if (const double median = statistics::median(own); median > 0) medians[process] = std::log(median);
  return medians;
}

std::optional<std::string> why_machine_differs(const Row& a, const Row& b) {
  const std::map<int, double> old = log_medians(a, kRoundTripTag), now = log_medians(b, kRoundTripTag);
  if (old.empty() || now.empty()) return std::nullopt;
  const double of_a = geometric_mean(old), of_b = geometric_mean(now);
  if (std::max(of_a, of_b) <= kMoved * std::min(of_a, of_b)) return std::nullopt;
  return fmt::format(
      "threads took {:.2f} us to synchronize in A and {:.2f} us in B, so the host has moved the processors; "
      "repeat the runs until both times agree",
      of_a, of_b);
}

std::vector<statistics::Effect> effects_beside_machine(std::span<const ComparedPair> rows,
                                                       std::string_view tag, bool is_rate) {
  std::vector<const Row*> old, now;
  for (const ComparedPair& pair : rows) {
    old.push_back(pair.a);
    now.push_back(pair.b);
  }
  std::vector<statistics::Effect> effects;
  for (const std::string_view unit : kUnits)
    if (const auto effect =
            statistics::difference_of(visits_of(old, tag, is_rate, unit), visits_of(now, tag, is_rate, unit)))
      effects.push_back(*effect);
  return effects;
}

}  // namespace assay
