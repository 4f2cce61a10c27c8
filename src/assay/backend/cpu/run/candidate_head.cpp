#include "assay/backend/cpu/run/candidate_head.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

// More than one of so many panels left, and the whole LM head is as fast.
constexpr std::int64_t kOneOf = 4;

double norm_of(double sum_of_squares) {
  return std::sqrt(sum_of_squares) * (1 + 1e-6);  // upwards
}

}  // namespace

CandidateHead::CandidateHead(const PackedPlan& packed, Tasks& tasks, Workspace& work, Linear& linear)
    : packed_(packed),
      tasks_(tasks),
      work_(work),
      linear_(linear),
      has_bias_(packed.plan.head.product.bias != kNone) {
  search_.weight = static_cast<WeightId>(packed.plan.weights.size());  // behind the plan's own
  search_.bias = packed.plan.head.product.bias;
  measure_norms();
}

void CandidateHead::measure_norms() {
  const PackedWeight &head = packed_.head(), &copy = packed_.weight(search_.weight);
  const auto count = static_cast<std::size_t>(head.spec.rows),
             k = static_cast<std::size_t>(head.spec.columns);
  code_norms_.resize(count);
  error_norms_.resize(count);
  panel_marks_.resize(static_cast<std::size_t>(kHeadRows * head.panels));
  panels_to_compute_.reserve(panel_marks_.size());
  const float* bias = packed_.vector(search_.bias);
  // What k products, each rounded, can be off from their sum, twice.
  const double rounding = 2 * static_cast<double>(k + 8) * std::ldexp(1.0, -24);
  tasks_.run(head.panels, [&](std::int64_t panel) {
    std::vector<float> row(k);
    const auto* codes = reinterpret_cast<const std::int8_t*>(copy.data.data()) + panel * copy.panel_bytes();
    for (std::int64_t j = 0; j < kPanel && panel * kPanel + j < head.spec.rows; ++j) {
      const std::int64_t output = panel * kPanel + j;
      head.copy_row(output, row.data());
      const double unit = static_cast<double>(copy.scales()[output]) / 127;
      double squares = 0, squares_of_errors = 0;
      for (std::size_t i = 0; i < k; ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const double code = unit * codes[int8_offset(at, j)], error = static_cast<double>(row[i]) - code;
        squares += code * code;
        squares_of_errors += error * error;
      }
      const double norm = norm_of(squares), error = norm_of(squares_of_errors);
      code_norms_[static_cast<std::size_t>(output)] = static_cast<float>(norm);
      // A bias is rounded with the sum, whatever the norm of the activations: it counts as theirs of 1.
      const double of_bias =
          bias == nullptr ? 0.0 : std::ldexp(std::fabs(static_cast<double>(bias[output])), -21);
      error_norms_[static_cast<std::size_t>(output)] =
          static_cast<float>(error + rounding * (norm + error) + of_bias);
    }
  });
  const auto is_finite = [](float x) { return std::isfinite(x); };
  if (std::all_of(error_norms_.begin(), error_norms_.end(), is_finite)) return;
  code_norms_.clear();
  error_norms_.clear();
}

// Marks the panels of each row in normed that may hold its highest output; false where a row has no
// bound.
bool CandidateHead::mark_candidates(std::int64_t rows) {
  if (error_norms_.empty()) return false;
  const PackedWeight& head = packed_.head();
  const Buffer &normed = work_.head_normed, &logits = work_.logits;
  const Int8Inputs& int8 = work_.int8;
  linear_.run(search_, normed, rows, {.out = logits});
  std::atomic<bool> has_bounds = true;
  tasks_.run(rows, [&](std::int64_t row) {
    const std::int64_t k = head.spec.columns;
    const float* floats = normed.floats + row * normed.stride;
    const bool has_tiles = packed_.multiplies_tiles(head);
    const auto* codes = reinterpret_cast<const std::int8_t*>(int8.codes.data);
    const double unit = static_cast<double>(int8.absmax[row]) / 127;
    double squares = 0, squares_of_errors = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int8_t code =
          codes[i / kInt8Columns * int8.codes.strip() * 2 + row * kInt8Columns + i % kInt8Columns];
      const double x = static_cast<double>(
          has_tiles ? bf16_to_float(normed.tiles.data[normed.tiles.offset(row, i)]) : floats[i]);
      const double error = x - unit * (code - int8.zero_points[row]);
      squares += x * x;
      squares_of_errors += error * error;
    }
    const auto x_norm = static_cast<float>(norm_of(squares)),
               x_error = static_cast<float>(norm_of(squares_of_errors));
    if (!std::isfinite(x_norm) || !std::isfinite(x_error)) return has_bounds.store(false);
    packed_.table.mark_candidates({.outputs = logits.floats + row * logits.stride,
                                   .code_norms = code_norms_.data(),
                                   .error_norms = error_norms_.data(),
                                   .n = head.spec.rows,
                                   .x_norm = has_bias_ ? std::max(x_norm, 1.0F) : x_norm,
                                   .x_error = x_error,
                                   .marks = panel_marks_.data() + row * head.panels});
  });
  return has_bounds;
}

// The highest output of each row in normed, the lowest of equals. False where that takes the whole
// head: too many candidates are left, or one of them is NaN or infinite.
bool CandidateHead::find_highest(std::int64_t rows, std::span<TokenId> ids) {
  const PackedWeight& head = packed_.head();
  const std::int64_t all = rows * head.panels;
  const bool has_bounds = mark_candidates(rows);
  panels_to_compute_.clear();
  for (std::int64_t i = 0; has_bounds && i < all; ++i)
    if (panel_marks_[static_cast<std::size_t>(i)] != 0)
      panels_to_compute_.emplace_back(i / head.panels, i % head.panels);
  const auto left = static_cast<std::int64_t>(panels_to_compute_.size());
  const bool leaves_few = has_bounds && left <= all / kOneOf;
  panels_searched_ += all;
  panels_left_ += leaves_few ? left : all;
  if (!leaves_few) return false;
  tasks_.run(left, [&](std::int64_t i) {
    const auto [row, panel] = panels_to_compute_[static_cast<std::size_t>(i)];
    linear_.run_panel(packed_.plan.head.product, work_.head_normed, work_.logits, row, panel);
  });
  std::fill(ids.begin(), ids.end(), TokenId{-1});
  for (const auto& [row, panel] : panels_to_compute_) {
    const float* logits = work_.logits.floats + row * work_.logits.stride;
    TokenId& best = ids[static_cast<std::size_t>(row)];
    const std::int64_t end = std::min(packed_.plan.vocab, (panel + 1) * kPanel);
    for (std::int64_t j = panel * kPanel; j < end; ++j) {
      if (!(logits[j] <= std::numeric_limits<float>::max())) return false;
      if (best < 0 || logits[j] > logits[best]) best = static_cast<TokenId>(j);
    }
  }
  return true;
}

}  // namespace assay::cpu
