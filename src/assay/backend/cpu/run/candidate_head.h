// Greedy decoding without the whole LM head: a search in int8 leaves few candidates, which are computed
// exactly. With w' and x' the dequantized weights and activations, |w x - w' x'| <= |w - w'| |x| + |w'| |x -
// x'| (Cauchy and Schwarz): outputs that lie below the best lower bound by more than that cannot be the
// highest. A bias is added to both sides; scale and soft cap of the logits do not change their order. It is a
// maximum inner product search whose result is proven, bit for bit.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "assay/backend/cpu/run/linear.h"
#include "assay/base/token_id.h"

namespace assay::cpu {

class CandidateHead {
 public:
  // The int8 codes of the LM head are the last of the packed weights.
  CandidateHead(const PackedPlan& packed, Tasks& tasks, Workspace& work, Linear& linear);

  // The highest output of each row in work.head_normed, the lowest of equals. False where that takes the
  // whole LM head: too many candidates are left, or one of them is not finite.
  bool find_highest(std::int64_t rows, std::span<TokenId> ids);
  // So far: the share of the outputs that were computed exactly; 0 where none was searched for.
  double computed_share() const {
    return panels_searched_ == 0 ? 0
                                 : static_cast<double>(panels_left_) / static_cast<double>(panels_searched_);
  }

 private:
  void measure_norms();
  bool mark_candidates(std::int64_t rows);

  const PackedPlan& packed_;
  Tasks& tasks_;
  Workspace& work_;
  Linear& linear_;
  LinearOp search_;
  // The norms of each output's codes, and of what the weights differ from them, with what rounding adds;
  // empty where there is no bound. Of each row the panels that the bound leaves.
  std::vector<float> code_norms_, error_norms_;
  bool has_bias_;
  std::vector<std::uint8_t> panel_marks_;
  std::vector<std::pair<std::int64_t, std::int64_t>> panels_to_compute_;  // row, panel
  std::int64_t panels_left_ = 0, panels_searched_ = 0;                    // over all calls
};

}  // namespace assay::cpu
