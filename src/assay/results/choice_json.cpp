#include "assay/results/choice_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/results/earlier_names.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr double kMostSeconds = 1e12, kMostBound = 1e18;
constexpr std::int64_t kMostRuns = std::int64_t{1} << 40;

void put_count(OrderedJson& json, const char* key, const std::optional<std::int64_t>& value) {
  if (value) json[key] = *value;
}

std::optional<std::int64_t> count_at(const JsonReader& json, const char* key) {
  if (!json.has(key)) return std::nullopt;
  return json.at(key).integer(1, kMostRuns);
}

std::set<std::string> keys_at(const JsonReader& json, const char* key) {
  if (!json.has(key)) return {};
  const std::vector<std::string> texts = json.at(key).texts();
  return {texts.begin(), texts.end()};
}

}  // namespace

OrderedJson to_json(const Choice& choice) {
  OrderedJson studies = OrderedJson::array();
  for (const ChosenStudy& study : choice.studies) {
    OrderedJson json{{"study", study.name}, {"measured", study.is_measured}};
    put_count(json, "processes", study.processes);
    put_count(json, "repeats", study.repeats);
    put_count(json, "max_new_tokens", study.most_tokens);
    if (!study.left_out.empty()) json["left_out"] = study.left_out;
    if (!study.once.empty()) json["once"] = study.once;
    json["predicted_s"] = study.predicted_s;
    json["whole_s"] = study.whole_s;
    studies.push_back(std::move(json));
  }
  return {{"budget_s", choice.budget_s},
          {"before_s", choice.before_s},
          {"predicted_s", choice.predicted_s()},
          {"whole_s", choice.whole_s()},
          {"studies", studies}};
}

Choice choice_from_json(const JsonReader& json) {
  Choice choice;
  choice.budget_s = json.at("budget_s").number(0, kMostSeconds);
  choice.before_s = json.at("before_s").number(0, kMostSeconds);
  for (const JsonReader& own : json.at("studies").items())
    choice.studies.push_back({.name = own.at("study").text(),
                              .processes = count_at(own, "processes"),
                              .repeats = count_at(own, "repeats"),
                              .most_tokens = count_at(own, "max_new_tokens"),
                              .left_out = keys_at(own, "left_out"),
                              .once = keys_at(own, "once"),
                              .is_measured = own.at("measured").boolean(),
                              .predicted_s = own.at("predicted_s").number(0, kMostSeconds),
                              .whole_s = own.at("whole_s").number(0, kMostSeconds)});
  return choice;
}

OrderedJson to_json(const LeftOut& left_out) {
  return {{"study", left_out.study},
          {"what", left_out.what},
          {"reason", left_out.reason},
          {"command", left_out.command},
          {"predicted_s", left_out.predicted_s}};
}

LeftOut left_out_from_json(const JsonReader& json) {
  return {.study = json.at("study").text(),
          .what = current_name(json.at("what").text()),
          .reason = json.at("reason").text(),
          .command = json.at("command").text(),
          .predicted_s = json.at("predicted_s").number(0, kMostSeconds)};
}

OrderedJson to_json(const Limits& limits) {
  OrderedJson bounds = OrderedJson::object();
  for (const Limit& limit : limits.limits) bounds[limit.name] = limit.bound;
  return {{"goal", name_of(limits.goal)}, {"bounds", bounds}};
}

Limits limits_from_json(const JsonReader& json) {
  Limits limits;
  const auto goal = goal_named(json.at("goal").text());
  if (!goal) json.at("goal").refuse("fastest, smallest or throughput");
  limits.goal = *goal;
  const auto kinds = limit_kinds();
  for (const auto& [name, bound] : json.at("bounds").members()) {
    if (std::none_of(kinds.begin(), kinds.end(),
                     [&, &named = name](const LimitKind& kind) { return kind.name == named; }))
      bound.fail(fmt::format("no limit is called '{}'", name.substr(0, 40)));
    limits.limits.push_back({name, bound.number(0, kMostBound)});
  }
  return limits;
}

OrderedJson to_json(const LimitedChoice& choice) {
  const auto or_null = [](const std::string& label) {
    return label.empty() ? OrderedJson(nullptr) : OrderedJson(label);
  };
  OrderedJson binding = OrderedJson::array(), excess = OrderedJson::array();
  for (const LimitedChoice::Binding& one : choice.binding)
    binding.push_back({{"limit", one.limit.name},
                       {"bound", one.limit.bound},
                       {"without_it", one.without_it},
                       {"value", one.value},
                       {"gain", one.gain},
                       {"is_within_10_percent", one.is_within_10}});
  for (const LimitedChoice::Excess& one : choice.nearest_excess)
    excess.push_back({{"limit", one.limit.name}, {"bound", one.limit.bound}, {"value", one.value}});
  return {{"limits", to_json(choice.limits)},
          {"best", choice.best},
          {"tied", choice.tied},
          {"tested", choice.is_tested},
          {"runner_up", or_null(choice.runner_up)},
          {"binding", binding},
          {"uncertain", choice.uncertain},
          {"nearest", or_null(choice.nearest)},
          {"nearest_excess", excess},
          {"unmeasured", choice.unmeasured}};
}

}  // namespace assay
