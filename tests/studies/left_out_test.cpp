// What is left out names its command, and predicts all that the command measures.
#include "assay/studies/left_out.h"

#include <gtest/gtest.h>

#include "assay/base/format.h"

namespace assay {
namespace {

CostedStudy study_of(const std::string& name, double once_s) {
  CostedStudy study{.name = name};
  study.is_sweep = false;
  for (const char* value : {"a", "b"})
    study.cases.push_back({.key = name + ", " + value, .label = value, .value = value, .once_s = once_s});
  return study;
}

std::vector<LeftOut> left_out_with(const std::vector<CostedStudy>& studies, const char* left_out) {
  Choice choice;
  choice.before_s = 7;
  for (const CostedStudy& study : studies) choice.studies.push_back({.name = study.name});
  choice.studies.back().left_out = {left_out};
  return left_out_of(studies, choice, [](const std::string& study, const std::vector<std::string>& values) {
    return fmt::format("{} {}", study, fmt::join(values, ","));
  });
}

TEST(LeftOutOfAChoice, PredictsItsCommand) {
  const std::vector<LeftOut> alone = left_out_with({study_of("lengths", 10)}, "lengths, b");
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].what, "b");
  EXPECT_EQ(alone[0].command, "lengths a,b");
  EXPECT_DOUBLE_EQ(alone[0].predicted_s, 7 + 20);
}

// `assay run --skip` leaves out every study but the baseline's and its own.
TEST(LeftOutOfAChoice, CountsStudiesThatNoRunIsWithout) {
  const std::vector<CostedStudy> all{study_of("baseline", 100), study_of("batches", 1000),
                                     study_of("lengths", 10)};
  const std::vector<LeftOut> left_out = left_out_with(all, "lengths, b");
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_DOUBLE_EQ(left_out[0].predicted_s, 7 + 20 + 200);
  const std::vector<LeftOut> of_baseline = left_out_with({all[2], all[0]}, "baseline, b");
  ASSERT_EQ(of_baseline.size(), 1U);
  EXPECT_DOUBLE_EQ(of_baseline[0].predicted_s, 7 + 200);
}

// Two cases of a value, as with the cache and without, are one value of the flag.
TEST(LeftOutOfAChoice, NamesEachValueOnce) {
  CostedStudy study = study_of("lengths", 10);
  CostedCase twin = study.cases.back();
  twin.key = "lengths, b without";
  study.cases.push_back(twin);
  const std::vector<LeftOut> left_out = left_out_with({study}, "lengths, b");
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out[0].command, "lengths a,b");
}

TEST(LeftOutOfAChoice, NamesWhatTheOthersHaveLessOf) {
  Choice choice;
  choice.studies.push_back({.name = "lengths"});
  const auto less = [&]() -> std::string {
    const std::vector<LeftOut> all =
        left_out_of({study_of("lengths", 10)}, choice, [](const auto&, const auto&) { return ""; });
    return all.size() == 1 ? all.front().what : "";
  };
  ChosenStudy& chosen = choice.studies.front();
  chosen.processes = 3;
  EXPECT_EQ(less(), "processes beyond the first 3");
  chosen.processes = 1;
  chosen.repeats = 1;
  EXPECT_EQ(less(),
            "processes beyond the first (a verdict takes 3) and runs beyond the first in each process");
  chosen.processes = 2;
  chosen.repeats = 2;
  chosen.most_tokens = 16;
  chosen.once = {"lengths, a", "lengths, b"};
  EXPECT_EQ(less(),
            "processes beyond the first 2 (a verdict takes 3), runs beyond the first 2 in each process, new "
            "tokens beyond the first 16 and further runs of 'a' and 'b'");
}

}  // namespace
}  // namespace assay
