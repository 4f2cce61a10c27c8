// The catalogue of metrics: what each number is, in which unit, and where its clock starts and stops.
#pragma once

#include <span>
#include <string_view>

namespace assay {

enum class Better { lower, higher, neither };

struct Metric {
  std::string_view tag;    // the key in JSON and CSV
  std::string_view title;  // the head of a table's column
  std::string_view unit;
  Better better;
  std::string_view definition;
};

std::span<const Metric> metric_catalogue();
// Throws std::logic_error for a tag that is not in the catalogue: a programming error.
const Metric& metric(std::string_view tag);

}  // namespace assay
