#include "assay/session/perplexity.h"

#include <cmath>
#include <numbers>

#include "assay/base/error.h"
#include "assay/base/json_lines.h"
#include "assay/base/sha256.h"
#include "assay/model/model.h"
#include "assay/session/bos.h"
#include "assay/session/corpus_beginning.h"
#include "assay/text/python_text.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

// Appends the score of one text; the figures of all follow from the log-probabilities at the end.
void add_score(CorpusScore& all, Score own) {
  Score& score = all.score;
  all.lengths.push_back(own.tokens_scored);
  if (all.lengths.size() == 1) {
    score = std::move(own);
    return;
  }
  score.tokens += own.tokens;
  score.windows += own.windows;
  score.tokens_scored += own.tokens_scored;
  score.protocol_perplexity = 0;  // that of a list of texts is the token mean
  score.log_probabilities.insert(score.log_probabilities.end(), own.log_probabilities.begin(),
                                 own.log_probabilities.end());
}

void finish(const LoadedModel& loaded, CorpusScore& result, const ScoreOptions& options, BosRule rule) {
  Score& score = result.score;
  result.texts = std::ssize(result.lengths);
  if (result.texts > 1) {
    double sum = 0;
    for (const double value : score.log_probabilities) sum -= value;
    score.loss = sum / static_cast<double>(score.tokens_scored);
    score.perplexity = score.protocol_perplexity = std::exp(score.loss);
    score.protocol += fmt::format(" texts={}", result.texts);
  }
  const std::int64_t vocab = loaded.model->spec().vocab;
  if (std::string warning = uniform_warning(score.perplexity, vocab); !warning.empty())
    result.warnings.push_back(
        {WarningKind::worse_than_uniform, std::move(warning), score.perplexity, static_cast<double>(vocab)});
  for (Warning& warning : bos_warnings(loaded, options.protocol, rule, score.windows / result.texts))
    result.warnings.push_back(std::move(warning));
}

Score score_one(const LoadedModel& loaded, const TextToScore& text, ScoreOptions options, double& seconds) {
  options.bos = text.rule;
  options.bos_token = text.bos_token;
  const TimePoint begin = Clock::now();
  Score result = score(loaded.model->program(), text.ids, options);
  loaded.model->backend().synchronize();
  seconds += elapsed(begin, Clock::now()).value;
  result.protocol += text.around;
  return result;
}

// Where there are several texts, shorter ones are left out, since nothing of them is scored.
std::int64_t least_tokens(const ScoreOptions& options) {
  return options.protocol == Protocol::lm_eval || options.bos == BosRule::each ? 1 : 2;
}

const Tokenizer& required_tokenizer(const LoadedModel& loaded) {
  if (loaded.tokenizer == nullptr)
    throw Error("{}: the model has no tokenizer; a text cannot be scored",
                loaded.model->source().path().string());
  return *loaded.tokenizer;
}

void refuse_calibrated(const LoadedModel& loaded, const std::filesystem::path& file,
                       const std::string& hash) {
  if (hash == loaded.calibration_sha256)
    throw Error("{}: the model was calibrated on this text; a perplexity needs another", file.string());
}

double exp_per(double log_likelihood, std::int64_t units) {
  return std::exp(-log_likelihood / static_cast<double>(units));
}

// As much of the file is read as its first tokens need; of a part there are no words and bytes.
CorpusScore score_beginning(const LoadedModel& loaded, const std::filesystem::path& file,
                            const ScoreOptions& options) {
  CorpusBeginning corpus =
      read_corpus_beginning(file, loaded.config.newlines, *loaded.tokenizer, *options.max_tokens);
  refuse_calibrated(loaded, file, corpus.sha256);
  const std::vector texts{corpus.is_whole ? corpus_text(std::move(corpus.read.text))
                                          : CorpusText{std::move(corpus.read.text)}};
  CorpusScore scored = score_texts(loaded, texts, std::move(corpus.sha256), options);
  if (scored.score.protocol.find(" first=") != std::string::npos) scored.words = scored.bytes = 0;
  if (!corpus.read.change.empty()) scored.warnings.push_back(line_ends_warning(file, corpus.read));
  return scored;
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

CorpusText corpus_text(std::string text) {
  const std::int64_t words = count_words(text), bytes = std::ssize(text);
  return {std::move(text), words, bytes};
}

std::vector<CorpusText> read_documents(std::string_view content, const std::string& file) {
  std::vector<CorpusText> texts;
  for_json_lines(content, file, [&](const JsonReader& line, std::int64_t) {
    const char* key = line.has("text") ? "text" : "page";
    if (!line.has(key)) line.fail("expected a key \"text\" or \"page\", found neither");
    CorpusText& text = texts.emplace_back(corpus_text(line.at(key).text()));
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (line.has("words")) text.words = line.at("words").integer(1, kMost);
    if (line.has("bytes")) text.bytes = line.at("bytes").integer(1, kMost);
  });
  return texts;
}

std::vector<CorpusText> read_sentences(std::string_view content) {
  std::vector<CorpusText> texts;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    if (end > at) texts.push_back(corpus_text(std::string(content.substr(at, end - at))));
    at = end + 1;
  }
  return texts;
}

