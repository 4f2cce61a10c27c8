#include "assay/generate/divergence.h"

#include <algorithm>
#include <memory>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/base/thread_pool.h"
#include "assay/generate/steps.h"
#include "assay/generate/windows.h"

namespace assay {

namespace {

// Windows computed together, as score() does.
constexpr std::size_t kWindowsTogether = 4;
constexpr std::int64_t kMostSliceRows = 32;

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
    slice_rows_ = std::clamp<std::int64_t>(
        kDivergenceBytes / (2 * vocab * static_cast<std::int64_t>(sizeof(float))), 1, kMostSliceRows);
    base_logits_.resize(static_cast<std::size_t>(slice_rows_ * base.plan().vocab));
    logits_.resize(static_cast<std::size_t>(slice_rows_ * vocab));
  }

  // Before the first run: the baseline's logits come from what an earlier measure kept, or are kept, where
  // that has room.
  void use_kept(std::int64_t scored) {
    KeptBaseline* const kept = options_.kept;
    if (kept == nullptr) return;
    is_read_ = kept->program == base_.program && kept->step_rows == step_rows_ &&
               kept->slice_rows == slice_rows_ && kept->protocol == result_.protocol &&
               std::ranges::equal(kept->ids, ids_);
    if (is_read_) return;
    const std::int64_t vocab = base_.program->plan().vocab, most = kept->most.value;
    *kept = {.most = kept->most};
    is_filled_ = scored <= most / (vocab * static_cast<std::int64_t>(sizeof(float)));
    if (is_filled_) kept->logits.reserve(static_cast<std::size_t>(scored * vocab));
  }
  void finish_kept() const {
    if (!is_filled_) return;
    options_.kept->program = base_.program;
    options_.kept->ids.assign(ids_.begin(), ids_.end());
    options_.kept->protocol = result_.protocol;
    options_.kept->slice_rows = slice_rows_;
    options_.kept->step_rows = step_rows_;
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
    const auto most = static_cast<std::size_t>(slice_rows_);
    for (std::size_t first = 0; first < positions.size(); first += most)
      compare(std::span(positions).subspan(first, std::min(most, positions.size() - first)));
  }

  // Logits of the positions, [positions][vocab].
  static void read_logits(Program& program, std::span<const Position> slice, std::vector<float>& logits) {
    std::vector<std::int64_t> rows;
    for (const Position& position : slice) rows.push_back(position.row);
    program.head(rows, LogitsSink{std::span(logits).first(slice.size() *
                                                          static_cast<std::size_t>(program.plan().vocab))});
  }

  static std::span<const float> row_of(const Program& program, std::span<const float> logits, std::size_t i,
                                       std::int64_t vocab) {
    return logits.subspan(i * static_cast<std::size_t>(program.plan().vocab),
                          static_cast<std::size_t>(vocab));
  }

  template <typename Task>
  void for_each(std::size_t count, const Task& task) const {
    if (options_.pool == nullptr) {
      for (std::size_t i = 0; i < count; ++i) task(i);
    } else {
      options_.pool->run(static_cast<std::int64_t>(count),
                         [&](std::int64_t i) { task(static_cast<std::size_t>(i)); });
    }
  }

  // Summaries of the baseline's first `vocab` logits of each position.
  void summarize_base(std::span<const Position> slice, std::int64_t vocab) {
    if (summarized_vocab_ == vocab) return;
    of_base_.resize(slice.size());
    for_each(slice.size(),
             [&](std::size_t i) { of_base_[i] = summary_of(row_of(*base_.program, of_slice_, i, vocab)); });
    for (std::size_t i = 0; i < slice.size(); ++i)
      if (!of_base_[i]) throw Error("the baseline's {}", not_finite(slice[i].target));
    summarized_vocab_ = vocab;
  }

  static std::string not_finite(std::int64_t target) {
    return fmt::format(
        "logits for token {} of the text are not finite: the model's weights or arithmetic are "
        "broken",
        target);
  }

