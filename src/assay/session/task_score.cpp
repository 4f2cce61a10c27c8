#include "assay/session/task_score.h"

#include <algorithm>
#include <cmath>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/generate/scored_sequences.h"
#include "assay/generate/steps.h"
#include "assay/model/model.h"
#include "assay/session/bos.h"
#include "assay/session/shared_tokens.h"
#include "assay/text/python_text.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

constexpr std::int64_t kBatchTokens = 2048;  // that run together, or one sequence

// Where the log-likelihood of a request comes from.
struct Place {
  std::size_t item = 0, request = 0;
  std::size_t sequence = 0, alternative = 0;  // in the batch
};

class TaskScorer {
 public:
  TaskScorer(const LoadedModel& loaded, const TaskItems& items, const std::string& file,
             const TaskScoreOptions& options)
      : loaded_(loaded),
        items_(items),
        file_(file),
        options_(options),
        prefix_(prefix_token(loaded)),
        calibrated_(loaded.calibration_ids) {
    scores_.sha256 = items.sha256;
    scores_.items.resize(items.items.size());
  }

  TaskScores run() {
    for (std::size_t i = 0; i < items_.items.size(); ++i) {
      add(i);
      if (tokens_ >= kBatchTokens || i + 1 == items_.items.size()) run_batch(i + 1);
    }
    loaded_.model->backend().synchronize();
    add_warnings();
    return std::move(scores_);
  }

 private:
  void add(std::size_t i) {
    const TaskItem& item = items_.items[i];
    ItemScore& score = scores_.items[i];
    const std::string where = fmt::format("{}:{}", file_, item.line);
    const std::size_t first = sequences_.size();
    bool is_calibrated = false;
    for (std::size_t r = 0; r < item.requests.size(); ++r) {
      TaskTokens tokens =
          task_tokens(*loaded_.tokenizer, prefix_, item.requests[r], loaded_.model->spec().context, where);
      scores_.truncated += tokens.cut > 0 ? 1 : 0;
      scores_.shifted += tokens.is_shifted ? 1 : 0;
      score.tokens.push_back(std::ssize(tokens.continuation));
      is_calibrated = is_calibrated || calibrated_.has_part_of(tokens.inputs);
      std::size_t s = first;
      while (s < sequences_.size() &&
             (sequences_[s].inputs != tokens.inputs || sequences_[s].first_row != tokens.first_row()))
        ++s;
      if (s == sequences_.size()) {
        tokens_ += std::ssize(tokens.inputs);
        const std::int64_t first_row = tokens.first_row();
        sequences_.push_back({.inputs = std::move(tokens.inputs), .first_row = first_row, .targets = {}});
      }
      places_.push_back({i, r, s, sequences_[s].targets.size()});
      sequences_[s].targets.push_back(std::move(tokens.continuation));
    }
    score.log_likelihoods.resize(item.requests.size());
    calibrated_items_ += is_calibrated ? 1 : 0;
  }

  void run_batch(std::size_t done) {
    const auto stop = [&] {
      if (options_.should_stop && options_.should_stop())
        throw Stopped("interrupted after {} of {} items", scored_, items_.items.size());
    };
    stop();
    const bool wants_greedy = items_.kind == TaskKind::completion;
    const TimePoint begin = Clock::now();
    const std::vector<ScoredTargets> scored =
        score_sequences(loaded_.model->program(), sequences_, ScoreThrough::prefill, wants_greedy, stop);
    scores_.seconds += elapsed(begin, Clock::now()).value;
    for (const Place& place : places_) {
      ItemScore& score = scores_.items[place.item];
      double sum = 0;
      for (const double value : scored[place.sequence].log_probabilities[place.alternative]) sum += value;
      if (!std::isfinite(sum))
        refuse_not_finite(loaded_.model->program().plan(),
                          fmt::format("the log-likelihood of {}:{} is not finite ({})", file_,
                                      items_.items[place.item].line, number_text(sum)));
      score.log_likelihoods[place.request] = sum;
      if (wants_greedy)
        score.is_greedy =
            scored[place.sequence].greedy == sequences_[place.sequence].targets[place.alternative];
    }
    sequences_.clear();
    places_.clear();
    tokens_ = 0;
    scored_ = done;
    if (options_.on_progress) options_.on_progress(static_cast<std::int64_t>(done), std::ssize(items_.items));
  }

  void add_warnings() {
    std::int64_t requests = 0;
    for (const TaskItem& item : items_.items) requests += std::ssize(item.requests);
    if (scores_.truncated > 0)
      scores_.warnings.push_back(
          {WarningKind::prompt_truncated,
           fmt::format("{} of {} requests were cut on the left to the model's context of {} tokens",
                       scores_.truncated, requests, loaded_.model->spec().context)});
    if (scores_.shifted > 0)
      scores_.warnings.push_back(
          {WarningKind::shifted_border,
           fmt::format("in {} of {} requests a token spans the border of context and continuation, and only "
                       "what lies behind the context's tokens is scored",
                       scores_.shifted, requests)});
    if (items_.sha256 == loaded_.calibration_sha256 && !items_.sha256.empty())
      calibrated_items_ = std::ssize(items_.items);
    if (calibrated_items_ > 0)
      scores_.warnings.push_back(
          {WarningKind::calibrated_items,
           fmt::format(
               "{} of {} share {} tokens in a row or more with the text that the model was calibrated "
               "on: its accuracy may be too high",
               calibrated_items_, counted(std::ssize(items_.items), "item"), SharedTokens::kPassage)});
  }

