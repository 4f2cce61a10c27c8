#include "assay/generate/divergence.h"

#include <algorithm>
#include <array>
#include <memory>

#include "assay/backend/backend.h"
#include "assay/base/aligned.h"
#include "assay/base/error.h"
#include "assay/base/thread_pool.h"
#include "assay/generate/divergence_input.h"
#include "assay/generate/steps.h"
#include "assay/generate/windows.h"

namespace assay {

namespace {

// Windows computed together, as score() does.
constexpr std::size_t kWindowsTogether = 4;
// Positions in a block, of a device that gives whole rows of logits alone.
constexpr std::int64_t kMostWholeRows = 32;
constexpr std::int64_t kRowsOfTask = 8, kFloatBytes = sizeof(float);
// Rows of a slice must not lie a multiple of 4 KB apart.
constexpr std::int64_t kSliceStride = kHeadSlice + 16;

struct LockstepModel {
  Program* program;
  std::unique_ptr<KvCache> cache;
};

// Tokens [first, first + rows) of a window.
struct WindowPart {
  std::size_t window;
  std::int64_t first, rows;
};

class Lockstep {
 public:
  Lockstep(Program& base, std::span<Program* const> candidates, std::span<const TokenId> ids,
           const DivergenceOptions& options, Divergence& result)
      : base_{&base, nullptr}, ids_(ids), options_(options), result_(result) {
    step_rows_ = base.max_rows();
    std::int64_t vocab = base.plan().vocab;
    for (Program* candidate : candidates) {
      candidates_.push_back({candidate, nullptr});
      step_rows_ = std::min(step_rows_, candidate->max_rows());
      vocab = std::max(vocab, candidate->plan().vocab);
      result_.candidates.push_back({.vocab = std::min(base.plan().vocab, candidate->plan().vocab)});
    }
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const std::int64_t own = result_.candidates[c].vocab;
      auto group =
          std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.vocab == own; });
      if (group == groups_.end()) group = groups_.insert(groups_.end(), {own, {}, {}});
      group->members.push_back(c);
    }
    is_sliced_ = base.has_head_slices() && std::all_of(candidates.begin(), candidates.end(),
                                                       [](Program* c) { return c->has_head_slices(); });
    block_rows_ = is_sliced_ ? step_rows_
                             : std::clamp<std::int64_t>(kDivergenceBytes / 2 / (vocab * kFloatBytes), 1,
                                                        kMostWholeRows);
    stride_ = is_sliced_ ? kSliceStride : vocab;
    reducer_ = base.logit_reducer() != nullptr ? base.logit_reducer() : &portable_logit_reducer();
    const std::int64_t powers = block_rows_ * kSliceStride, logits = block_rows_ * stride_;
    memory_ =
        AlignedBuffer(static_cast<std::size_t>((powers + 2 * logits) * kFloatBytes), "a slice of logits");
    powers_ = memory_.floats();
    base_logits_ = powers_ + powers;
    logits_ = base_logits_ + logits;
  }

  // Before the first run: the baseline's logits come from what an earlier measure kept, or are kept, where
  // that has room.
  void use_kept(std::int64_t scored) {
    if (options_.kept == nullptr) return;
    is_read_ = options_.kept->is_of(*base_.program, step_rows_, result_.protocol, ids_);
    is_filled_ = !is_read_ && options_.kept->make_room(scored, base_.program->plan().vocab);
  }
  void finish_kept() const {
    if (is_filled_) options_.kept->set_source(*base_.program, step_rows_, result_.protocol, ids_);
  }

  void run(std::span<const Window> windows) {
    windows_ = windows;
    if (!is_read_) begin(base_);
    for (std::size_t c = 0; c < candidates_.size(); ++c)
      if (is_live(c)) attempt(c, [&] { begin(candidates_[c]); });
    by_window_.assign(windows.size(), {});
    std::vector<WindowPart> parts;
    std::int64_t held = 0;
    for (std::size_t w = 0; w < windows.size(); ++w) {
      const std::int64_t length = windows[w].end - windows[w].begin;
      for (std::int64_t first = 0; first < length;) {
        const std::int64_t rows = std::min(step_rows_ - held, length - first);
        parts.push_back({w, first, rows});
        first += rows;
        held += rows;
        if (held < step_rows_) continue;
        step(parts);
        parts.clear();
        held = 0;
      }
    }
    if (!parts.empty()) step(parts);
    append();
  }

 private:
  struct Position {
    std::size_t window;
    std::int64_t row, target;  // in the step; in the text
  };
  // What the positions of a window gave: the place of each, and a token of each candidate.
  struct OfWindow {
    std::vector<std::int64_t> scored;
    std::vector<std::vector<TokenDivergence>> tokens;
  };

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

  bool is_live(std::size_t candidate) const { return result_.candidates[candidate].failure.empty(); }

  // What fails with one candidate leaves the others alone.
  template <typename Action>
  void attempt(std::size_t candidate, const Action& action) {
    try {
      action();
    } catch (const Stopped&) {
      throw;
    } catch (const DeviceFault&) {
      throw;
    } catch (const Error& error) {
      result_.candidates[candidate].failure = error.what();
      result_.candidates[candidate].tokens = {};
    }
  }

  // Sequences are numbered as the windows are, in every cache.
  void begin(LockstepModel& model) const {
    model.cache = model.program->make_cache();
    for (std::size_t i = 0; i < windows_.size(); ++i) model.cache->add_sequence();
  }

  // The parts fit one step of every model, so that their rows are the same in all.
  void forward(LockstepModel& model, std::span<const WindowPart> parts) const {
    std::vector<StepItem> items;
    for (const WindowPart& part : parts) {
      const Window& w = windows_[part.window];
      items.push_back({.sequence = static_cast<int>(part.window),
                       .ids = ids_.subspan(static_cast<std::size_t>(w.begin + part.first),
                                           static_cast<std::size_t>(part.rows)),
                       .extent = w.end - w.begin});
    }
    run_in_steps(*model.program, *model.cache, items, [](std::span<const StepPart>) {});
  }

  void step(std::span<const WindowPart> parts) {
    if (options_.should_stop && options_.should_stop())
      throw Stopped("interrupted after {} tokens", result_.scored.size());
    std::vector<Position> positions;
    std::int64_t row = 0;
    for (const WindowPart& part : parts)
      for (std::int64_t i = 0; i < part.rows; ++i, ++row) {
        const Window& w = windows_[part.window];
        const std::int64_t target = w.begin + part.first + i + 1;
        if (target >= w.first_target && target < w.end) positions.push_back({part.window, row, target});
      }
    if (!is_read_) forward(base_, parts);
    for (std::size_t c = 0; c < candidates_.size(); ++c)
      if (is_live(c)) attempt(c, [&] { forward(candidates_[c], parts); });
    const auto most = static_cast<std::size_t>(block_rows_);
    for (std::size_t first = 0; first < positions.size(); first += most)
      compare(std::span(positions).subspan(first, std::min(most, positions.size() - first)));
  }

  // Ids of the vocabulary.
  struct Slice {
    std::int64_t first, end;
    std::int64_t count_below(std::int64_t vocab) const { return std::min(end, vocab) - first; }
  };

  // The ids of `slice` of the block's logits, or all at once where they come so.
  void read_logits(Program& program, const Slice& slice, float* logits) {
    if (is_sliced_)
      return program.head_slice(block_, {.first = slice.first,
                                         .count = slice.count_below(program.plan().vocab),
                                         .logits = logits,
                                         .stride = stride_});
    const std::int64_t vocab = program.plan().vocab, rows = std::ssize(block_);
    program.head(block_, LogitsSink{{logits, static_cast<std::size_t>(rows * vocab)}});
  }

  // The baseline's, from it or from what was kept.
  void read_base(const Slice& slice) {
    if (!is_read_) read_logits(*base_.program, slice, base_logits_);
    if (!is_read_ && !is_filled_) return;
    const std::int64_t vocab = base_.program->plan().vocab,
                       count = is_sliced_ ? slice.count_below(vocab) : vocab;
    for (std::size_t i = 0; i < block_.size(); ++i) {
      float* own = base_logits_ + static_cast<std::int64_t>(i) * (is_sliced_ ? stride_ : vocab);
      float* kept =
          options_.kept->logits.data() + (compared_ + static_cast<std::int64_t>(i)) * vocab + slice.first;
      is_read_ ? std::copy_n(kept, count, own) : std::copy_n(own, count, kept);
    }
  }

  // Where the ids of `slice` of row i lie that both models have.
  std::span<const float> logits_of(const float* logits, const Program& program, std::size_t i,
                                   const Slice& slice, std::int64_t vocab) const {
    const std::int64_t row = static_cast<std::int64_t>(i);
    const float* begin =
        is_sliced_ ? logits + row * stride_ : logits + row * program.plan().vocab + slice.first;
    return {begin, static_cast<std::size_t>(slice.count_below(vocab))};
  }

  // Calls task(i) for the rows of the block, and gives the first for which it is false, or none.
  template <typename Task>
  std::optional<std::size_t> first_false(const Task& task) {
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

  TokenId target_of(const Position& position) const {
    return ids_[static_cast<std::size_t>(position.target)];
  }

  // The baseline's ids that the group has too, and their powers, which stay in powers_.
  void add_base(std::span<const Position> block, const Slice& slice, Group& group) {
    const auto bad = first_false([&](std::size_t i) {
      const auto scales =
          add_slice(group.of_base[i], logits_of(base_logits_, *base_.program, i, slice, group.vocab),
                    static_cast<TokenId>(slice.first), target_of(block[i]), *reducer_,
                    powers_ + static_cast<std::int64_t>(i) * kSliceStride);
      if (scales) scales_[i] = *scales;
      return scales.has_value();
    });
    if (bad) throw Error("the baseline's {}", logits_not_finite(block[*bad].target));
  }

  void add_candidate(std::span<const Position> block, const Slice& slice, std::size_t c) {
    const Program& program = *candidates_[c].program;
    const std::int64_t vocab = result_.candidates[c].vocab;
    const auto bad = first_false([&](std::size_t i) {
      const auto of_base = logits_of(base_logits_, *base_.program, i, slice, vocab),
                 logits = logits_of(logits_, program, i, slice, vocab);
      const float* powers = powers_ + static_cast<std::int64_t>(i) * kSliceStride;
      Row& row = rows_[c][i];
      row.weighed = row.weighed * scales_[i].earlier +
                    scales_[i].own * reducer_->weigh(powers, of_base.data(), logits.data(),
                                                     static_cast<std::int64_t>(logits.size()));
      std::array<float, kHeadSlice> unused;  // the candidate's own powers
      return add_slice(row.summary, logits, static_cast<TokenId>(slice.first), target_of(block[i]), *reducer_,
                       unused.data())
          .has_value();
    });
    if (bad) throw Error("the {}", logits_not_finite(block[*bad].target));
  }

  // Slice by slice, all models: the baseline's is held while each candidate's is beside it.
  void compare_slices(std::span<const Position> block) {
    for (Group& group : groups_) group.of_base.assign(block.size(), {});
    const std::int64_t vocab = base_.program->plan().vocab;
    for (std::int64_t first = 0; first < vocab; first += kHeadSlice) {
      const Slice slice{first, first + kHeadSlice};
      read_base(slice);
      for (Group& group : groups_) {
        if (slice.count_below(group.vocab) <= 0) continue;
        add_base(block, slice, group);
        for (const std::size_t c : group.members)
          if (is_live(c))
            attempt(c, [&] {
              read_logits(*candidates_[c].program, slice, logits_);
              add_candidate(block, slice, c);
            });
      }
    }
  }

  // Candidate by candidate, of a device that gives whole rows of logits.
  void compare_rows(std::span<const Position> block) {
    read_base({});
    for (Group& group : groups_)
      for (const std::size_t c : group.members) {
        if (!is_live(c)) continue;
        attempt(c, [&] { read_logits(*candidates_[c].program, {}, logits_); });
        group.of_base.assign(block.size(), {});
        for (std::int64_t first = 0; first < group.vocab; first += kHeadSlice) {
          const Slice slice{first, first + kHeadSlice};
          add_base(block, slice, group);
          if (is_live(c)) attempt(c, [&] { add_candidate(block, slice, c); });
        }
      }
  }

  void compare(std::span<const Position> block) {
    block_.clear();
    for (const Position& position : block) block_.push_back(position.row);
    scales_.resize(block.size());
    rows_.assign(candidates_.size(), std::vector<Row>(block.size()));
    is_sliced_ ? compare_slices(block) : compare_rows(block);
    compared_ += std::ssize(block);
    for (std::size_t i = 0; i < block.size(); ++i) {
      OfWindow& window = by_window_[block[i].window];
      window.scored.push_back(block[i].target);
      window.tokens.resize(candidates_.size());
      for (const Group& group : groups_)
        for (const std::size_t c : group.members)
          if (is_live(c))
            window.tokens[c].push_back(
                divergence_of(group.of_base[i], rows_[c][i].summary, rows_[c][i].weighed));
    }
  }

  // Windows score tokens in the order of the text, one window after the other.
  void append() {
    for (const OfWindow& window : by_window_) {
      result_.scored.insert(result_.scored.end(), window.scored.begin(), window.scored.end());
      for (std::size_t c = 0; c < window.tokens.size(); ++c)
        if (is_live(c))
          result_.candidates[c].tokens.insert(result_.candidates[c].tokens.end(), window.tokens[c].begin(),
                                              window.tokens[c].end());
    }
  }

  LockstepModel base_;
  std::vector<LockstepModel> candidates_;
  std::span<const TokenId> ids_;
  const DivergenceOptions& options_;
  Divergence& result_;
  std::vector<Group> groups_;
  std::int64_t step_rows_ = 0, block_rows_ = 0, stride_ = 0;
  bool is_sliced_ = false;
  bool is_read_ = false, is_filled_ = false;  // from what an earlier measure kept; for a later one
  std::int64_t compared_ = 0;                 // tokens so far
  const LogitReducer* reducer_ = nullptr;
  AlignedBuffer memory_;
  float *powers_ = nullptr, *base_logits_ = nullptr, *logits_ = nullptr;  // [block_rows_] in memory_
  // Of the block that is compared.
  std::vector<std::int64_t> block_;     // its rows in the step
  std::vector<std::vector<Row>> rows_;  // by candidate
  std::vector<SliceScales> scales_;
  std::vector<char> is_done_;
  std::span<const Window> windows_;
  std::vector<OfWindow> by_window_;
};

}  // namespace

Divergence measure_divergence(Program& base, std::span<Program* const> candidates,
                              std::span<const TokenId> ids, const DivergenceOptions& options) {
  Divergence result;
  check_divergence(base, candidates, ids, options, result);
  const std::vector<Window> windows = windows_of(result.tokens, result.context, result.stride);
  result.windows = static_cast<std::int64_t>(windows.size());
  result.protocol = fmt::format("hf context={} stride={}", result.context, result.stride);
  Lockstep lockstep(base, candidates, ids, options, result);
  std::int64_t scored = 0;
  for (const Window& window : windows) scored += window.targets();
  lockstep.use_kept(scored);
  for (std::size_t first = 0; first < windows.size(); first += kWindowsTogether) {
    const std::size_t count = std::min(kWindowsTogether, windows.size() - first);
    lockstep.run(std::span(windows).subspan(first, count));
    if (options.on_progress) options.on_progress(static_cast<std::int64_t>(first + count), result.windows);
  }
  lockstep.finish_kept();
  return result;
}

}  // namespace assay
