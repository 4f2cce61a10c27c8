// What a session measured of a configuration outside a sweep, such as the losses of a text: asked once, kept
// in the journal, with the reason where it failed.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/context.h"
#include "assay/harness/journal.h"
#include "assay/harness/session.h"
#include "assay/harness/sessions.h"
#include "assay/harness/worker_protocol.h"
#include "assay/studies/option.h"

namespace assay {

template <typename Result>
struct SessionResult {
  std::optional<Result> value;  // empty: it failed, and `reason` says why
  SessionFacts facts;           // where the session was loaded, even if it failed then
  std::string reason;
  bool is_stopped = false;  // the whole run is
};

// Starts the processes that measured_once() will need side by side, before the first of them measures, and
// where they start by waiting loads those whose load has been timed before. `kind` and `key_of` name what the
// journal may know already.
template <typename KeyOf>
void prepare_processes(const ExperimentContext& context, std::vector<RunConfig> configurations,
                       const std::string& kind, KeyOf key_of) {
  const SweepOptions& sweep = context.sweep;
  if (sweep.is_late() || (sweep.should_stop && sweep.should_stop())) return;
  if (sweep.journal != nullptr)
    std::erase_if(configurations, [&](const RunConfig& c) { return sweep.journal->has(kind, key_of(c)); });
  Sessions& sessions = *context.sessions;
  sessions.begin_prepare(configurations, 1);
  std::erase_if(configurations,
                [&](const RunConfig& c) { return !sessions.starts_by_waiting(c) || !sessions.is_known(c); });
  sessions.load(configurations);
  sessions.wait_prepared();
}

// Whether it is too late to measure what has this kind and key, and an earlier run has not.
inline bool is_too_late(const ExperimentContext& context, const std::string& kind, const std::string& key) {
  const SweepOptions& sweep = context.sweep;
  return sweep.is_late() && (sweep.journal == nullptr || !sweep.journal->has(kind, key));
}

// `kind` and `key` name it in the journal, `name` its value there. `from_json` reads what to_json() wrote.
template <typename FromJson, typename Measure>
auto measured_once(const ExperimentContext& context, const RunConfig& configuration, const std::string& kind,
                   const std::string& key, const std::string& name, FromJson from_json, Measure measure) {
  using Result = decltype(measure(std::declval<Session&>()));
  SessionResult<Result> result;
  const auto read = [&](const JsonReader& data) {
    return std::pair(from_json(data.at(name)), session_facts_from_json(data.at("facts")));
  };
  const auto write = [&](const auto& made) {
    return nlohmann::ordered_json{{name, to_json(made.first)}, {"facts", to_json(made.second)}};
  };
  const auto make = [&] {
    if (const auto why = context.sessions->why_not(configuration)) throw Error("{}", *why);
    Session& session = context.sessions->of(configuration);
    result.facts = session.facts();
    return std::pair(measure(session), result.facts);
  };
  const Attempt attempt = context.sessions->attempt(
      configuration,
      [&] {
        std::tie(result.value, result.facts) = resumed(context.sweep.journal, kind, key, read, write, make);
        context.sessions->remember(configuration, result.facts);
      },
      context.sweep.should_stop);
  result.reason = attempt.reason;
  result.is_stopped = attempt.end == Attempt::End::stopped;
  return result;
}

// What every row of a configuration says that such a result is about.
inline std::vector<std::pair<std::string, std::string>> parameters_of(const RunConfig& configuration,
                                                                      const SessionFacts& facts) {
  const std::string label = configuration.label();
  return {{"configuration", label},
          {"precision", facts.model.dtype.empty() ? label : facts.model.dtype},
          {"device", facts.device},
          {"kernels", facts.kernels},
          {"threads", std::to_string(facts.threads)}};
}

// The options of a study that scores a text by precisions: fields precisions, corpus, context and stride.
template <typename Options>
std::vector<StudyOption> text_options() {
  return {option("precision", &Options::precisions, "Precisions to compare"),
          option("corpus", &Options::corpus, "Text to score",
                 {.name_in_run = "corpus", .shown_default = "the one that ships"}),
          option("context", &Options::context, "Tokens per window of the scored text",
                 {.min = 2,
                  .name_in_run = "context",
                  .shown_default = "the model's context; of several models the shortest"}),
          option("stride", &Options::stride, "Tokens from one window to the next",
                 {.min = 1, .name_in_run = "stride", .shown_default = "half a window"})};
}

// The options with further ones behind them.
inline std::vector<StudyOption> with_more(std::vector<StudyOption> options, StudyOption more) {
  options.push_back(std::move(more));
  return options;
}

}  // namespace assay
