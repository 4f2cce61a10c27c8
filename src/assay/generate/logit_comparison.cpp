#include "assay/generate/logit_comparison.h"

#include <algorithm>
#include <array>

#include "assay/base/thread_pool.h"
#include "assay/generate/divergence_input.h"

namespace assay {

namespace {

// Positions in a block, of a device that gives whole rows of logits alone.
constexpr std::int64_t kMostWholeRows = 32;
constexpr std::int64_t kRowsOfTask = 8, kFloatBytes = sizeof(float);
// Rows of a slice must not lie a multiple of 4 KB apart.
constexpr std::int64_t kSliceStride = kHeadSlice + 16;

}  // namespace

LogitComparison::LogitComparison(Program& base, std::span<Program* const> candidates, std::int64_t step_rows,
                                 const DivergenceOptions& options, BaselineUse use,
                                 std::vector<CandidateDivergence>& results)
    : base_(base), candidates_(candidates), options_(options), results_(results), use_(use) {
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    auto group = std::find_if(groups_.begin(), groups_.end(),
                              [&](const Group& g) { return g.vocab == results[c].vocab; });
    if (group == groups_.end()) group = groups_.insert(groups_.end(), {results[c].vocab, {}, {}});
    group->members.push_back(c);
    group_of_.push_back(static_cast<std::size_t>(group - groups_.begin()));
  }
  choose_way(step_rows);
  if (way_ == Way::held) return;
  reducer_ = base.logit_reducer() != nullptr ? base.logit_reducer() : &portable_logit_reducer();
  const std::int64_t powers = block_rows_ * kSliceStride, logits = block_rows_ * stride_;
  memory_ = AlignedBuffer(static_cast<std::size_t>((powers + 2 * logits) * kFloatBytes), "a slice of logits");
  powers_ = memory_.floats();
  base_logits_ = powers_ + powers;
  logits_ = base_logits_ + logits;
}

void LogitComparison::choose_way(std::int64_t step_rows) {
  const auto are_all = [&](const auto& test) {
    return test(base_) && std::all_of(candidates_.begin(), candidates_.end(),
                                      [&](Program* candidate) { return test(*candidate); });
  };
  if (are_all([](const Program& program) { return program.has_head_slices(); })) {
    way_ = Way::slices;
    block_rows_ = step_rows;
    stride_ = kSliceStride;
    return;
  }
  const HeldLogits* const base = base_.held_logits();
  // Logits that are kept, or were, lie in the host's memory.
  if (use_ == BaselineUse::passing && base != nullptr && are_all([&](Program& program) {
        const HeldLogits* const own = program.held_logits();
        return own != nullptr && own->is_beside(*base);
      })) {
    way_ = Way::held;
    block_rows_ = base->most_rows();
    for (Program* candidate : candidates_)
      block_rows_ = std::min(block_rows_, candidate->held_logits()->most_rows());
    return;
  }
  stride_ = base_.plan().vocab;
  for (const Program* candidate : candidates_) stride_ = std::max(stride_, candidate->plan().vocab);
  block_rows_ = std::clamp<std::int64_t>(kDivergenceBytes / 2 / (stride_ * kFloatBytes), 1, kMostWholeRows);
}

// The ids of `slice` of the block's logits, or all at once where they come so.
void LogitComparison::read_logits(Program& program, const Slice& slice, float* logits) {
  if (way_ == Way::slices)
    return program.head_slice(rows_of_step_, {.first = slice.first,
                                              .count = slice.count_below(program.plan().vocab),
                                              .logits = logits,
                                              .stride = stride_});
  const std::int64_t vocab = program.plan().vocab, rows = std::ssize(rows_of_step_);
  program.head(rows_of_step_, LogitsSink{{logits, static_cast<std::size_t>(rows * vocab)}});
}

