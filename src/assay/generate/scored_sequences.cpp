#include "assay/generate/scored_sequences.h"

#include <algorithm>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/generate/steps.h"

namespace assay {

namespace {

class SequenceScorer {
 public:
  SequenceScorer(Program& program, std::span<const ScoredSequence> sequences, bool wants_greedy)
      : program_(program), sequences_(sequences), wants_greedy_(wants_greedy), cache_(program.make_cache()) {
    for (const ScoredSequence& sequence : sequences) {
      numbers_.push_back(cache_->add_sequence());
      ScoredTargets& targets = scored_.emplace_back();
      targets.log_probabilities.resize(sequence.targets.size());
    }
  }

  // Inputs [first, first + count) of every sequence that has them.
  void run(std::int64_t first, std::int64_t count) {
    std::vector<StepItem> items;
    std::vector<std::size_t> of_item;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      const std::span<const TokenId> inputs = sequences_[i].inputs;
      const std::int64_t end = std::min<std::int64_t>(first + count, std::ssize(inputs));
      if (first >= end) continue;
      items.push_back(
          {.sequence = numbers_[i],
           .ids = inputs.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)),
           .extent = std::ssize(inputs)});  // through decode the same as through prefill
      of_item.push_back(i);
    }
    run_in_steps(program_, *cache_, items, [&](std::span<const StepPart> parts) {
      std::size_t alternatives = 0;
      for (const StepPart& part : parts)
        alternatives = std::max(alternatives, sequences_[of_item[part.item]].targets.size());
      for (std::size_t a = 0; a < alternatives; ++a) score_alternative(parts, of_item, first, a);
      if (wants_greedy_) choose_greedily(parts, of_item, first);
    });
  }

  std::vector<ScoredTargets> take() { return std::move(scored_); }

 private:
  // Calls `use` with the row of each input that predicts a scored token, and that token's place.
  template <typename Use>
  void for_rows(std::span<const StepPart> parts, const std::vector<std::size_t>& of_item, std::int64_t first,
                const Use& use) const {
    for (const StepPart& part : parts) {
      const std::size_t owner = of_item[part.item];
      for (std::int64_t i = 0; i < part.rows; ++i) {
        const std::int64_t place = first + part.first + i - sequences_[owner].first_row;
        if (place >= 0) use(part.first_row + i, owner, static_cast<std::size_t>(place));
      }
    }
  }

  void score_alternative(std::span<const StepPart> parts, const std::vector<std::size_t>& of_item,
                         std::int64_t first, std::size_t alternative) {
    rows_.clear();
    owners_.clear();
    ids_.clear();
    for_rows(parts, of_item, first, [&](std::int64_t row, std::size_t owner, std::size_t place) {
      const ScoredSequence& sequence = sequences_[owner];
      if (alternative >= sequence.targets.size() || place >= sequence.targets[alternative].size()) return;
      rows_.push_back(row);
      owners_.push_back(owner);
      ids_.push_back(sequence.targets[alternative][place]);
    });
    if (rows_.empty()) return;
    now_.resize(rows_.size());
    program_.head(rows_, LogProbabilitySink{ids_, now_});
    for (std::size_t i = 0; i < now_.size(); ++i)
      scored_[owners_[i]].log_probabilities[alternative].push_back(now_[i]);
  }

  void choose_greedily(std::span<const StepPart> parts, const std::vector<std::size_t>& of_item,
                       std::int64_t first) {
    rows_.clear();
    owners_.clear();
    for_rows(parts, of_item, first, [&](std::int64_t row, std::size_t owner, std::size_t) {
      rows_.push_back(row);
      owners_.push_back(owner);
    });
    if (rows_.empty()) return;
    ids_.resize(rows_.size());
    program_.head(rows_, ArgmaxSink{ids_});
    for (std::size_t i = 0; i < ids_.size(); ++i) scored_[owners_[i]].greedy.push_back(ids_[i]);
  }

  Program& program_;
  const std::span<const ScoredSequence> sequences_;
  const bool wants_greedy_;
  const std::unique_ptr<KvCache> cache_;
  std::vector<int> numbers_;  // in the cache
  std::vector<ScoredTargets> scored_;
  // What one step scores.
  std::vector<std::int64_t> rows_;
  std::vector<std::size_t> owners_;  // the sequence of each row
  std::vector<TokenId> ids_;
  std::vector<double> now_;
};

// Inputs after these predict nothing that is scored.
std::int64_t needed_inputs(const ScoredSequence& sequence, bool wants_greedy) {
  std::size_t longest = 0;
  for (const std::vector<TokenId>& targets : sequence.targets) longest = std::max(longest, targets.size());
  return wants_greedy ? std::ssize(sequence.inputs) : sequence.first_row + static_cast<std::int64_t>(longest);
}

}  // namespace

ScoreThrough score_through_from_name(std::string_view name) {
  if (name == "prefill") return ScoreThrough::prefill;
  if (name == "decode") return ScoreThrough::decode;
  throw FieldError("through", "expected prefill or decode, found '{}'", name.substr(0, 64));
}

std::string_view name_of(ScoreThrough through) {
  return through == ScoreThrough::decode ? "decode" : "prefill";
}

std::vector<ScoredTargets> score_sequences(Program& program, std::span<const ScoredSequence> sequences,
                                           ScoreThrough through, bool wants_greedy,
                                           const std::function<void()>& stop) {
  SequenceScorer scorer(program, sequences, wants_greedy);
  std::int64_t longest = 0, needed = 0;
  for (const ScoredSequence& sequence : sequences) {
    longest = std::max<std::int64_t>(longest, std::ssize(sequence.inputs));
    needed = std::max(needed, needed_inputs(sequence, wants_greedy));
  }
  if (through == ScoreThrough::prefill) {
    scorer.run(0, longest);
  } else {
    for (std::int64_t first = 0; first < needed; ++first) {
      stop();
      scorer.run(first, 1);
    }
  }
  return scorer.take();
}

}  // namespace assay
