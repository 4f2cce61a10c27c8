// What fits a budget, on invented costs.
#include "assay/harness/budget.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "assay/harness/sweep.h"
#include "assay/results/choice_json.h"

namespace assay {
namespace {

CostedCase costed_case(const std::string& key, Need need, double run_s = 1, double load_s = 1) {
  return {.key = key,
          .label = key,
          .configuration = "float32",
          .need = need,
          .load_s = load_s,
          .decode_s = run_s,
          .new_tokens = 50};
}

// Three studies, each of two cases; the second one of the trade-off is for few readers.
std::vector<CostedStudy> three_studies() {
  CostedStudy baseline{.name = "baseline", .cases = {costed_case("prompt", Need::baseline)}};
  CostedStudy tradeoff{.name = "trade-off",
                       .cases = {costed_case("float32", Need::tradeoff), costed_case("fp4", Need::tradeoff)}};
  tradeoff.cases[1].configuration = "fp4";
  tradeoff.cases[1].is_essential = false;
  CostedStudy lengths{.name = "lengths",
                      .cases = {costed_case("32 tokens", Need::lengths),
                                costed_case("8000 tokens", Need::long_prompts, 100)}};
  lengths.cases[1].is_long = true;
  return {baseline, tradeoff, lengths};
}

const ChosenStudy& of(const Choice& choice, const std::string& name) {
  return *choice.find(name);
}

TEST(Budget, OfPlentyLeavesNothingOutButRepeatsOfLongPrompts) {
  const Choice choice = choose(three_studies(), 1e6);
  EXPECT_TRUE(of(choice, "baseline").is_whole());
  EXPECT_TRUE(of(choice, "trade-off").is_whole());
  EXPECT_TRUE(of(choice, "lengths").left_out.empty());
  EXPECT_EQ(of(choice, "lengths").once, (std::set<std::string>{"8000 tokens"}));
  EXPECT_FALSE(of(choice, "lengths").processes);
  EXPECT_LT(choice.predicted_s(), choice.whole_s());
}

TEST(Budget, WithoutLongPromptsIsWhole) {
  std::vector<CostedStudy> studies = three_studies();
  studies[2].cases.pop_back();
  const Choice choice = choose(studies, 1e6);
  EXPECT_TRUE(choice.is_whole());
  EXPECT_DOUBLE_EQ(choice.predicted_s(), choice.whole_s());
}

// Every budget: what is chosen fits, and a larger one never measures fewer cases.
TEST(Budget, IsKeptAndGrows) {
  std::size_t before = 100;
  for (double budget = 6; budget < 3000; budget *= 1.1) {
    const Choice choice = choose(three_studies(), budget, 1);
    EXPECT_LE(choice.predicted_s(), budget);
    std::size_t left_out = 0;
    for (const ChosenStudy& study : choice.studies) left_out += study.left_out.size();
    EXPECT_LE(left_out, before) << budget;
    before = left_out;
  }
  EXPECT_EQ(before, 0U);
}

TEST(Budget, OfNothingMeasuresTheFirstCaseAlone) {
  const Choice choice = choose(three_studies(), 0.001);
  EXPECT_TRUE(of(choice, "baseline").is_measured);
  EXPECT_FALSE(of(choice, "trade-off").is_measured);
  EXPECT_FALSE(of(choice, "lengths").is_measured);
  EXPECT_GT(choice.predicted_s(), choice.budget_s);
}

// The essential cases of all studies stand before the verdicts of the first.
TEST(Budget, FiguresComeBeforeVerdicts) {
  std::vector<CostedStudy> studies = three_studies();
  double least = 0;
  for (const CostedStudy& study : studies) {
    ChosenStudy one{.name = study.name, .processes = 1, .repeats = 1, .most_tokens = kFewTokens};
    for (std::size_t i = 1; i < study.cases.size(); ++i) one.left_out.insert(study.cases[i].key);
    least += predicted_study_s(study, one);
  }
  const Choice choice = choose(studies, least + 1e-6);
  for (const ChosenStudy& study : choice.studies) {
    EXPECT_TRUE(study.is_measured) << study.name;
    EXPECT_EQ(study.processes, 1) << study.name;
    EXPECT_EQ(study.most_tokens, kFewTokens) << study.name;
  }
  EXPECT_FALSE(choose(studies, least - 1e-6).studies.back().is_measured) << "lengths are needed least";
}

TEST(Budget, WhatFlagsFixIsKeptWhateverItTakes) {
  std::vector<CostedStudy> studies = three_studies();
  for (CostedStudy& study : studies) {
    study.sweep.processes = 7;
    study.sweep.repeats = 5;
    study.has_asked_tokens = true;
  }
  for (CostedCase& c : studies[2].cases) c.is_asked = true;
  const Choice choice = choose(studies, 1);
  const ChosenStudy& lengths = of(choice, "lengths");
  EXPECT_TRUE(lengths.is_whole()) << "a long prompt that was asked for is measured as often as any";
  EXPECT_DOUBLE_EQ(lengths.predicted_s, lengths.whole_s);
  EXPECT_FALSE(of(choice, "trade-off").is_measured);
}

// Seven visits of a load, two warm-ups and five runs; the first has one run more.
TEST(Budget, PredictsVisits) {
  CostedStudy study{.name = "baseline", .cases = {costed_case("prompt", Need::baseline, 1, 10)}};
  study.sweep.processes = 7;
  study.sweep.repeats = 5;
  EXPECT_NEAR(predicted_study_s(study, {.name = "baseline"}), 7 * (10 + 7 * 1.02) + 1.02, 1e-9);
  EXPECT_NEAR(predicted_study_s(study, {.name = "baseline", .most_tokens = 25}), 7 * (10 + 7 * 0.52) + 0.52,
              1e-9);
  study.once_s = 3;
  study.cases[0].once_s = 4;
  EXPECT_NEAR(predicted_study_s(study, {.name = "baseline"}), 7 * (10 + 7 * 1.02) + 1.02 + 7, 1e-9);
  EXPECT_EQ(predicted_study_s(study, {.name = "baseline", .left_out = {"prompt"}}), 0);
}

// The A/A run says nothing with fewer processes than a verdict takes.
// What is measured once is run in the first process alone: a first run and the timed one.
TEST(Budget, PredictsALongPromptOnce) {
  CostedStudy study{.name = "lengths", .cases = {costed_case("32 tokens", Need::lengths, 1, 10)}};
  study.sweep.processes = 7;
  study.sweep.repeats = 5;
  const double alone = predicted_study_s(study, {.name = "lengths"});
  study.cases.push_back(costed_case("8000 tokens", Need::long_prompts, 100, 10));
  EXPECT_NEAR(predicted_study_s(study, {.name = "lengths", .once = {"8000 tokens"}}), alone + 2 * 100.02,
              1e-9);
}

// Configurations that do not fit memory together are run in groups, and the first one again in each.
TEST(Budget, PredictsTheBaselineAgainWhereMemoryParts) {
  CostedStudy study{.name = "trade-off"};
  for (const char* name : {"float32", "fp4", "nf4"}) {
    study.cases.push_back(costed_case(name, Need::tradeoff, 1, 10));
    study.cases.back().configuration = name;
  }
  study.sweep.processes = 7;
  study.sweep.repeats = 5;
  const double together = predicted_study_s(study, {.name = "trade-off"});
  for (CostedCase& c : study.cases) c.memory_share = 0.4;
  EXPECT_NEAR(predicted_study_s(study, {.name = "trade-off"}), together + 7 * (10 + 7 * 1.02), 1e-9);
}

TEST(Budget, AStudyOfVerdictsHasThemOrNothing) {
  CostedStudy baseline{.name = "baseline", .cases = {costed_case("prompt", Need::baseline)}},
      noise{.name = "noise", .cases = {costed_case("again", Need::noise)}};
  noise.needs_verdict = true;
  for (double budget = 4; budget < 200; budget += 1) {
    const Choice choice = choose({baseline, noise}, budget);
    const ChosenStudy& chosen = of(choice, "noise");
    if (chosen.is_measured) {
      EXPECT_GE(chosen.processes.value_or(3), 3) << budget;
    }
  }
}

// What is compared with a case that is left out is left out with it.
TEST(Budget, NothingIsMeasuredWithoutItsBaseline) {
  std::vector<CostedStudy> studies = three_studies();
  studies[1].cases[0].decode_s = 1e4;
  const Choice choice = choose(studies, 600);
  EXPECT_FALSE(of(choice, "trade-off").is_measured);
  EXPECT_TRUE(of(choice, "lengths").is_measured) << "what comes after what does not fit is tried";
}

// As results.json and a journal keep it.
TEST(Budget, AChoiceIsReadBackAsItWasWritten) {
  const Choice choice = choose(three_studies(), 100, 2);
  EXPECT_FALSE(choice.is_whole());
  EXPECT_EQ(choice_from_json(to_json(choice)), choice);
}

TEST(Budget, GivesAResumedRunWhatIsLeftOfIt) {
  const TimePoint begin{std::chrono::hours(1)};
  const auto left_s = [&](const Choice& choice, double earlier_s) {
    return elapsed(begin, deadline_of(choice, begin, earlier_s)).value;
  };
  Choice choice;
  choice.budget_s = 100;
  EXPECT_NEAR(left_s(choice, 0), 115, 1e-6);
  EXPECT_NEAR(left_s(choice, 40), 75, 1e-6);
  EXPECT_NEAR(left_s(choice, 500), 0, 1e-6) << "nothing begins, and what was measured is reported";
  choice.studies = {{.name = "baseline", .predicted_s = 200}};  // a flag asks for it
  EXPECT_NEAR(left_s(choice, 40), 190, 1e-6);
}

}  // namespace
}  // namespace assay
