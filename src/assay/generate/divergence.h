// How much the next-token distributions of candidates differ from those of a baseline, over a text. All
// consume the same tokens in lockstep, so that logits are compared at once and never kept.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/base/units.h"
#include "assay/generate/token_divergence.h"

namespace assay {

class Program;     // backend/backend.h
class ThreadPool;  // base/thread_pool.h

// What the baseline gave in one measure, for later ones over the same tokens: they take its logits from here
// and do not run it.
struct KeptBaseline {
  Bytes most = {};  // logits that take more are not kept
  // What they are of: the program, and how it was run. Nothing is kept while there is no program.
  const Program* program = nullptr;
  std::vector<TokenId> ids = {};
  std::string protocol = {};
  std::int64_t step_rows = 0;
  std::vector<float> logits = {};  // [scored tokens][vocab], in the order in which they were compared

  bool is_of(const Program& program, std::int64_t step_rows, std::string_view protocol,
             std::span<const TokenId> ids) const;
  void set_source(const Program& program, std::int64_t step_rows, std::string_view protocol,
                  std::span<const TokenId> ids);
  // Forgets what is kept; false where `scored` rows of logits take more than `most`.
  bool make_room(std::int64_t scored, std::int64_t vocab);
};

struct DivergenceOptions {
  std::optional<std::int64_t> context = {};  // a window's, as in ScoreOptions; unset: the shortest
  std::optional<std::int64_t> stride = {};   // unset: half the context
  ThreadPool* pool = nullptr;  // shares the positions of a slice; changes no bit. Null: the caller's thread
  std::function<void(std::int64_t done, std::int64_t windows)> on_progress = {};
  std::function<bool()> should_stop = {};  // true: ends with Stopped
  // Filled by a measure that runs to its end, and read by those that it fits; the same figures either way.
  KeptBaseline* kept = nullptr;
};

struct CandidateDivergence {
  std::string failure = {};                  // why it has no tokens; the others go on
  std::int64_t vocab = 0;                    // logits that were compared: those that both models have
  std::vector<TokenDivergence> tokens = {};  // one for every scored token, in text order
};

struct Divergence {
  std::int64_t tokens = 0, windows = 0, context = 0, stride = 0;
  std::string protocol;              // "hf context=1024 stride=512"
  std::vector<std::int64_t> scored;  // the place in the text of every scored token
  std::vector<CandidateDivergence> candidates;
};

// What a pass holds of logits, whatever the vocabulary and however many the candidates: a slice of the
// baseline's, its powers, and a slice of one candidate's, of `rows` positions. Where one device reduces the
// logits of all models (backend/held_logits.h), they stay there, within kHeldBytes. Else programs without
// slices give whole rows: as many positions as fit kDivergenceBytes, or one.
constexpr std::int64_t divergence_bytes(std::int64_t rows) {
  return 3 * rows * (kHeadSlice + 16) * static_cast<std::int64_t>(sizeof(float));
}
inline constexpr std::int64_t kDivergenceBytes = std::int64_t{32} << 20;

// One pass over the baseline, however many the candidates. The windows are those of score() (scorer.h). A
// vocabulary that is padded further than the other's is cut at the shorter one; the caller knows whether the
// ids mean the same (session/divergence.h). Throws Error for fewer than two tokens, ids outside a vocabulary,
// or logits of the baseline that are not finite; FieldError for a context or stride out of range. A candidate
// whose logits are not finite, or that cannot run, has a failure.
Divergence measure_divergence(Program& base, std::span<Program* const> candidates,
                              std::span<const TokenId> ids, const DivergenceOptions& options = {});

}  // namespace assay
