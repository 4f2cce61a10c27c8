// Errors of reconstruction, against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "assay/quant/reconstruction.h"

namespace assay {
namespace {

TEST(Reconstruction, FiguresOfAKnownCase) {
  // Squares sum to 30 and 28, products to 28, squares of the differences to 2.
  const std::vector<float> x{1, 2, 3, 4}, y{2, 2, 2, 4};
  const ReconstructionError error = reconstruction_error(x, y);
  EXPECT_DOUBLE_EQ(error.rmse, std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(error.max_abs_error, 1);
  EXPECT_DOUBLE_EQ(error.snr_db.value(), 10 * std::log10(15.0));
  EXPECT_DOUBLE_EQ(error.cosine.value(), 28 / std::sqrt(30.0 * 28.0));
}

TEST(Reconstruction, EqualOnesHaveNoRatio) {
  const std::vector<float> x{1, -2};
  const ReconstructionError error = reconstruction_error(x, x);
  EXPECT_EQ(error.rmse, 0);
  EXPECT_FALSE(error.snr_db.has_value());
  EXPECT_DOUBLE_EQ(error.cosine.value(), 1);
  const std::vector<float> zeros{0, 0};
  EXPECT_FALSE(reconstruction_error(zeros, x).snr_db.has_value());
  EXPECT_FALSE(reconstruction_error(x, zeros).cosine.has_value());
  EXPECT_DOUBLE_EQ(reconstruction_error(x, zeros).snr_db.value(), 0);
  EXPECT_EQ(reconstruction_error({}, {}).rmse, 0);
}

TEST(Reconstruction, PartsGiveWhatTheWholeGives) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6}, y{1, 2, 4, 4, 5, 0};
  ReconstructionSums first, second;
  first.add(std::span(x).first(2), std::span(y).first(2));
  second.add(std::span(x).subspan(2), std::span(y).subspan(2));
  first.merge(second);
  const ReconstructionError parts = first.result(), whole = reconstruction_error(x, y);
  EXPECT_DOUBLE_EQ(parts.rmse, whole.rmse);
  EXPECT_EQ(parts.max_abs_error, 6);
  EXPECT_DOUBLE_EQ(parts.snr_db.value(), whole.snr_db.value());
  EXPECT_DOUBLE_EQ(parts.cosine.value(), whole.cosine.value());
}

}  // namespace
}  // namespace assay
