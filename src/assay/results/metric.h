// The catalogue of metrics: what each number is, in which unit, and where its clock starts and stops. One
// entry here is all that files, tables and docs/METRICS.md know of a metric.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "assay/results/scenario.h"

namespace assay {

enum class Better { lower, higher, neither };

// The scenarios whose short table shows a metric.
class InTables {
 public:
  constexpr InTables() = default;
  constexpr InTables(std::initializer_list<Scenario> scenarios) {
    for (const Scenario scenario : scenarios) bits_ |= 1U << static_cast<unsigned>(scenario);
  }
  constexpr bool has(Scenario scenario) const { return (bits_ >> static_cast<unsigned>(scenario) & 1U) != 0; }
  constexpr bool is_empty() const { return bits_ == 0; }

 private:
  unsigned bits_ = 0;
};

struct Metric {
  std::string_view tag;    // the key in JSON and the column in CSV
  std::string_view title;  // in sentences and lists: "Time to first token"
  std::string_view head;   // a column's, without the unit: "TTFT"
  std::string_view unit;   // that values have in files
  Better better = Better::neither;
  // How people see it: value * scale, in this unit, with so many decimals (more where the smallest figure of
  // a column has fewer than three digits).
  double scale = 1;
  std::string_view shown_unit = {};  // empty: as in files
  int decimals = 0;
  bool shows_interval = false;  // its 95 % interval stands beside it
  InTables tables = {};
  int rank = 9;  // 1 stays longest where a table is too wide
  std::string_view definition;

  std::string column_head() const;  // "TTFT (ms)"
  // What a value can be; a file that holds anything else is damaged.
  double least() const;
  double most() const;
};

std::span<const Metric> metric_catalogue();
// Null for a tag that is not in the catalogue.
const Metric* find_metric(std::string_view tag);
// Throws std::logic_error for a tag that is not in the catalogue: a programming error.
const Metric& metric(std::string_view tag);

}  // namespace assay
