#include "assay/harness/divergence_json.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/results/results_json.h"

namespace assay {

namespace {

using DivergenceJson = nlohmann::ordered_json;

constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

std::optional<std::int64_t> whole_or_none(const JsonReader& json, const char* key) {
  return json.has(key) ? std::optional(json.at(key).integer(0, kMostTokens)) : std::nullopt;
}

DivergenceJson null_or(const std::optional<std::int64_t>& number) {
  return number ? DivergenceJson(*number) : DivergenceJson(nullptr);
}

std::vector<TokenId> ids_of(const JsonReader& json) {
  std::vector<TokenId> ids;
  for (const JsonReader& id : json.items())
    ids.push_back(static_cast<TokenId>(id.integer(0, std::numeric_limits<TokenId>::max())));
  return ids;
}

DivergenceJson candidate_json(const CandidateDivergence& candidate) {
  DivergenceJson json{{"failure", candidate.failure}, {"vocab", candidate.vocab}};
  const auto add = [&](const char* key, auto number_of) {
    DivergenceJson& all = json[key] = DivergenceJson::array();
    for (const TokenDivergence& token : candidate.tokens) all.push_back(number_of(token));
  };
  using T = const TokenDivergence&;
  add("kl", [](T t) { return t.kl; });
  add("nll_base", [](T t) { return t.nll_base; });
  add("nll", [](T t) { return t.nll; });
  add("p_base", [](T t) { return t.p_base; });
  add("p", [](T t) { return t.p; });
  add("same_top1", [](T t) { return t.same_top1 ? 1 : 0; });
  add("top5", [](T t) { return t.top5; });
  add("base_margin", [](T t) { return t.base_margin; });
  return json;
}

CandidateDivergence candidate_from_json(const JsonReader& json, std::size_t scored) {
  CandidateDivergence candidate{.failure = json.at("failure").text(),
                                .vocab = json.at("vocab").integer(0, kMostTokens)};
  const auto read = [&](const char* key, auto set) {
    const std::vector<double> numbers = json.at(key).numbers();
    if (numbers.size() != (candidate.failure.empty() ? scored : 0))
      json.at(key).refuse(fmt::format("a number for each of {} tokens", scored));
    candidate.tokens.resize(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) set(candidate.tokens[i], numbers[i]);
  };
  using T = TokenDivergence&;
  read("kl", [](T t, double v) { t.kl = v; });
  read("nll_base", [](T t, double v) { t.nll_base = v; });
  read("nll", [](T t, double v) { t.nll = v; });
  read("p_base", [](T t, double v) { t.p_base = static_cast<float>(v); });
  read("p", [](T t, double v) { t.p = static_cast<float>(v); });
  read("same_top1", [](T t, double v) { t.same_top1 = v != 0; });
  read("top5", [](T t, double v) { t.top5 = static_cast<float>(v); });
  read("base_margin", [](T t, double v) { t.base_margin = static_cast<float>(v); });
  return candidate;
}

DivergenceJson greedy_json(const GreedyDivergence& greedy) {
  return {{"failure", greedy.failure},
          {"equal_tokens", greedy.equal_tokens},
          {"new_tokens", greedy.new_tokens},
          {"base_token", greedy.base_token},
          {"base_margin", greedy.base_margin}};
}

GreedyDivergence greedy_from_json(const JsonReader& json) {
  return {.failure = json.at("failure").text(),
          .equal_tokens = json.at("equal_tokens").integer(0, kMostTokens),
          .new_tokens = json.at("new_tokens").integer(0, kMostTokens),
          .base_token = json.at("base_token").whole<TokenId>(),
          .base_margin = json.at("base_margin").number()};
}

}  // namespace

DivergenceJson to_json(const DivergeRequest& request) {
  DivergenceJson json = DivergenceJson::object();
  if (request.sample_tokens > 0)
    json["sample_tokens"] = request.sample_tokens;
  else if (request.file.empty())
    json["ids"] = request.ids;
  else
    json["file"] = request.file;
  json["context"] = null_or(request.context);
  json["stride"] = null_or(request.stride);
  json["max_tokens"] = null_or(request.max_tokens);
  json["greedy_prompt"] = request.greedy_prompt;
  json["greedy_tokens"] = request.greedy_tokens;
  return json;
}

DivergeRequest diverge_request_from_json(const JsonReader& json) {
  DivergeRequest request;
  if (int{json.has("file")} + int{json.has("ids")} + int{json.has("sample_tokens")} != 1)
    json.fail("expected one of file, ids and sample_tokens");
  request.sample_tokens = whole_or_none(json, "sample_tokens").value_or(0);
  if (json.has("file")) request.file = json.at("file").text();
  if (json.has("ids")) request.ids = ids_of(json.at("ids"));
  request.context = whole_or_none(json, "context");
  request.stride = whole_or_none(json, "stride");
  request.max_tokens = whole_or_none(json, "max_tokens");
  request.greedy_prompt = whole_or_none(json, "greedy_prompt").value_or(0);
  request.greedy_tokens = whole_or_none(json, "greedy_tokens").value_or(0);
  return request;
}

DivergenceJson to_json(const CorpusDivergence& found) {
  DivergenceJson candidates = DivergenceJson::array(), greedy = DivergenceJson::array();
  for (const CandidateDivergence& each : found.divergence.candidates)
    candidates.push_back(candidate_json(each));
  for (const GreedyDivergence& each : found.greedy) greedy.push_back(greedy_json(each));
  const Divergence& d = found.divergence;
  return {{"corpus_sha256", found.corpus_sha256},
          {"protocol", d.protocol},
          {"tokens", d.tokens},
          {"windows", d.windows},
          {"context", d.context},
          {"stride", d.stride},
          {"seconds", found.seconds},
          {"ids", found.ids},
          {"scored", d.scored},
          {"candidates", candidates},
          {"greedy", greedy},
          {"warnings", to_json(found.warnings)}};
}

CorpusDivergence corpus_divergence_from_json(const JsonReader& json) {
  CorpusDivergence found;
  found.corpus_sha256 = json.at("corpus_sha256").text();
  found.seconds = json.at("seconds").number();
  found.ids = ids_of(json.at("ids"));
  found.warnings = warnings_from_json(json.at("warnings"));
  Divergence& d = found.divergence;
  d.protocol = json.at("protocol").text();
  d.tokens = json.at("tokens").integer(0, kMostTokens);
  d.windows = json.at("windows").integer(0, kMostTokens);
  d.context = json.at("context").integer(0, kMostTokens);
  d.stride = json.at("stride").integer(0, kMostTokens);
  for (const JsonReader& place : json.at("scored").items())
    d.scored.push_back(place.integer(0, static_cast<std::int64_t>(found.ids.size()) - 1));
  for (const JsonReader& each : json.at("candidates").items())
    d.candidates.push_back(candidate_from_json(each, d.scored.size()));
  for (const JsonReader& each : json.at("greedy").items()) found.greedy.push_back(greedy_from_json(each));
  return found;
}

}  // namespace assay