std::optional<double> CorpusScore::word_perplexity() const {
  return words > 0 ? std::optional(exp_per(log_likelihood(), words)) : std::nullopt;
}
std::optional<double> CorpusScore::byte_perplexity() const {
  return bytes > 0 ? std::optional(exp_per(log_likelihood(), bytes)) : std::nullopt;
}
std::optional<double> CorpusScore::bits_per_byte() const {
  return bytes > 0 ? std::optional(-log_likelihood() / static_cast<double>(bytes) / std::numbers::ln2)
                   : std::nullopt;
}

CorpusScore score_texts(const LoadedModel& loaded, std::span<const CorpusText> texts, std::string sha256,
                        const ScoreOptions& options) {
  const Tokenizer& tokenizer = required_tokenizer(loaded);
  CorpusScore result;
  result.corpus_sha256 = std::move(sha256);
  const BosRule rule = options.bos.value_or(usual_bos_rule(tokenizer, options.protocol));
  for (const CorpusText& text : texts) {
    const TextToScore ids = text_to_score(loaded, text.text, options);
    if (texts.size() > 1 && std::ssize(ids.ids) < least_tokens(options)) continue;
    add_score(result, score_one(loaded, ids, options, result.seconds));
    result.words += text.words;
    result.bytes += text.bytes;
  }
  if (result.lengths.empty())
    throw Error("expected a text of {} or more, found none", counted(least_tokens(options), "token"));
  finish(loaded, result, options, rule);
  return result;
}

CorpusScore score_file(const LoadedModel& loaded, const std::filesystem::path& file,
                       const ScoreOptions& options) {
  required_tokenizer(loaded);
  if (options.max_tokens) {
    if (file.extension() == ".jsonl")
      throw FieldError("max_tokens", "expected none for documents in JSONL, each of which is a text");
    return score_beginning(loaded, file, options);
  }
  TextFile corpus = read_corpus(file, loaded.config.newlines);
  std::string hash = sha256_hex(corpus.text);
  refuse_calibrated(loaded, file, hash);
  const std::vector<CorpusText> texts = file.extension() == ".jsonl"
                                            ? read_documents(corpus.text, file.string())
                                            : std::vector{corpus_text(std::move(corpus.text))};
  CorpusScore scored = score_texts(loaded, texts, std::move(hash), options);
  if (!corpus.change.empty()) scored.warnings.push_back(line_ends_warning(file, corpus));
  return scored;
}

CorpusScore score_sentences(const LoadedModel& loaded, const std::filesystem::path& file,
                            const ScoreOptions& options) {
  const TextFile corpus = read_corpus(file, loaded.config.newlines);
  std::string hash = sha256_hex(corpus.text);
  refuse_calibrated(loaded, file, hash);
  CorpusScore scored = score_texts(loaded, read_sentences(corpus.text), std::move(hash), options);
  if (!corpus.change.empty()) scored.warnings.push_back(line_ends_warning(file, corpus));
  return scored;
}

CorpusScore score_ids(const LoadedModel& loaded, const std::vector<TokenId>& ids,
                      const ScoreOptions& options) {
  CorpusScore result;
  result.corpus_sha256 = sha256_hex(fmt::format("{}", fmt::join(ids, " ")));
  const TextToScore text = ids_to_score(loaded, ids, options);
  add_score(result, score_one(loaded, text, options, result.seconds));
  finish(loaded, result, options, text.rule);
  return result;
}

}  // namespace assay