// The baseline's, from it or from what was kept.
void LogitComparison::read_base(const Slice& slice) {
  if (use_ != BaselineUse::read) read_logits(base_, slice, base_logits_);
  if (use_ == BaselineUse::passing) return;
  const std::int64_t vocab = base_.plan().vocab,
                     count = way_ == Way::slices ? slice.count_below(vocab) : vocab;
  for (std::size_t i = 0; i < block_.size(); ++i) {
    float* own = base_logits_ + static_cast<std::int64_t>(i) * (way_ == Way::slices ? stride_ : vocab);
    float* kept =
        options_.kept->logits.data() + (compared_ + static_cast<std::int64_t>(i)) * vocab + slice.first;
    use_ == BaselineUse::read ? std::copy_n(kept, count, own) : std::copy_n(own, count, kept);
  }
}

// Where the ids of `slice` of row i lie that both models have.
std::span<const float> LogitComparison::logits_of(const float* logits, const Program& program, std::size_t i,
                                                  const Slice& slice, std::int64_t vocab) const {
  const std::int64_t row = static_cast<std::int64_t>(i);
  const float* begin =
      way_ == Way::slices ? logits + row * stride_ : logits + row * program.plan().vocab + slice.first;
  return {begin, static_cast<std::size_t>(slice.count_below(vocab))};
}

// Calls task(i) for the rows of the block, and gives the first for which it is false, or none.
template <typename Task>
std::optional<std::size_t> LogitComparison::first_false(const Task& task) {
  const auto rows = static_cast<std::int64_t>(block_.size());
  is_done_.assign(block_.size(), 0);
  const auto run = [&](std::int64_t group) {
    const std::int64_t end = std::min(rows, (group + 1) * kRowsOfTask);
    for (std::int64_t row = group * kRowsOfTask; row < end; ++row) {
      const auto i = static_cast<std::size_t>(row);
      is_done_[i] = task(i) ? 1 : 0;
    }
  };
  const std::int64_t groups = (rows + kRowsOfTask - 1) / kRowsOfTask;
  if (options_.pool == nullptr) {
    for (std::int64_t group = 0; group < groups; ++group) run(group);
  } else {
    options_.pool->run(groups, run);
  }
  const auto found = std::find(is_done_.begin(), is_done_.end(), 0);
  if (found == is_done_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - is_done_.begin());
}

// The baseline's ids that the group has too, and their powers, which stay in powers_.
void LogitComparison::add_base(const Slice& slice, Group& group) {
  const auto bad = first_false([&](std::size_t i) {
    const auto scales = add_slice(group.of_base[i], logits_of(base_logits_, base_, i, slice, group.vocab),
                                  static_cast<TokenId>(slice.first), block_[i].target, *reducer_,
                                  powers_ + static_cast<std::int64_t>(i) * kSliceStride);
    if (scales) scales_[i] = *scales;
    return scales.has_value();
  });
  if (bad) throw Error("the baseline's {}", logits_not_finite(block_[*bad].place));
}

void LogitComparison::add_candidate(const Slice& slice, std::size_t c) {
  const Program& program = *candidates_[c];
  const std::int64_t vocab = results_[c].vocab;
  const auto bad = first_false([&](std::size_t i) {
    const auto of_base = logits_of(base_logits_, base_, i, slice, vocab),
               logits = logits_of(logits_, program, i, slice, vocab);
    const float* powers = powers_ + static_cast<std::int64_t>(i) * kSliceStride;
    Row& row = rows_[c][i];
    row.weighed = row.weighed * scales_[i].earlier +
                  scales_[i].own * reducer_->weigh(powers, of_base.data(), logits.data(),
                                                   static_cast<std::int64_t>(logits.size()));
    std::array<float, kHeadSlice> unused;  // the candidate's own powers
    return add_slice(row.summary, logits, static_cast<TokenId>(slice.first), block_[i].target, *reducer_,
                     unused.data())
        .has_value();
  });
  if (bad) throw Error("the {}", logits_not_finite(block_[*bad].place));
}

