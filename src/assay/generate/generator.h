// Prefill and decode: prompts in as ids, ids and time points out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/base/units.h"
#include "assay/generate/processors.h"
#include "assay/generate/sampler.h"

namespace assay {

class Backend;  // backend/backend.h
class Program;

enum class StopReason { length, end_token, interrupted };
std::string_view name_of(StopReason reason);

// How prompts of different lengths are brought to the longest one's. Ids do not depend on it.
//   none   they are computed as they are
//   left   padding before each, masked, as Transformers needs it for generation
//   right  padding after each, computed and thrown away when the prompts have been read
enum class Padding { none, left, right };
std::string_view name_of(Padding padding);
// Throws UsageError for a name other than "none", "left" and "right".
Padding padding_from_name(std::string_view text);

struct GenerationOptions {
  std::int64_t max_new_tokens = 50;
  std::vector<TokenId> end_tokens = {};  // a sequence ends at any of them; empty = exactly max_new_tokens
  bool uses_cache = true;                // false: every step computes the whole sequence again
  SamplingOptions sampling = {};
  LogitsProcessors processors = {};  // before the sampling
  Padding padding = Padding::none;
  TokenId pad_token = 0;
  // In a test of speed: the first tokens of each prompt, which the KV cache holds when the clock starts. Such
  // a test may fill the context, since its last new token is never read.
  std::optional<std::int64_t> depth = {};
  // Sees the logits that each token is chosen from; greedy choice then reads them too, which takes longer.
  std::function<void(std::size_t sequence, std::span<const float> logits)> on_logits = {};
};

struct SequenceTrace {
  std::vector<TokenId> ids;  // generated; the end token that stopped it included
  StopReason stop = StopReason::length;
};

// What happened and when. Times are of the device's clock, from the moment the prompts' ids were handed over.
struct GenerationTrace {
  std::vector<SequenceTrace> sequences;
  Seconds prefill;  // all prompts through the model and the LM head, first tokens not yet chosen
  std::vector<Seconds> step_end;  // when the tokens of step i were chosen; step 0 is the prefill
  std::vector<Seconds> decode;    // model and head in steps 1, 2, ...
  Seconds sampling;               // choosing tokens, in all
  Seconds total;
  std::int64_t computed_prompt_tokens = 0;  // padding included
  std::int64_t tokens_generated() const;
};

using OnToken = std::function<void(std::size_t sequence, TokenId id)>;
using ShouldStop = std::function<bool()>;

// Throws what generate() does before it computes anything: what is wrong with the prompts and the options.
void check_request(const Program& program, const std::vector<std::vector<TokenId>>& prompts,
                   const GenerationOptions& options);

// Prompts may have different lengths; each is computed without padding and leaves the batch when it ends.
// Equal prompts give equal ids whatever else is in the batch. Throws Error for an empty prompt, for a prompt
// whose tokens and new tokens exceed the context, for max_new_tokens < 1, and for a depth that leaves a
// prompt no token to read. should_stop is asked between the pieces of a long prompt, where it makes
// generate() throw Stopped, and between new tokens, where what was generated is returned as interrupted.
GenerationTrace generate(Backend& backend, Program& program, const std::vector<std::vector<TokenId>>& prompts,
                         const GenerationOptions& options, const OnToken& on_token = {},
                         const ShouldStop& should_stop = {});

}  // namespace assay
