#include "assay/generate/divergence.h"

#include <algorithm>
#include <memory>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/generate/divergence_input.h"
#include "assay/generate/logit_comparison.h"
#include "assay/generate/steps.h"
#include "assay/generate/windows.h"

namespace assay {

namespace {

// Windows computed together, as score() does.
constexpr std::size_t kWindowsTogether = 4;

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
  // `result` has its candidates and its protocol.
  Lockstep(Program& base, std::span<Program* const> candidates, std::span<const TokenId> ids,
           std::int64_t scored, const DivergenceOptions& options, Divergence& result)
      : base_{&base, nullptr},
        ids_(ids),
        options_(options),
        result_(result),
        step_rows_(step_rows_of(base, candidates)),
        use_(use_of_baseline(scored)),
        comparison_(base, candidates, step_rows_, options, use_, result.candidates) {
    for (Program* candidate : candidates) candidates_.push_back({candidate, nullptr});
  }

  void finish_kept() const {
    if (use_ == BaselineUse::kept)
      options_.kept->set_source(*base_.program, step_rows_, result_.protocol, ids_);
  }

  void run(std::span<const Window> windows) {
    windows_ = windows;
    if (use_ != BaselineUse::read) begin(base_);
    for (std::size_t c = 0; c < candidates_.size(); ++c) attempt_with(c, [&] { begin(candidates_[c]); });
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

  static std::int64_t step_rows_of(const Program& base, std::span<Program* const> candidates) {
    std::int64_t rows = base.max_rows();
    for (const Program* candidate : candidates) rows = std::min(rows, candidate->max_rows());
    return rows;
  }

  // The baseline's logits come from what an earlier measure kept, or are kept, where that has room.
  BaselineUse use_of_baseline(std::int64_t scored) const {
    KeptBaseline* const kept = options_.kept;
    if (kept == nullptr) return BaselineUse::passing;
    if (kept->is_of(*base_.program, step_rows_, result_.protocol, ids_)) return BaselineUse::read;
    return kept->make_room(scored, base_.program->plan().vocab) ? BaselineUse::kept : BaselineUse::passing;
  }

  bool is_live(std::size_t candidate) const { return result_.candidates[candidate].failure.empty(); }
  template <typename Action>
  void attempt_with(std::size_t candidate, const Action& action) {
    if (is_live(candidate)) attempt(result_.candidates[candidate], action);
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
    if (use_ != BaselineUse::read) forward(base_, parts);
    for (std::size_t c = 0; c < candidates_.size(); ++c)
      attempt_with(c, [&] { forward(candidates_[c], parts); });
    const auto most = static_cast<std::size_t>(comparison_.most_rows());
    for (std::size_t first = 0; first < positions.size(); first += most)
      compare(std::span(positions).subspan(first, std::min(most, positions.size() - first)));
  }

  void compare(std::span<const Position> block) {
    std::vector<ScoredRow> rows;
    for (const Position& position : block)
      rows.push_back({position.row, position.target, ids_[static_cast<std::size_t>(position.target)]});
    comparison_.compare(rows);
    for (std::size_t i = 0; i < block.size(); ++i) {
      OfWindow& window = by_window_[block[i].window];
      window.scored.push_back(block[i].target);
      window.tokens.resize(candidates_.size());
      for (std::size_t c = 0; c < candidates_.size(); ++c)
        if (is_live(c)) window.tokens[c].push_back(comparison_.divergence(c, i));
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
  std::int64_t step_rows_;
  BaselineUse use_;
  LogitComparison comparison_;
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
  for (const Program* candidate : candidates)
    result.candidates.push_back({.vocab = std::min(base.plan().vocab, candidate->plan().vocab)});
  std::int64_t scored = 0;
  for (const Window& window : windows) scored += window.targets();
  Lockstep lockstep(base, candidates, ids, scored, options, result);
  for (std::size_t first = 0; first < windows.size(); first += kWindowsTogether) {
    const std::size_t count = std::min(kWindowsTogether, windows.size() - first);
    lockstep.run(std::span(windows).subspan(first, count));
    if (options.on_progress) options.on_progress(static_cast<std::int64_t>(first + count), result.windows);
  }
  lockstep.finish_kept();
  return result;
}

}  // namespace assay
