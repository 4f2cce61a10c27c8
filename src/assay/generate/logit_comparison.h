// The logits of a block of positions, compared: a baseline's and each candidate's, a slice of the vocabulary
// at a time. Programs have the hidden states of the same rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/held_logits.h"
#include "assay/base/aligned.h"
#include "assay/base/error.h"
#include "assay/generate/divergence.h"
#include "assay/generate/token_divergence.h"

namespace assay {

// A row of hidden states whose next token is scored.
struct ScoredRow {
  std::int64_t row, place;  // in the step; in the text
  TokenId target;
};

// What becomes of the baseline's logits beside being compared: nothing, or they are kept; or what an earlier
// measure kept stands in for them.
enum class BaselineUse { passing, kept, read };

// What fails with one candidate leaves the others alone.
template <typename Action>
void attempt(CandidateDivergence& candidate, const Action& action) {
  try {
    action();
  } catch (const Stopped&) {
    throw;
  } catch (const DeviceFault&) {
    throw;
  } catch (const Error& error) {
    candidate.failure = error.what();
    candidate.tokens = {};
  }
}

class LogitComparison {
 public:
  // `results` has the vocabulary of each candidate, and is told of failures. All arguments outlive it.
  LogitComparison(Program& base, std::span<Program* const> candidates, std::int64_t step_rows,
                  const DivergenceOptions& options, BaselineUse use,
                  std::vector<CandidateDivergence>& results);

  std::int64_t most_rows() const { return block_rows_; }
  // Throws Error where a logit of the baseline is not finite.
  void compare(std::span<const ScoredRow> block);
  // What a row of the last block gave with a candidate that has not failed.
  TokenDivergence divergence(std::size_t candidate, std::size_t row) const;

 private:
  // All programs give slices; or they are on one device that reduces them; or they give whole rows.
  enum class Way { slices, held, rows };
  // Candidates with one vocabulary, and what the baseline has of it, for each position of a block.
  struct Group {
    std::int64_t vocab;
    std::vector<std::size_t> members;
    std::vector<LogitSummary> of_base;
  };
  // What a candidate has of a position.
  struct Row {
    LogitSummary summary;
    double weighed = 0;
  };
  // Ids of the vocabulary.
  struct Slice {
    std::int64_t first, end;
    std::int64_t count_below(std::int64_t vocab) const { return std::min(end, vocab) - first; }
  };

  void choose_way(std::int64_t step_rows);
  bool is_live(std::size_t candidate) const { return results_[candidate].failure.empty(); }
  void read_logits(Program& program, const Slice& slice, float* logits);
  void read_base(const Slice& slice);
  std::span<const float> logits_of(const float* logits, const Program& program, std::size_t i,
                                   const Slice& slice, std::int64_t vocab) const;
  template <typename Task>
  std::optional<std::size_t> first_false(const Task& task);
  void add_base(const Slice& slice, Group& group);
  void add_candidate(const Slice& slice, std::size_t c);
  void compare_slices();
  void compare_rows();
  std::span<const RowSlice> held_slices(std::size_t row, std::int64_t vocab) const;
  void add_held_base(Group& group);
  void add_held_candidate(std::size_t c);
  void compare_held();

  Program& base_;
  std::span<Program* const> candidates_;
  const DivergenceOptions& options_;
  std::vector<CandidateDivergence>& results_;
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_;  // by candidate
  BaselineUse use_;
  Way way_ = Way::rows;
  std::int64_t block_rows_ = 0, stride_ = 0;
  std::int64_t compared_ = 0;  // tokens so far
  const LogitReducer* reducer_ = nullptr;
  AlignedBuffer memory_;
  float *powers_ = nullptr, *base_logits_ = nullptr, *logits_ = nullptr;  // [block_rows_] in memory_
  std::vector<RowSlice> slices_;                                          // that a device gave: [row][slice]
  // The block that is compared.
  std::span<const ScoredRow> block_;
  std::vector<std::int64_t> rows_of_step_;
  std::vector<TokenId> targets_;
  std::vector<std::vector<Row>> rows_;  // by candidate
  std::vector<SliceScales> scales_;     // by row; those of a device's slices as slices_
  std::vector<char> is_done_;
};

}  // namespace assay
