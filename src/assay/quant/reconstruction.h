// How far the values that codes stand for are from the ones they were made of.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace assay {

struct ReconstructionError {
  double rmse = 0;               // root of the mean squared difference, in the weight's own unit
  double max_abs_error = 0;      // the largest difference
  std::optional<double> snr_db;  // 10 log10(sum x^2 / sum difference^2); none where either sum is 0
  std::optional<double>
      cosine;  // that of the angle between the two as vectors; none where either is all zero
};

// Sums of which the errors are made: parts of a tensor are summed separately and merged in a fixed order, so
// that the figures do not depend on the number of threads. In double.
class ReconstructionSums {
 public:
  // Both of one size.
  void add(std::span<const float> original, std::span<const float> restored);
  void merge(const ReconstructionSums& other);
  ReconstructionError result() const;

 private:
  std::int64_t count_ = 0;
  double original_squares_ = 0, restored_squares_ = 0, products_ = 0, error_squares_ = 0, largest_ = 0;
};

// The error of a whole tensor at once.
ReconstructionError reconstruction_error(std::span<const float> original, std::span<const float> restored);

}  // namespace assay
