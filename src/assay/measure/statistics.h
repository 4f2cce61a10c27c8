// Pure functions of samples. A spread of too few samples is "unknown", not a number.
#pragma once

#include <optional>
#include <span>
#include <utility>

namespace assay {

double mean(std::span<const double> samples);    // 0 for none
double median(std::span<const double> samples);  // 0 for none
// The value below which the fraction p of the samples lies, between neighbours on a line; 0 for none.
double quantile(std::span<const double> samples, double p);
// An interval that holds the median of what the samples were drawn from with at least 95 % where there are
// six or more, whatever their distribution: order statistics. Of fewer, the smallest and the largest.
std::pair<double, double> median_interval(std::span<const double> samples);
// Sample standard deviation (n - 1); empty below two samples.
std::optional<double> standard_deviation(std::span<const double> samples);

}  // namespace assay
