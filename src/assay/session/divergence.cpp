#include "assay/session/divergence.h"

#include <algorithm>
#include <limits>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/base/sha256.h"
#include "assay/checkpoint/source.h"
#include "assay/generate/generator.h"
#include "assay/model/model.h"
#include "assay/session/corpus_beginning.h"
#include "assay/session/perplexity.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

// The first id at which both tokenizers have a token, and not the same; none below the vocabularies' ends.
std::optional<TokenId> first_other_token(const Tokenizer& a, const Tokenizer& b) {
  const auto end = static_cast<TokenId>(std::min(a.vocab_size(), b.vocab_size()));
  for (TokenId id = 0; id < end; ++id) {
    const std::string of_a = a.token_text(id), of_b = b.token_text(id);
    if (!of_a.empty() && !of_b.empty() && of_a != of_b) return id;
  }
  return std::nullopt;
}

// Runs the candidates that `failures` has no reason for, and puts all in their order.
Divergence run_divergence(const LoadedModel& base, std::span<const LoadedModel* const> candidates,
                          std::span<const TokenId> ids, const std::vector<std::string>& failures,
                          const CorpusDivergenceOptions& options) {
  std::vector<Program*> programs;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (failures[i].empty()) programs.push_back(&candidates[i]->model->program());
  Divergence divergence = measure_divergence(base.model->program(), programs, ids,
                                             {.context = options.context,
                                              .stride = options.stride,
                                              .pool = base.model->backend().pool(),
                                              .on_progress = options.on_progress,
                                              .should_stop = options.should_stop});
  std::vector<CandidateDivergence> all;
  auto next = divergence.candidates.begin();
  for (const std::string& failure : failures)
    all.push_back(failure.empty() ? std::move(*next++) : CandidateDivergence{.failure = failure});
  divergence.candidates = std::move(all);
  return divergence;
}

CorpusDivergence diverge(const LoadedModel& base, std::span<const LoadedModel* const> candidates,
                         std::vector<TokenId> ids, std::string sha256,
                         const std::vector<std::string>& failures, const CorpusDivergenceOptions& options) {
  CorpusDivergence result;
  result.corpus_sha256 = std::move(sha256);
  if (options.max_tokens && *options.max_tokens < std::ssize(ids))
    ids.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, *options.max_tokens)));
  const TimePoint begin = Clock::now();
  result.divergence = run_divergence(base, candidates, ids, failures, options);
  result.seconds = elapsed(begin, Clock::now()).value;
  result.ids = std::move(ids);
  return result;
}

}  // namespace

std::string other_vocabulary(const LoadedModel& base, const LoadedModel& candidate) {
  const std::int64_t of_base = base.model->spec().vocab, of_candidate = candidate.model->spec().vocab;
  if (base.tokenizer == candidate.tokenizer && of_base == of_candidate) return "";
  if (base.tokenizer == nullptr || candidate.tokenizer == nullptr) {
    if (of_base == of_candidate) return "";
    return fmt::format(
        "its vocabulary has {} tokens and the baseline's {}, and without both tokenizers nothing says that "
        "they are the same but for padding",
        of_candidate, of_base);
  }
  if (const auto id = first_other_token(*base.tokenizer, *candidate.tokenizer))
    return fmt::format(
        "its vocabulary is not the baseline's: token {} is '{}' here and '{}' there, and a divergence needs "
        "one vocabulary",
        *id, candidate.tokenizer->token_text(*id), base.tokenizer->token_text(*id));
  const std::int64_t tokens = std::max(base.tokenizer->vocab_size(), candidate.tokenizer->vocab_size());
  if (of_base != of_candidate && base.tokenizer->vocab_size() != candidate.tokenizer->vocab_size() &&
      tokens > std::min(of_base, of_candidate))
    return fmt::format(
        "its vocabulary is not the baseline's: its tokenizer knows {} tokens and the baseline's {}, and a "
        "divergence needs one vocabulary",
        candidate.tokenizer->vocab_size(), base.tokenizer->vocab_size());
  return "";
}

