// Matrix multiplications, cut into tasks: of floats (linear.cpp) and of quantized weights
// (quantized_linear.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "assay/backend/cpu/lower/packed_plan.h"
#include "assay/backend/cpu/memory/workspace.h"
#include "assay/backend/cpu/run/tasks.h"
#include "assay/backend/cpu/run/weights_ahead.h"
#include "assay/quant/calibration.h"

namespace assay::cpu {

// Up to which a thread keeps to a region of its own of the panels.
inline constexpr std::int64_t kFewRows = 16;

// A part of a matrix multiplication: some panels of output features of some rows.
struct ProductPart {
  RowRange rows;
  std::int64_t first_panel, panels;
};

// The arguments of a part.
LinearArgs part_of(const LinearArgs& whole, const ProductPart& part);

// Where outputs go.
struct LinearTarget {
  const Buffer& out;
  std::int64_t column = 0;                   // the first in `out`
  const GatedOp* gate = nullptr;             // `out` then holds the gated product, half as many columns
  std::int64_t first_panel = 0, panels = 0;  // a part of the outputs, at the columns of all; 0 panels: all
};

// Rows for which the first panels of outputs, the queries, are computed; the others are for all rows.
struct NarrowPanels {
  RowRange rows;
  std::int64_t panels;
};

class Linear {
 public:
  // All outlive it; `packed` has its weights.
  Linear(const PackedPlan& packed, Tasks& tasks, Workspace& work);

  void run(const LinearOp& op, const Buffer& in, std::int64_t rows, const LinearTarget& target,
           const NarrowPanels* queries = nullptr);
  // One panel of outputs of one row, of weights that are not quantized: the bits of run().
  void run_panel(const LinearOp& op, const Buffer& in, const Buffer& out, std::int64_t row,
                 std::int64_t panel) const;

  // In llm_int8 so far, the share of input features that were decomposed as outliers; 0 where none ran.
  double outlier_share() const {
    return features_seen_ == 0 ? 0
                               : static_cast<double>(outliers_seen_) / static_cast<double>(features_seen_);
  }

 private:
  LinearArgs arguments(const LinearOp& op, const Buffer& in, std::int64_t rows,
                       const LinearTarget& target) const;
  void run_part(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                const LinearTarget& target);
  std::int64_t panels_at_once(const ProductPart& part, const PackedWeight& w, const RowShares& shares) const;
  // Cuts a part into tasks and calls multiply(arguments, part) for each.
  template <typename Multiply>
  void run_tasks(const LinearArgs& whole, const ProductPart& part, const PackedWeight& w,
                 const LinearTarget& target, const Multiply& multiply) {
    const RowShares shares = tasks_.shares_of(part.rows.size());
    const std::int64_t panels = panels_at_once(part, w, shares), groups = (part.panels + panels - 1) / panels;
    const auto run = [&](std::int64_t share, std::int64_t group) {
      const std::int64_t row = part.rows.first + shares.first(share), panel = group * panels;
      run_task(
          whole,
          {{row, row + shares.size(share)}, part.first_panel + panel, std::min(panels, part.panels - panel)},
          target, multiply);
    };
    if (part.rows.size() <= kFewRows)
      tasks_.run_in_regions(groups, [&](std::int64_t group) { run(0, group); });
    else
      tasks_.run_in_shares(shares, groups, run);
  }
  // The same, all rows of `at_once` panels each.
  template <typename Multiply>
  void run_panels(const LinearArgs& whole, const ProductPart& part, std::int64_t at_once,
                  const LinearTarget& target, const Multiply& multiply) {
    const std::int64_t last = part.first_panel + part.panels;
    tasks_.run((part.panels + at_once - 1) / at_once, [&](std::int64_t task) {
      const std::int64_t first = part.first_panel + task * at_once;
      run_task(whole, {part.rows, first, std::min(at_once, last - first)}, target, multiply);
    });
  }
  // Where outputs go through a gate, the same panels of both halves, side by side in the nearest cache.
  template <typename Multiply>
  void run_task(const LinearArgs& whole, const ProductPart& part, const LinearTarget& target,
                const Multiply& multiply) const {
    if (target.gate == nullptr) return multiply(part_of(whole, part), part);
    float* outputs = work_.gate_outputs(ThreadPool::worker());
    for (const std::int64_t half : {0, 1}) {
      const ProductPart own{part.rows, part.first_panel + half * (whole.panels / 2), part.panels};
      LinearArgs args = part_of(whole, own);
      args.y = outputs + (half * own.panels - own.first_panel) * kPanel;
      args.y_stride = Workspace::kGateColumns;
      multiply(args, own);
    }
    apply_gate(part, target, outputs);
  }
  void apply_gate(const ProductPart& part, const LinearTarget& target, const float* outputs) const;

  // Finds outliers and quantizes the activations of all rows: what run_int8 takes.
  LinearArgs quantize_inputs(const LinearOp& op, LinearArgs whole, const Buffer& in);
  void find_outliers(const LinearOp& op, const LinearArgs& whole);
  StaticInput input_of_all(const LinearOp& op, const LinearArgs& whole);
  void run_int8(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                const LinearTarget& target);
  void run_grouped(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                   const LinearTarget& target);
  void run_grouped_int8(const PackedWeight& w, const LinearArgs& whole, const ProductPart& part,
                        const LinearTarget& target);
  void run_four_bit(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                    const LinearTarget& target);
  void run_int8_activations(const LinearOp& op, const LinearArgs& whole, const ProductPart& part,
                            const LinearTarget& target, const ExpandArgs& weights);
  void fold_zero_points();

  const PackedPlan& packed_;
  Tasks& tasks_;
  Workspace& work_;
  // By weight: the bias of a product with static inputs, less what their zero point adds to its sums.
  std::vector<std::vector<float>> static_biases_;
  std::vector<Range> ranges_;  // for some rows each, where one code serves all
  std::vector<std::uint8_t> is_outlier_;
  std::vector<std::int32_t> outliers_;
  WeightsAhead ahead_;
  std::int64_t outliers_seen_ = 0, features_seen_ = 0;  // over all products that look for outliers
};

// Panels of a task of many rows: the most, up to `most`, with which the threads end together, or nearly so.
std::int64_t panels_of_task(std::int64_t panels, int threads, std::int64_t most);

}  // namespace assay::cpu
