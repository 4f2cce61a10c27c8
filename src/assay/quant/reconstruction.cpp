#include "assay/quant/reconstruction.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace assay {

void ReconstructionSums::add(std::span<const float> original, std::span<const float> restored) {
  assert(original.size() == restored.size());
  count_ += static_cast<std::int64_t>(original.size());
  for (std::size_t i = 0; i < original.size(); ++i) {
    const auto x = static_cast<double>(original[i]), y = static_cast<double>(restored[i]);
    original_squares_ += x * x;
    restored_squares_ += y * y;
    products_ += x * y;
    error_squares_ += (x - y) * (x - y);
    largest_ = std::max(largest_, std::fabs(x - y));
  }
}

void ReconstructionSums::merge(const ReconstructionSums& other) {
  count_ += other.count_;
  original_squares_ += other.original_squares_;
  restored_squares_ += other.restored_squares_;
  products_ += other.products_;
  error_squares_ += other.error_squares_;
  largest_ = std::max(largest_, other.largest_);
}

ReconstructionError ReconstructionSums::result() const {
  ReconstructionError error;
  if (count_ == 0) return error;
  error.rmse = std::sqrt(error_squares_ / static_cast<double>(count_));
  error.max_abs_error = largest_;
  if (original_squares_ > 0 && error_squares_ > 0)
    error.snr_db = 10 * std::log10(original_squares_ / error_squares_);
  if (original_squares_ > 0 && restored_squares_ > 0)
    error.cosine = std::min(1.0, products_ / (std::sqrt(original_squares_) * std::sqrt(restored_squares_)));
  return error;
}

ReconstructionError reconstruction_error(std::span<const float> original, std::span<const float> restored) {
  ReconstructionSums sums;
  sums.add(original, restored);
  return sums.result();
}

}  // namespace assay
