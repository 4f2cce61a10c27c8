#include "assay/statistics/text_error.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "assay/statistics/statistics.h"

namespace assay::statistics {

std::optional<double> clustered_error(std::span<const Cluster> clusters) {
  const std::size_t n = clusters.size();
  if (n < kMinForInterval) return std::nullopt;
  double sum = 0, count = 0;
  for (const Cluster& cluster : clusters) {
    sum += cluster.sum;
    count += static_cast<double>(cluster.count);
  }
  if (count <= 0) return std::nullopt;
  const double mean = sum / count;
  double squares = 0;
  for (const Cluster& cluster : clusters) {
    const double beyond = cluster.sum - mean * static_cast<double>(cluster.count);
    squares += beyond * beyond;
  }
  const auto clusters_count = static_cast<double>(n);
  return std::sqrt(clusters_count / (clusters_count - 1) * squares) / count;
}

std::optional<double> loss_error(std::span<const double> losses, std::span<const std::int64_t> text_tokens) {
  std::vector<Cluster> clusters;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (begin == end) return;
    Cluster& cluster = clusters.emplace_back();
    for (std::size_t i = begin; i < end; ++i) cluster.sum += losses[i];
    cluster.count = static_cast<std::int64_t>(end - begin);
  };
  if (text_tokens.size() >= kMinForInterval) {
    std::size_t at = 0;
    for (const std::int64_t tokens : text_tokens) {
      const std::size_t end = std::min(losses.size(), at + static_cast<std::size_t>(tokens));
      add(at, end);
      at = end;
    }
  } else {
    for (std::size_t at = 0; at < losses.size(); at += kErrorBlock)
      add(at, std::min(losses.size(), at + static_cast<std::size_t>(kErrorBlock)));
  }
  return clustered_error(clusters);
}

std::optional<double> independent_error(std::span<const double> losses) {
  if (losses.size() < 2) return std::nullopt;
  double sum = 0, squares = 0;
  for (const double loss : losses) {
    sum += loss;
    squares += loss * loss;
  }
  const auto n = static_cast<double>(losses.size());
  return std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)) / (n - 1));
}

}  // namespace assay::statistics