CorpusDivergence diverge_on_file(const LoadedModel& base, std::span<const LoadedModel* const> candidates,
                                 const std::filesystem::path& file, const CorpusDivergenceOptions& options) {
  if (base.tokenizer == nullptr)
    throw Error("{}: the model has no tokenizer; a text cannot be compared",
                base.model->source().path().string());
  TextFile corpus;
  std::string hash;
  if (options.max_tokens) {
    CorpusBeginning beginning =
        read_corpus_beginning(file, base.config.newlines, *base.tokenizer, *options.max_tokens);
    corpus = std::move(beginning.read);
    hash = std::move(beginning.sha256);
  } else {
    corpus = read_corpus(file, base.config.newlines);
    hash = sha256_hex(corpus.text);
  }
  const auto ids_of = [&](const Tokenizer& tokenizer) {
    return first_ids(tokenizer, corpus.text,
                     options.max_tokens.value_or(std::numeric_limits<std::int64_t>::max()));
  };
  if (hash == base.calibration_sha256)
    throw Error("{}: the baseline was calibrated on this text; a divergence needs another", file.string());
  std::vector<TokenId> ids = ids_of(*base.tokenizer);
  std::vector<std::string> failures;
  for (const LoadedModel* candidate : candidates) {
    std::string& why = failures.emplace_back(other_vocabulary(base, *candidate));
    if (!why.empty()) continue;
    if (hash == candidate->calibration_sha256)
      why =
          fmt::format("{}: the model was calibrated on this text; a divergence needs another", file.string());
    else if (candidate->tokenizer != nullptr && candidate->tokenizer != base.tokenizer &&
             ids_of(*candidate->tokenizer) != ids)
      why = "its tokenizer gives the text other tokens than the baseline's, and a divergence needs the same";
  }
  CorpusDivergence result = diverge(base, candidates, std::move(ids), hash, failures, options);
  if (!corpus.change.empty()) result.warnings.push_back(line_ends_warning(file, corpus));
  if (const auto bos = base.tokenizer->bos_tokens(); !bos.empty())
    result.divergence.protocol += fmt::format(" bos={}", fmt::join(bos, ","));
  if (const auto eos = base.tokenizer->eos_tokens(); !eos.empty())
    result.divergence.protocol += fmt::format(" eos={}", fmt::join(eos, ","));
  return result;
}

CorpusDivergence diverge_on_ids(const LoadedModel& base, std::span<const LoadedModel* const> candidates,
                                std::vector<TokenId> ids, const CorpusDivergenceOptions& options) {
  std::vector<std::string> failures;
  for (const LoadedModel* candidate : candidates) failures.push_back(other_vocabulary(base, *candidate));
  std::string hash = sha256_hex(fmt::format("{}", fmt::join(ids, " ")));
  return diverge(base, candidates, std::move(ids), std::move(hash), failures, options);
}

std::vector<GreedyDivergence> greedy_divergence(const LoadedModel& base,
                                                std::span<const LoadedModel* const> candidates,
                                                const std::vector<TokenId>& prompt, std::int64_t new_tokens,
                                                const std::function<bool()>& should_stop) {
  GenerationOptions options;
  options.max_new_tokens = new_tokens;
  const GenerationTrace trace =
      generate(base.model->backend(), base.model->program(), {prompt}, options, {}, should_stop);
  std::vector<TokenId> ids = prompt;
  const std::vector<TokenId>& generated = trace.sequences.front().ids;
  ids.insert(ids.end(), generated.begin(), generated.end());
  const std::int64_t window = std::ssize(ids);
  const CorpusDivergence read = diverge_on_ids(
      base, candidates, ids, {.context = window, .stride = window, .should_stop = should_stop});
  std::vector<GreedyDivergence> all;
  for (const CandidateDivergence& candidate : read.divergence.candidates) {
    GreedyDivergence& own = all.emplace_back(GreedyDivergence{.failure = candidate.failure});
    own.new_tokens = own.equal_tokens = std::ssize(generated);
    if (!candidate.failure.empty()) continue;
    for (std::size_t i = 0; i < candidate.tokens.size(); ++i) {
      const std::int64_t place = read.divergence.scored[i] - std::ssize(prompt);
      if (place < 0 || candidate.tokens[i].same_top1) continue;
      own.equal_tokens = place;
      own.base_token = generated[static_cast<std::size_t>(place)];
      own.base_margin = static_cast<double>(candidate.tokens[i].base_margin);
      break;
    }
  }
  return all;
}

}  // namespace assay
