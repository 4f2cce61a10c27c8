// The highest output of a head by way of int8. With w' and x' what codes of weights and inputs are worth,
// |w x - w' x'| <= |w - w'| |x| + |w'| |x - x'| (Cauchy and Schwarz): outputs that lie below the best lower
// bound by more than that cannot be the highest, and all others are computed as they would be without a
// screen.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "assay/backend/cpu/cpu_program.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

// More than one of so many panels left, and the whole head is as fast.
constexpr std::int64_t kOneOf = 4;

double norm_of(double sum_of_squares) {
  return std::sqrt(sum_of_squares) * (1 + 1e-6);  // upwards
}

}  // namespace

void CpuProgram::measure_screen() {
  const PackedWeight &head = weight(std::get<LinearOp>(plan_.head.what).weight), &screen = weights_.back();
  const auto count = static_cast<std::size_t>(head.spec.rows),
             k = static_cast<std::size_t>(head.spec.columns);
  code_norms_.resize(count);
  error_norms_.resize(count);
  panel_marks_.resize(static_cast<std::size_t>(kHeadRows * head.panels));
  panels_to_compute_.reserve(panel_marks_.size());
  // What k products, each rounded, can be off from their sum, twice.
  const double rounding = 2 * static_cast<double>(k + 8) * std::ldexp(1.0, -24);
  pool_->run(head.panels, [&](std::int64_t panel) {
    std::vector<float> row(k);
    const auto* codes =
        reinterpret_cast<const std::int8_t*>(screen.data.data()) + panel * screen.panel_bytes();
    for (std::int64_t j = 0; j < kPanel && panel * kPanel + j < head.spec.rows; ++j) {
      const std::int64_t output = panel * kPanel + j;
      head.copy_row(output, row.data());
      const double unit = static_cast<double>(screen.scales()[output]) / 127;
      double squares = 0, squares_of_errors = 0;
      for (std::size_t i = 0; i < k; ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const double code = unit * codes[at / 4 * 4 * kPanel + j * 4 + at % 4],
                     error = static_cast<double>(row[i]) - code;
        squares += code * code;
        squares_of_errors += error * error;
      }
      const double norm = norm_of(squares), error = norm_of(squares_of_errors);
      code_norms_[static_cast<std::size_t>(output)] = static_cast<float>(norm);
      error_norms_[static_cast<std::size_t>(output)] = static_cast<float>(error + rounding * (norm + error));
    }
  });
  const auto is_finite = [](float x) { return std::isfinite(x); };
  if (std::all_of(error_norms_.begin(), error_norms_.end(), is_finite)) return;
  code_norms_.clear();
  error_norms_.clear();
}

// Marks the panels of each row in head_normed_ that may hold its highest output; false where a row has no
// bound.
bool CpuProgram::screen_rows(std::int64_t rows) {
  if (error_norms_.empty()) return false;
  const PackedWeight& head = weight(std::get<LinearOp>(plan_.head.what).weight);
  LinearOp screen;
  screen.weight = static_cast<WeightId>(plan_.weights.size());  // behind the plan's own
  run_linear(screen, head_normed_, rows, logits_);
  std::atomic<bool> has_bounds = true;
  pool_->run(rows, [&](std::int64_t row) {
    const std::int64_t k = head.spec.columns;
    const float* floats = head_normed_.floats + row * head_normed_.stride;
    const bool has_tiles = multiplies_tiles(head);
    const auto* codes = reinterpret_cast<const std::int8_t*>(codes_.data);
    const double unit = static_cast<double>(absmax_[row]) / 127;
    double squares = 0, squares_of_errors = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int8_t code =
          codes[i / kInt8Columns * codes_.strip() * 2 + row * kInt8Columns + i % kInt8Columns];
      const double x = static_cast<double>(
          has_tiles ? bf16_to_float(head_normed_.tiles.data[head_normed_.tiles.offset(row, i)]) : floats[i]);
      const double error = x - unit * (code - zero_points_[row]);
      squares += x * x;
      squares_of_errors += error * error;
    }
    const auto x_norm = static_cast<float>(norm_of(squares)),
               x_error = static_cast<float>(norm_of(squares_of_errors));
    if (!std::isfinite(x_norm) || !std::isfinite(x_error)) return has_bounds.store(false);
    table_.screen({.outputs = logits_.floats + row * logits_.stride,
                   .code_norms = code_norms_.data(),
                   .error_norms = error_norms_.data(),
                   .n = head.spec.rows,
                   .x_norm = x_norm,
                   .x_error = x_error,
                   .marks = panel_marks_.data() + row * head.panels});
  });
  return has_bounds;
}

// The highest output of each row in head_normed_, the lowest of equals. False where that takes the whole
// head: the screen leaves too many, or one of them is NaN or infinite.
bool CpuProgram::find_highest(std::int64_t rows, std::span<TokenId> ids) {
  const auto& op = std::get<LinearOp>(plan_.head.what);
  const PackedWeight& head = weight(op.weight);
  const std::int64_t all = rows * head.panels;
  const bool has_bounds = screen_rows(rows);
  panels_to_compute_.clear();
  for (std::int64_t i = 0; has_bounds && i < all; ++i)
    if (panel_marks_[static_cast<std::size_t>(i)] != 0)
      panels_to_compute_.emplace_back(i / head.panels, i % head.panels);
  const auto left = static_cast<std::int64_t>(panels_to_compute_.size());
  const bool leaves_few = has_bounds && left <= all / kOneOf;
  panels_screened_ += all;
  panels_left_ += leaves_few ? left : all;
  if (!leaves_few) return false;
  const LinearArgs whole = linear_args(op, head_normed_, rows, logits_);
  const auto kernel = multiplies_tiles(head) ? table_.linear_tiles : table_.linear;
  pool_->run(left, [&](std::int64_t i) {
    const auto [row, panel] = panels_to_compute_[static_cast<std::size_t>(i)];
    LinearArgs part = rows_of(whole, row, 1);
    part.first_panel = panel;
    part.panels = 1;
    kernel(part);
  });
  std::fill(ids.begin(), ids.end(), TokenId{-1});
  for (const auto& [row, panel] : panels_to_compute_) {
    const float* logits = logits_.floats + row * logits_.stride;
    TokenId& best = ids[static_cast<std::size_t>(row)];
    const std::int64_t end = std::min(plan_.vocab, (panel + 1) * kPanel);
    for (std::int64_t j = panel * kPanel; j < end; ++j) {
      if (!(logits[j] <= std::numeric_limits<float>::max())) return false;
      if (best < 0 || logits[j] > logits[best]) best = static_cast<TokenId>(j);
    }
  }
  return true;
}

}  // namespace assay::cpu
