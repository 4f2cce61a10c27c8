#include "assay/studies/edge_prompts.h"

#include <algorithm>
#include <cmath>

#include "assay/studies/study.h"

namespace assay {

namespace {

constexpr const char* kTypical = "typical";

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Names the phase that accounts for most of the difference to the typical prompt.
EdgeDifference difference_of(const Row& row, const Row& typical, const Comparison& comparison) {
  const auto middle = [](const Row& of, const char* tag) {
    const Value* value = of.find(tag);
    return value == nullptr || value->samples.empty() ? 0 : statistics::median(value->samples);
  };
  constexpr std::pair<const char*, const char*> kParts[] = {
      {"prefill", "prefill_latency_s"}, {"decode", "decode_latency_s"}, {"sampling", "sampling_s"}};
  EdgeDifference found{comparison};
  double whole = 0, most = 0;
  for (const auto& [name, tag] : kParts) {
    const double more = middle(row, tag) - middle(typical, tag);
    whole += more;
    if (!found.phase.empty() && std::abs(more) <= std::abs(most)) continue;
    most = more;
    found.phase = name;
  }
  found.percent = whole == 0 ? 0 : 100 * most / whole;
  found.prompt_tokens = static_cast<std::int64_t>(row.find("prompt_tokens")->value);
  found.typical_prompt_tokens = static_cast<std::int64_t>(typical.find("prompt_tokens")->value);
  return found;
}

std::vector<Case> edge_cases(const ExperimentContext& context, const EdgeOptions& options) {
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
    cases.push_back(baseline_case(context, Scenario::edge_prompts, name, {prompt}, options.new_tokens));
    fit_context(context, cases.back());
  }
  const std::int64_t room = context.context_length - options.new_tokens;
  const auto add_long = [&](const char* name, std::int64_t length) {
    cases.insert(cases.begin() + 2,
                 baseline_case(context, Scenario::edge_prompts, name,
                               {ids_of_length(context, sentence, length)}, options.new_tokens));
  };
  if (room > kLongPrompt) add_long("longest that fits", room);
  if (room > 0) add_long("very long", std::min(room, kLongPrompt));
  std::vector<std::pair<std::string, Prompt>> more = options.more;
  for (const Prompt& prompt : options.prompts)
    more.emplace_back(fmt::format("own prompt {}", more.size() - options.more.size() + 1), prompt);
  for (const auto& [name, prompt] : more)
    cases.push_back(baseline_case(context, Scenario::edge_prompts, name, {prompt}, options.new_tokens));
  return cases;
}

void add_edge_texts(const ExperimentContext&, const EdgeOptions&, std::vector<CaseOutcome>& outcomes,
                    ExperimentResult& result) {
  for (const CaseOutcome& outcome : outcomes) {
    const CaseResult& c = outcome.result;
    if (c.status == RowStatus::ok && !c.first.texts.empty())
      result.texts.push_back({"edge prompt: " + c.spec.label,
                              "",
                              c.first.texts.front(),
                              {},
                              c.first.ids.front(),
                              Scenario::edge_prompts,
                              c.spec.label});
  }
}

std::vector<Finding> differences(const ExperimentResult& judged) {
  std::vector<Finding> found;
  const Row* typical = nullptr;
  for (const Row& row : judged.rows) {
    if (row.scenario != Scenario::edge_prompts) continue;
    if (typical == nullptr) typical = &row;
    const Comparison* c = judged.comparison(Scenario::edge_prompts, row.label, typical->label);
    if (c != nullptr && (c->verdict == Verdict::lower || c->verdict == Verdict::higher))
      found.emplace_back(difference_of(row, *typical, *c));
  }
  return found;
}

}  // namespace

Study edge_prompts_study() {
  using Options = EdgeOptions;
  return to_study<Options>(
      {.name = "edge",
       .title = "Edge-case prompts",
       .description =
           "Compare edge-case prompts (very short, very long, repetitive, rare Unicode) with a typical one",
       .command = "probe",
       .example = "assay probe demo -p 'A prompt of my own'",
       .options = {option("prompt", &Options::prompts, "Further prompts",
                          {.letter = 'p', .shown_default = "none"}),
                   option("max-new-tokens", &Options::new_tokens, "New tokens", {.letter = 'n', .min = 1})},
       .is_in_suite = true,
       .cases = edge_cases,
       .compared_with = ComparedWith::first_case,
       .finish = add_edge_texts,
       .conclude = differences,
       .share = [](const SharedOptions& shared, Options& options) {
         options.new_tokens = shared.axis_new_tokens();
       }});
}

ExperimentResult probe_edge_prompts(const ExperimentContext& context, const EdgeOptions& options) {
  return edge_prompts_study().run(context, options);
}

}  // namespace assay
