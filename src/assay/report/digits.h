// How many digits of a figure are shown: as many as its interval makes meaningful.
#pragma once

#include <optional>
#include <string>

#include "assay/results/metric.h"
#include "assay/results/results.h"
#include "assay/statistics/statistics.h"

namespace assay::report {

// Decimals after the point; -1 rounds to tens.
struct Decimals {
  int count = 0;
};

// Those that the interval's half-width needs: two significant digits of it up to 3.5 (0.35, 350), one above,
// as the Particle Data Group rounds (Review of Particle Physics, Introduction); never fewer than two
// significant digits of the value need. Where nothing bounds the value (no interval, one of no width, one
// that is no number): `otherwise`.
Decimals supported_decimals(double value, const std::optional<statistics::Interval>& interval,
                            Decimals otherwise);
// Those that so many significant digits take.
Decimals significant(double value, int digits);

// At most four significant digits, and more of a large number rather than an exponent: "0.25", "12346".
std::string plain_number(double value);
// "11940" of 11938.2 to tens; "-" of what is no number.
std::string rounded(double value, Decimals decimals);
// The value alone, and with its interval: "3.56 [3.41, 3.72]". Without an interval: `digits` significant
// ones.
std::string shown_number(double value, const std::optional<statistics::Interval>& interval, int digits = 3);
std::string with_interval(double value, const std::optional<statistics::Interval>& interval, int digits = 3);
// The interval alone, with the digits that it has beside the value: "[3.41, 3.72]"; empty without one.
std::string shown_interval(double value, const std::optional<statistics::Interval>& interval, int digits = 3);

// Whether the value's interval tells which of its digits mean anything: not where it is counted, nor where it
// comes out the same on every run (perplexity).
bool is_bounded(const Metric& metric, const Value& value);
// Those of the value as people see it (Metric::scale): `otherwise` where it is not bounded.
Decimals decimals_of(const Metric& metric, const Value& value, Decimals otherwise);

// The ends of an interval in percent of the figure: "±4.4%"; "-45%/+80%" where they do not lie about as far
// off. Empty where there is none.
std::string relative_interval(double value, const std::optional<statistics::Interval>& interval);

}  // namespace assay::report
