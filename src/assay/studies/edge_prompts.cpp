#include "assay/studies/edge_prompts.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"

namespace assay {

namespace {

constexpr const char* kTypical = "typical";

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Phases of a run beside those of the typical one, in seconds.
std::string explanation(const CaseResult& c, const CaseResult& typical) {
  struct Part {
    const char* name;
    double more;
  };
  const auto middle = [](const CaseResult& r, double (*of)(const Sample&)) {
    std::vector<double> all;
    for (const auto& [block, sample] : r.samples) all.push_back(of(sample));
    return median(all);
  };
  const auto more = [&](double (*of)(const Sample&)) { return middle(c, of) - middle(typical, of); };
  const Part parts[] = {{"prefill", more([](const Sample& s) { return s.prefill_s; })},
                        {"decode", more([](const Sample& s) { return s.decode_s(); })},
                        {"sampling", more([](const Sample& s) { return s.sampling_s; })}};
  const Part* most = &parts[0];
  double whole = 0;
  for (const Part& part : parts) {
    whole += part.more;
    if (std::abs(part.more) > std::abs(most->more)) most = &part;
  }
  const Sample &own = c.samples.begin()->second, &other = typical.samples.begin()->second;
  return fmt::format("{} explains {:.0f} % of the difference (prompts of {} and {} tokens)", most->name,
                     whole == 0 ? 0 : 100 * most->more / whole, own.prompt_tokens, other.prompt_tokens);
}

}  // namespace

std::vector<Case> edge_cases(const ExperimentContext& experiment, const EdgeOptions& options) {
  const std::string sentence = "The road was wide and the evening light lay over the fields. ";
  std::vector<std::pair<std::string, Prompt>> prompts = {
      {kTypical, sentence + "On the hill stood a house that nobody had lived in for many years, and"},
      {"very short", "A"},
      {"multi-line", "Dear Sir,\n\nI write to you:\n\n- of the house\n- of the road\n\nYours,\n"},
      {"repetitive", repeated("ha ", 64)},
      {"only blanks", repeated(" ", 64)},
      {"rare Unicode",
       "\xf0\x9f\xa6\x89\xf0\x9f\x8f\xbd \xe1\x9a\xa0\xe1\x9b\x87\xe1\x9a\xbb "
       "\xf0\x9d\x94\x98\xf0\x9d\x94\xab \xe0\xbc\x84\xe0\xbc\x85 "
       "\xf0\x93\x80\x80\xf0\x93\x82\x80 z\xcc\x83\xcc\x82\xcc\x8a"},
      {"digits", "3141592653589793238462643383279502884197169399375105820974944592"},
      {"code",
       "def add(a, b):\n    \"\"\"Adds.\"\"\"\n    return a + b\n\nfor i in range(10):\n    print(add(i, "}};
  std::vector<Case> cases;
  for (const auto& [name, prompt] : prompts) {
    cases.push_back(baseline_case(experiment, Scenario::edge_prompts, name, {prompt}, options.new_tokens));
    fit_context(experiment, cases.back());
  }
  // The longest that fits.
  const std::int64_t room = experiment.context - options.new_tokens;
  if (room > 0) {
    cases.insert(cases.begin() + 2,
                 baseline_case(experiment, Scenario::edge_prompts, "very long",
                               {ids_of_length(experiment, sentence, room)}, options.new_tokens));
  }
  for (const auto& [name, prompt] : options.more)
    cases.push_back(baseline_case(experiment, Scenario::edge_prompts, name, {prompt}, options.new_tokens));
  return cases;
}

ExperimentResult probe_edge_prompts(const ExperimentContext& experiment, const EdgeOptions& options) {
  const SweepResult swept = run_sweep(*experiment.sessions, std::string(name_of(Scenario::edge_prompts)),
                                      edge_cases(experiment, options), experiment.sweep);
  ExperimentResult result;
  result.is_interrupted = swept.is_interrupted;
  const CaseResult* typical = nullptr;
  for (const CaseResult& c : swept.cases)
    if (c.what.label == kTypical && c.status == RowStatus::ok && !c.samples.empty()) typical = &c;
  for (const CaseResult& c : swept.cases) {
    Row row = row_of(c, experiment);
    if (typical != nullptr && &c != typical && c.status == RowStatus::ok && !c.samples.empty()) {
      auto comparison = compare_cases(c, *typical, experiment, static_cast<int>(swept.cases.size()) - 1);
      row.set("latency_ratio", comparison ? comparison->ratio : 0);
      if (comparison && (comparison->verdict == Verdict::lower || comparison->verdict == Verdict::higher))
        result.remarks.push_back(fmt::format("{}; {}.", comparison->sentence, explanation(c, *typical)));
      if (comparison) result.comparisons.push_back(std::move(*comparison));
    }
    if (c.status == RowStatus::ok && !c.first.texts.empty())
      result.texts.push_back(
          {"edge prompt: " + c.what.label, "", c.first.texts.front(), {}, c.first.ids.front()});
    result.rows.push_back(std::move(row));
  }
  return result;
}

}  // namespace assay