  const LoadedModel& loaded_;
  const TaskItems& items_;
  const std::string& file_;
  const TaskScoreOptions& options_;
  const TokenId prefix_;
  const SharedTokens calibrated_;
  std::int64_t calibrated_items_ = 0;
  TaskScores scores_;
  std::size_t scored_ = 0;
  // What runs together.
  std::vector<ScoredSequence> sequences_;
  std::vector<Place> places_;
  std::int64_t tokens_ = 0;
};

// The first of equals, as numpy.argmax.
std::int64_t best_of(std::span<const double> log_likelihoods, const std::vector<std::string>& choices,
                     std::int64_t (*length)(std::string_view)) {
  std::int64_t best = 0;
  double highest = 0;
  for (std::size_t i = 0; i < log_likelihoods.size(); ++i) {
    const double per = log_likelihoods[i] / static_cast<double>(length(choices[i]));
    if (i == 0 || per > highest) {
      best = static_cast<std::int64_t>(i);
      highest = per;
    }
  }
  return best;
}

double share_of(const std::vector<bool>& are_right) {
  return static_cast<double>(std::count(are_right.begin(), are_right.end(), true)) /
         static_cast<double>(are_right.size());
}

}  // namespace

TaskTokens task_tokens(const Tokenizer& tokenizer, TokenId prefix, const TaskRequest& request,
                       std::int64_t context, const std::string& where) {
  TaskTokens result;
  std::vector<TokenId> before;
  if (request.context.empty()) {
    before = {prefix};
    result.continuation = tokenizer.encode(request.continuation, false);
    // The prefix is not doubled.
    if (!result.continuation.empty() && result.continuation.front() == prefix)
      result.continuation.erase(result.continuation.begin());
  } else {
    const std::string_view kept = right_stripped(request.context);
    before = lm_eval_ids(tokenizer, prefix, kept);
    std::vector<TokenId> whole = lm_eval_ids(tokenizer, prefix, request.context + request.continuation);
    const std::size_t border = std::min(before.size(), whole.size());
    result.is_shifted =
        !std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(border), whole.begin());
    result.continuation.assign(whole.begin() + static_cast<std::ptrdiff_t>(border), whole.end());
    if (before.empty()) before = {prefix};  // blanks alone
  }
  const auto count = std::ssize(result.continuation);
  if (count == 0) throw Error("{}: expected a continuation of a token or more, found none", where);
  if (count > context)
    throw Error("{}: expected a continuation of at most {} tokens (the model's context), found {}", where,
                context, count);
  std::vector<TokenId>& inputs = result.inputs = std::move(before);
  inputs.insert(inputs.end(), result.continuation.begin(), result.continuation.end() - 1);
  result.cut = std::max<std::int64_t>(0, std::ssize(inputs) - context);
  inputs.erase(inputs.begin(), inputs.begin() + result.cut);
  return result;
}

TaskScores score_task(const LoadedModel& loaded, const TaskItems& items, const std::string& file,
                      const TaskScoreOptions& options) {
  if (loaded.tokenizer == nullptr)
    throw Error("{}: the model has no tokenizer; a task cannot be scored",
                loaded.model->source().path().string());
  return TaskScorer(loaded, items, file, options).run();
}

TaskFigures figures_of(const TaskItems& items, std::span<const ItemScore> scores) {
  if (scores.size() != items.items.size())
    throw Error("the task has {}, and there are scores of {}", counted(std::ssize(items.items), "item"),
                scores.size());
  TaskFigures figures;
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const TaskItem& item = items.items[i];
    const ItemScore& score = scores[i];
    if (score.log_likelihoods.size() != item.requests.size() || score.tokens.size() != item.requests.size())
      throw Error("line {} of the task has {}, and there are scores of {}", item.line,
                  counted(std::ssize(item.requests), "request"), score.log_likelihoods.size());
    if (items.kind == TaskKind::completion) {
      figures.is_right.push_back(score.is_greedy);
      sum += score.log_likelihoods.front();
      tokens += score.tokens.front();
      continue;
    }
    const auto right = [&](std::int64_t (*length)(std::string_view)) {
      return best_of(score.log_likelihoods, item.choices, length) == item.answer;
    };
    figures.is_right.push_back(right([](std::string_view) { return std::int64_t{1}; }));
    figures.is_right_norm.push_back(right(count_characters));
    figures.is_right_bytes.push_back(
        right([](std::string_view text) { return static_cast<std::int64_t>(text.size()); }));
  }
  figures.acc = share_of(figures.is_right);
  if (items.kind == TaskKind::completion) {
    figures.completion_perplexity = std::exp(-sum / static_cast<double>(scores.size()));
    figures.token_perplexity = std::exp(-sum / static_cast<double>(tokens));
  } else {
    figures.acc_norm = share_of(figures.is_right_norm);
    figures.acc_bytes = share_of(figures.is_right_bytes);
  }
  return figures;
}

}  // namespace assay
