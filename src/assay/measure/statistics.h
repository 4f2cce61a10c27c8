// Pure functions of samples. A spread of too few samples is "unknown", not a number.
#pragma once

#include <optional>
#include <span>

namespace assay {

double mean(std::span<const double> samples);    // 0 for none
double median(std::span<const double> samples);  // 0 for none
// Sample standard deviation (n - 1); empty below two samples.
std::optional<double> standard_deviation(std::span<const double> samples);

}  // namespace assay
