// Standard errors of means over the tokens of texts, whose losses depend on their neighbours'.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace assay::statistics {

// Tokens that are taken together: in blocks of so many the dependence of neighbours is within a block (the
// variance of such means was 1.2 to 1.8 times that of independent tokens for losses).
inline constexpr std::int64_t kErrorBlock = 256;

struct Cluster {
  double sum = 0;
  std::int64_t count = 0;
};
// The standard error of sum / count over all clusters, which are independent of each other: the linearized
// variance of a ratio (Cochran, "Sampling techniques", 1977, 6.3). Empty below kMinForInterval clusters.
std::optional<double> clustered_error(std::span<const Cluster> clusters);

// That of the mean of `losses`. Of kMinForInterval texts or more, a text is a cluster; `text_tokens` says how
// many losses each has, in order. Of fewer, blocks of kErrorBlock are, and the last may be shorter.
std::optional<double> loss_error(std::span<const double> losses, std::span<const std::int64_t> text_tokens);

// sqrt((mean of squares - square of the mean) / (n - 1)): llama.cpp's, which takes tokens as independent.
// Empty below two.
std::optional<double> independent_error(std::span<const double> losses);

}  // namespace assay::statistics