// Slice by slice, all models: the baseline's is held while each candidate's is beside it.
void LogitComparison::compare_slices() {
  for (Group& group : groups_) group.of_base.assign(block_.size(), {});
  const std::int64_t vocab = base_.plan().vocab;
  for (std::int64_t first = 0; first < vocab; first += kHeadSlice) {
    const Slice slice{first, first + kHeadSlice};
    read_base(slice);
    for (Group& group : groups_) {
      if (slice.count_below(group.vocab) <= 0) continue;
      add_base(slice, group);
      for (const std::size_t c : group.members)
        if (is_live(c))
          attempt(results_[c], [&] {
            read_logits(*candidates_[c], slice, logits_);
            add_candidate(slice, c);
          });
    }
  }
}

// Candidate by candidate, of a device that gives whole rows of logits.
void LogitComparison::compare_rows() {
  read_base({});
  for (Group& group : groups_)
    for (const std::size_t c : group.members) {
      if (!is_live(c)) continue;
      attempt(results_[c], [&] { read_logits(*candidates_[c], {}, logits_); });
      group.of_base.assign(block_.size(), {});
      for (std::int64_t first = 0; first < group.vocab; first += kHeadSlice) {
        const Slice slice{first, first + kHeadSlice};
        add_base(slice, group);
        if (is_live(c)) attempt(results_[c], [&] { add_candidate(slice, c); });
      }
    }
}

// The slices of a row that a device has reduced.
std::span<const RowSlice> LogitComparison::held_slices(std::size_t row, std::int64_t vocab) const {
  const auto slices = static_cast<std::size_t>(slices_of(vocab));
  return std::span(slices_).subspan(row * slices, slices);
}

void LogitComparison::add_held_base(Group& group) {
  scales_.clear();
  for (std::size_t i = 0; i < block_.size(); ++i)
    for (const RowSlice& slice : held_slices(i, group.vocab)) {
      const auto scales = add_slice(group.of_base[i], slice);
      if (!scales) throw Error("the baseline's {}", logits_not_finite(block_[i].place));
      scales_.push_back(*scales);
    }
}

void LogitComparison::add_held_candidate(std::size_t c) {
  auto scales = scales_.begin();
  for (std::size_t i = 0; i < block_.size(); ++i)
    for (const RowSlice& slice : held_slices(i, results_[c].vocab)) {
      Row& row = rows_[c][i];
      row.weighed = row.weighed * scales->earlier + scales->own * slice.weighed;
      ++scales;
      if (!add_slice(row.summary, slice)) throw Error("the {}", logits_not_finite(block_[i].place));
    }
}

// The baseline's logits stay on the device, beside those of one candidate after the other.
void LogitComparison::compare_held() {
  HeldLogits& base = *base_.held_logits();
  base.hold(rows_of_step_);
  for (Group& group : groups_) {
    group.of_base.assign(block_.size(), {});
    slices_.resize(block_.size() * static_cast<std::size_t>(slices_of(group.vocab)));
    base.reduce(nullptr, group.vocab, targets_, slices_);
    add_held_base(group);
    for (const std::size_t c : group.members)
      if (is_live(c))
        attempt(results_[c], [&] {
          HeldLogits& candidate = *candidates_[c]->held_logits();
          candidate.hold(rows_of_step_);
          candidate.reduce(&base, group.vocab, targets_, slices_);
          add_held_candidate(c);
        });
  }
}

void LogitComparison::compare(std::span<const ScoredRow> block) {
  block_ = block;
  rows_of_step_.clear();
  targets_.clear();
  for (const ScoredRow& row : block) {
    rows_of_step_.push_back(row.row);
    targets_.push_back(row.target);
  }
  scales_.resize(block.size());
  rows_.assign(candidates_.size(), std::vector<Row>(block.size()));
  switch (way_) {
    case Way::slices:
      compare_slices();
      break;
    case Way::held:
      compare_held();
      break;
    case Way::rows:
      compare_rows();
      break;
  }
  compared_ += std::ssize(block);
}

TokenDivergence LogitComparison::divergence(std::size_t candidate, std::size_t row) const {
  const Row& own = rows_[candidate][row];
  return divergence_of(groups_[group_of_[candidate]].of_base[row], own.summary, own.weighed);
}

}  // namespace assay
