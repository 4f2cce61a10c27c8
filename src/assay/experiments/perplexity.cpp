#include "assay/experiments/perplexity.h"

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/sha256.h"

namespace assay {

CorpusScore score_file(const LoadedModel& loaded, const std::filesystem::path& file,
                       const ScoreOptions& options) {
  if (loaded.tokenizer == nullptr)
    throw Error("{}: the folder has no tokenizer; a text cannot be scored",
                loaded.model->folder().path().string());
  const std::string text = read_text_file(file);
  if (text.empty()) throw Error("{} is empty: a perplexity needs text", file.string());
  check_utf8(text, file.string());
  const std::vector<TokenId> ids = loaded.tokenizer->encode(text);
  CorpusScore result;
  result.corpus_sha256 = sha256_hex(text);
  const TimePoint begin = Clock::now();
  result.score = score(loaded.model->program(), ids, options);
  loaded.model->backend().synchronize();
  result.seconds = elapsed(begin, Clock::now()).value;
  return result;
}

}  // namespace assay
