// The results.json that a page offers as a download.
#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

#include "assay/report/html/markup.h"
#include "assay/report/written_results.h"

namespace assay::report {

namespace {

// A clock counts nanoseconds, and no duration varies by less than a hundred thousandth of itself: sixteen
// digits of a sample are those of its conversion to seconds, and make half of a page.
constexpr int kDigits = 6;

double with_measured_digits(double value) {
  char text[32] = {};
  const auto written =
      std::to_chars(std::begin(text), std::end(text), value, std::chars_format::scientific, kDigits - 1);
  double rounded = value;
  if (written.ec == std::errc()) std::from_chars(std::begin(text), written.ptr, rounded);
  return rounded;
}

void shorten(nlohmann::ordered_json& json) {
  if (json.is_structured())
    for (auto& each : json) shorten(each);
  // Bytes and tokens are whole.
  else if (json.is_number_float() && std::trunc(json.get<double>()) != json.get<double>())
    json = with_measured_digits(json.get<double>());
}

// Sampled figures alone: what is counted or scored is compared to the last digit by `assay verify`.
void shorten_samples(nlohmann::ordered_json& results) {
  for (auto& row : results["rows"]) {
    for (auto& value : row["values"])
      if (!value["samples"].empty()) shorten(value);
    if (row.contains("step_s")) shorten(row["step_s"]);
  }
}

}  // namespace

EmbeddedData embedded_data(const ResultSet& results) {
  nlohmann::ordered_json all = results_json(results);
  shorten_samples(all);
  std::string json = script_json(all);
  if (json.size() <= kMostWithSteps) return {std::move(json), true};
  for (auto& row : all["rows"]) row.erase("step_s");
  json = script_json(all);
  if (json.size() > kMostEmbedded) json.clear();
  return {std::move(json), false};
}

}  // namespace assay::report