  // The baseline's logits of the slice, and their summaries.
  void read_base(std::span<const Position> slice) {
    const std::int64_t vocab = base_.program->plan().vocab;
    summarized_vocab_ = 0;
    if (is_read_) {
      const KeptBaseline& kept = *options_.kept;
      of_slice_ = std::span(kept.logits).subspan(compared_ * static_cast<std::size_t>(vocab));
      const auto first = kept.summaries.begin() + static_cast<std::ptrdiff_t>(compared_);
      of_base_.assign(first, first + std::ssize(slice));
      summarized_vocab_ = vocab;
    } else {
      read_logits(*base_.program, slice, base_logits_);
      of_slice_ = base_logits_;
      summarize_base(slice, vocab);
    }
    compared_ += slice.size();
    if (!is_filled_) return;
    const auto floats = static_cast<std::ptrdiff_t>(slice.size()) * vocab;
    options_.kept->logits.insert(options_.kept->logits.end(), of_slice_.begin(), of_slice_.begin() + floats);
    for (std::size_t i = 0; i < slice.size(); ++i) options_.kept->summaries.push_back(*of_base_[i]);
  }

  void compare(std::span<const Position> slice) {
    read_base(slice);
    for (const Position& position : slice) by_window_[position.window].scored.push_back(position.target);
    std::vector<TokenDivergence> found(slice.size());
    std::vector<char> is_finite(slice.size());
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
      if (!is_live(c)) continue;
      Program& program = *candidates_[c].program;
      const std::int64_t vocab = result_.candidates[c].vocab;
      summarize_base(slice, vocab);
      attempt(c, [&] {
        read_logits(program, slice, logits_);
        for_each(slice.size(), [&](std::size_t i) {
          const auto candidate = row_of(program, logits_, i, vocab);
          const std::optional<LogitSummary> summary = summary_of(candidate);
          is_finite[i] = summary.has_value();
          if (summary)
            found[i] = divergence_of(row_of(*base_.program, of_slice_, i, vocab), *of_base_[i], candidate,
                                     *summary, ids_[static_cast<std::size_t>(slice[i].target)]);
        });
        for (std::size_t i = 0; i < slice.size(); ++i) {
          if (is_finite[i] == 0) throw Error("the {}", not_finite(slice[i].target));
          std::vector<std::vector<TokenDivergence>>& tokens = by_window_[slice[i].window].tokens;
          tokens.resize(candidates_.size());
          tokens[c].push_back(found[i]);
        }
      });
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
  std::int64_t step_rows_ = 0, slice_rows_ = 0, summarized_vocab_ = 0;
  std::vector<float> base_logits_, logits_;
  std::span<const float> of_slice_;           // the baseline's
  bool is_read_ = false, is_filled_ = false;  // what an earlier measure kept; for a later one
  std::size_t compared_ = 0;                  // tokens so far
  std::vector<std::optional<LogitSummary>> of_base_;
  std::span<const Window> windows_;
  std::vector<OfWindow> by_window_;
};

void check_divergence(const Program& base, std::span<Program* const> candidates, std::span<const TokenId> ids,
                      const DivergenceOptions& options, Divergence& result) {
  std::int64_t limit = base.plan().context, vocab = base.plan().vocab;
  for (const Program* candidate : candidates) {
    limit = std::min(limit, candidate->plan().context);
    vocab = std::min(vocab, candidate->plan().vocab);
  }
  result.context = options.context.value_or(limit);
  if (result.context < 2 || result.context > limit)
    throw FieldError("context", "expected 2 to {} (the shortest of the models), found {}", limit,
                     result.context);
  result.stride = options.stride.value_or(std::max<std::int64_t>(1, result.context / 2));
  if (result.stride < 1 || result.stride > result.context)
    throw FieldError("stride", "expected 1 to {} (the context), found {}", result.context, result.stride);
  result.tokens = static_cast<std::int64_t>(ids.size());
  if (result.tokens < 2)
    throw Error("the text has {}; a divergence needs at least 2", counted(result.tokens, "token"));
  for (const TokenId id : ids)
    if (id < 0 || id >= vocab)
      throw Error("token id {} is outside the vocabulary of {} that the models share", id, vocab);
}

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
