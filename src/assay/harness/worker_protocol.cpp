// The messages of worker_protocol.h.
#include "assay/harness/worker_protocol.h"

#include <nlohmann/json.hpp>

#include "assay/harness/case_json.h"
#include "assay/harness/task_json.h"
#include "assay/results/results_json.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

CorpusRequest corpus_request_from_json(const JsonReader& json) {
  const auto whole_at = [&](const char* key) {
    return json.has(key) ? std::optional(json.at(key).whole<std::int64_t>()) : std::nullopt;
  };
  return {.file = json.at("file").text(),
          .context = whole_at("context"),
          .stride = whole_at("stride"),
          .through = json.has("through") ? score_through_from_name(json.at("through").text())
                                         : ScoreThrough::prefill};
}

}  // namespace

OrderedJson answer_request(Session& session, const std::string& op, const JsonReader& request) {
  OrderedJson answer{{"ok", true}};
  if (op == "facts") {
    answer["facts"] = to_json(session.facts());
  } else if (op == "first_run") {
    answer["first_run"] = to_json(session.first_run(case_from_json(request.at("case"))));
  } else if (op == "run") {
    answer["sample"] = to_json(session.run(case_from_json(request.at("case"))));
  } else if (op == "score") {
    answer["losses"] = to_json(session.score(corpus_request_from_json(request)));
  } else if (op == "audit") {
    answer["audit"] = to_json(session.audit(prompts_from_json(request.at("prompts")),
                                            request.at("new_tokens").whole<std::int64_t>()));
  } else if (op == "task") {
    answer["task"] = to_json(session.task(request.at("file").text()));
  } else {
    return nullptr;
  }
  if (op == "first_run" || op == "run") add_earlier_names(answer);
  return answer;
}

OrderedJson to_json(const SessionFacts& facts) {
  return {{"model", to_json(facts.model)},
          {"device", facts.device},
          {"kernels", facts.kernels},
          {"tuning", facts.tuning},
          {"threads", facts.threads},
          {"context", facts.context},
          {"warnings", to_json(facts.warnings)},
          {"weight_bytes", facts.weight_bytes}};
}

SessionFacts session_facts_from_json(const JsonReader& json) {
  return {.model = model_facts_from_json(json.at("model")),
          .device = json.at("device").text(),
          .kernels = json.at("kernels").text(),
          .tuning = json.has("tuning") ? json.at("tuning").text() : "",
          .threads = json.at("threads").whole<int>(),
          .context = json.at("context").whole<std::int64_t>(),
          .warnings = warnings_from_json(json.at("warnings")),
          .weight_bytes = json.has("weight_bytes") ? json.at("weight_bytes").whole<std::int64_t>() : 0};
}

namespace {

OrderedJson to_json(const WeightFetch& fetch) {
  return {
      {"distance", fetch.distance}, {"most", fetch.most}, {"is_to_second_level", fetch.is_to_second_level}};
}

WeightFetch fetch_from_json(const JsonReader& json) {
  constexpr std::int64_t kFurthest = std::int64_t{1} << 16;
  return {.distance = json.at("distance").integer(1, kFurthest),
          .most = json.at("most").integer(1, kFurthest),
          .is_to_second_level = json.at("is_to_second_level").boolean()};
}

}  // namespace

OrderedJson to_json(const KernelConstants& constants) {
  return {{"fetch", to_json(constants.fetch)},
          {"grouped_fetch", to_json(constants.grouped_fetch)},
          {"share_rows", constants.share_rows}};
}

KernelConstants constants_from_json(const JsonReader& json) {
  return {.fetch = fetch_from_json(json.at("fetch")),
          .grouped_fetch = fetch_from_json(json.at("grouped_fetch")),
          .share_rows = json.at("share_rows").integer(kMinShareRows, kMaxShareRows)};
}

OrderedJson to_json(const CorpusLosses& losses) {
  return {{"corpus_sha256", losses.corpus_sha256},
          {"protocol", losses.protocol},
          {"log_probabilities", losses.log_probabilities},
          {"tokens", losses.tokens},
          {"seconds", losses.seconds},
          {"warnings", to_json(losses.warnings)}};
}

CorpusLosses corpus_losses_from_json(const JsonReader& json) {
  return {
      .corpus_sha256 = json.at("corpus_sha256").text(),
      .protocol = json.at("protocol").text(),
      .log_probabilities = json.at("log_probabilities").numbers(),
      .tokens = json.at("tokens").whole<std::int64_t>(),
      .seconds = json.at("seconds").number(),
      .warnings = json.has("warnings") ? warnings_from_json(json.at("warnings")) : std::vector<Warning>()};
}

}  // namespace assay
