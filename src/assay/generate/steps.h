// Runs token sequences of any length through a program, in steps that fit its workspace.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/backend/backend.h"

namespace assay {

// New tokens of one sequence; they continue what the cache holds of it.
struct StepItem {
  int sequence = 0;
  std::span<const TokenId> ids;
  std::int64_t padding = 0;                 // so many first tokens are not seen, and have no position
  std::optional<std::int64_t> wanted = {};  // the only one of `ids` whose hidden state is; absent: all are
  // Tokens of the sequence that are known, without padding (SequenceRows::extent); absent: `ids` are the
  // last.
  std::optional<std::int64_t> extent = {};
};

// Where tokens [first, first + rows) of an item stand in the hidden states of the step that has just run.
struct StepPart {
  std::size_t item = 0;
  std::int64_t first = 0, first_row = 0, rows = 0;
};

// Calls `after_step` with the parts of each step while its hidden states are valid. Results do not depend on
// how the items are cut into steps. should_stop is asked between steps; where it says so, throws Stopped.
void run_in_steps(Program& program, KvCache& cache, std::span<const StepItem> items,
                  const std::function<void(std::span<const StepPart>)>& after_step,
                  const std::function<bool()>& should_stop = {});

// Lengths beyond which a sequence turns its queries and keys by other angles, the first tokens' too
// (LongRoPE). Where a sequence grows beyond one, what the cache holds of it is of no use any more.
std::vector<std::int64_t> rotary_switches(const Plan& plan);

// Throws Error for what ArgmaxSink gives where logits are not finite; `position`: of the token that they
// follow, where it is known.
void require_finite(const Plan& plan, TokenId chosen, std::optional<std::int64_t> position = {});
// Throws Error for logits of one token of which one is NaN or infinite; `position`: the token's.
void require_finite(const Plan& plan, std::span<const float> logits, std::int64_t position);
// Throws Error naming the model, what of it is not finite, and what to try.
[[noreturn]] void refuse_not_finite(const Plan& plan, const std::string& what);
// "NaN", "infinity", "-infinity"; else the number.
std::string number_text(double value);

}  // namespace assay
