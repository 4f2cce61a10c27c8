#include "assay/generate/divergence_input.h"

#include <algorithm>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/base/format.h"

namespace assay {

bool KeptBaseline::is_of(const Program& of, std::int64_t rows, std::string_view of_protocol,
                         std::span<const TokenId> of_ids) const {
  return program == &of && step_rows == rows && protocol == of_protocol && std::ranges::equal(ids, of_ids);
}

void KeptBaseline::set_source(const Program& of, std::int64_t rows, std::string_view of_protocol,
                              std::span<const TokenId> of_ids) {
  program = &of;
  step_rows = rows;
  protocol = of_protocol;
  ids.assign(of_ids.begin(), of_ids.end());
}

bool KeptBaseline::make_room(std::int64_t scored, std::int64_t vocab) {
  *this = {.most = most};
  if (scored > most.value / (vocab * static_cast<std::int64_t>(sizeof(float)))) return false;
  logits.resize(static_cast<std::size_t>(scored * vocab));
  return true;
}

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

std::string logits_not_finite(std::int64_t target) {
  return fmt::format(
      "logits for token {} of the text are not finite: the model's weights or arithmetic are broken", target);
}

}  // namespace assay
