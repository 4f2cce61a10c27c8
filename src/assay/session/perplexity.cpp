#include "assay/session/perplexity.h"

#include "assay/base/error.h"
#include "assay/base/sha256.h"
#include "assay/model/model.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

CorpusScore score_hashed(const LoadedModel& loaded, const std::vector<TokenId>& ids, std::string sha256,
                         const ScoreOptions& options) {
  CorpusScore result;
  result.corpus_sha256 = std::move(sha256);
  const TimePoint begin = Clock::now();
  result.score = score(loaded.model->program(), ids, options);
  loaded.model->backend().synchronize();
  result.seconds = elapsed(begin, Clock::now()).value;
  if (std::string warning = uniform_warning(result.score.perplexity, loaded.model->spec().vocab);
      !warning.empty())
    result.warnings.push_back({WarningKind::worse_than_uniform, std::move(warning), result.score.perplexity,
                               static_cast<double>(loaded.model->spec().vocab)});
  return result;
}

}  // namespace

Warning line_ends_warning(const std::filesystem::path& file, const TextFile& read) {
  return {WarningKind::line_ends, fmt::format("{}: {}", file.filename().string(), read.change)};
}

std::string uniform_warning(double perplexity, std::int64_t vocab) {
  if (perplexity < static_cast<double>(vocab)) return {};
  return fmt::format(
      "perplexity {:.4g} is no better than guessing among the {} tokens of the vocabulary: the tokenizer may "
      "be another model's, or the weights may be wrong or untrained",
      perplexity, vocab);
}

TextFile read_corpus(const std::filesystem::path& file, Newlines newlines) {
  TextFile read = read_text(file, newlines);
  if (read.text.empty()) throw Error("{} is empty: a perplexity needs text", file.string());
  check_utf8(read.text, file.string());
  return read;
}

CorpusScore score_file(const LoadedModel& loaded, const std::filesystem::path& file,
                       const ScoreOptions& options) {
  if (loaded.tokenizer == nullptr)
    throw Error("{}: the model has no tokenizer; a text cannot be scored",
                loaded.model->source().path().string());
  const TextFile corpus = read_corpus(file, loaded.config.newlines);
  std::string hash = sha256_hex(corpus.text);
  if (hash == loaded.calibration_sha256)
    throw Error("{}: the model was calibrated on this text; a perplexity needs another", file.string());
  CorpusScore scored = score_hashed(loaded, loaded.tokenizer->encode(corpus.text), std::move(hash), options);
  if (!corpus.change.empty()) scored.warnings.push_back(line_ends_warning(file, corpus));
  if (const auto bos = loaded.tokenizer->bos_tokens(); !bos.empty())
    scored.score.protocol += fmt::format(" bos={}", fmt::join(bos, ","));
  if (const auto eos = loaded.tokenizer->eos_tokens(); !eos.empty())
    scored.score.protocol += fmt::format(" eos={}", fmt::join(eos, ","));
  return scored;
}

CorpusScore score_ids(const LoadedModel& loaded, const std::vector<TokenId>& ids,
                      const ScoreOptions& options) {
  return score_hashed(loaded, ids, sha256_hex(fmt::format("{}", fmt::join(ids, " "))), options);
}

}  // namespace assay
