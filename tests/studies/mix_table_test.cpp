// Choices by a table of what parts cost, and exchanges of formats where its sums mislead; no model is loaded.
#include "assay/studies/mix_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace assay {
namespace {

// Items 0 and 1 lose far more together than the sum of both says.
TEST(MixTable, ExchangesWhatLosesMoreTogether) {
  MixTable table{.other = {0}};
  for (int i = 0; i < 4; ++i) table.options.push_back({{{10}, 0.1 + 0.01 * i}, {{20}, 0.01}});
  const FormatChoice start{0, 0, 1, 1};
  const auto tokens_of = [&](const FormatChoice& choice, double interaction) {
    std::vector<double> kl;
    for (int t = 0; t < 3000; ++t) {
      double token = table.sums_of(choice).kl + (choice[0] == 0 && choice[1] == 0 ? interaction : 0);
      token *= 1 + 0.3 * ((t * 37) % 11 - 5) / 5.0;
      kl.push_back(token);
    }
    return kl;
  };
  for (const double interaction : {0.5, 0.0}) {
    std::int64_t calls = 0;
    const ExchangedChoice found = exchange_pairs(table, {start, tokens_of(start, interaction)}, {.bytes = 60},
                                                 12, [&](const FormatChoice& other) {
                                                   ++calls;
                                                   EXPECT_LE(table.sums_of(other).bytes, 60);
                                                   return tokens_of(other, interaction);
                                                 });
    EXPECT_EQ(found.tried, calls);
    EXPECT_EQ(found.kept, interaction > 0 ? 1 : 0);
    EXPECT_EQ(found.choice == start, interaction == 0);
    EXPECT_EQ(found.kl, tokens_of(found.choice, interaction));
  }
  const ExchangedChoice refused = exchange_pairs(table, {start, tokens_of(start, 0.5)}, {.bytes = 60}, 3,
                                                 [](const FormatChoice&) { return std::vector<double>(); });
  EXPECT_EQ(refused.tried, 3);
  EXPECT_EQ(refused.choice, start);
}

TEST(MixTable, ExchangesKeepTheBounds) {
  MixTable table{.other = {100}};
  for (int i = 0; i < 4; ++i)
    table.options.push_back({{{10}, 0.1 * (i + 1), 0}, {{20}, 0.01 * (i + 1), 0.5}});
  const FormatChoice choice{0, 0, 1, 1};  // 160 bytes, a KL of 0.37, one second of steps
  EXPECT_DOUBLE_EQ(table.sums_of(choice).bytes, 160);
  EXPECT_NEAR(table.sums_of(choice).kl, 0.37, 1e-12);
  const auto all = exchanges_of(table, choice, {.bytes = 160, .step = 1}, 10);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all.front(), (FormatChoice{0, 1, 0, 1}));  // 0.27 more for 0.18 less
  for (const FormatChoice& each : all) EXPECT_LE(table.sums_of(each).bytes, 160);
  EXPECT_EQ(exchanges_of(table, choice, {.bytes = 160, .step = 1}, 1).size(), 1U);
  EXPECT_TRUE(exchanges_of(table, choice, {.bytes = 159}, 10).empty());
  EXPECT_TRUE(exchanges_of(table, choice, {.step = 0.9}, 10).empty());
}

TEST(MixChooser, TakesTheFasterOfFormatsWhereTimeIsShort) {
  MixTable table{.other = {0}, .base_step = 1.0};
  for (int i = 0; i < 3; ++i)  // narrow and slow; as narrow, lossier and fast; wide
    table.options.push_back({{{10}, 0.01, 0.3}, {{10}, 0.03 + 0.01 * i, -0.1}, {{40}, 0.001, 0}});
  MixChooser quick(table, 1.3);
  // 0.3 a slow one, -0.1 a fast one: two slow and one fast take 0.5, one slow and two fast 0.1.
  EXPECT_EQ(quick.least_kl(30), (FormatChoice{1, 1, 0}));
  EXPECT_EQ(quick.slack(), 0);
  EXPECT_NEAR(quick.fastest_step(30), 0.7, 1e-12);
  EXPECT_FALSE(MixChooser(table, 0.6).least_kl(30));
  EXPECT_EQ(MixChooser(table, 10).least_kl(30), (FormatChoice{0, 0, 0}));
  EXPECT_EQ(MixChooser(table, 1.0).least_bytes(0.04), (FormatChoice{1, 2, 2}));
}

// The best candidate of an item is none where its inputs are no whole number of the format's blocks.
TEST(MixChooser, TakesNothingThatIsNotOffered) {
  MixTable table{.other = {0}, .base_step = 1.0};
  for (int i = 0; i < 3; ++i) table.options.push_back({{{10}, 0, -0.5}, {{20}, 0.3, 0}, {{40}, 0.1, 0.1}});
  table.options[1][0] = {.bytes = {}, .is_offered = false};
  EXPECT_EQ(table.offered()[1], (FormatChoice{1, 2}));
  EXPECT_EQ(table.offered()[2], (FormatChoice{0, 1, 2}));
  EXPECT_FALSE(table.is_offered_to_all(0));
  EXPECT_TRUE(table.is_offered_to_all(1));
  for (const double max_step : {std::numeric_limits<double>::infinity(), 10.0}) {
    MixChooser chooser(table, max_step);
    EXPECT_EQ(chooser.least_kl(45), (FormatChoice{0, 1, 0}));
    EXPECT_EQ(chooser.least_kl(60), (FormatChoice{0, 2, 0}));
    EXPECT_EQ(chooser.least_bytes(0.3), (FormatChoice{0, 1, 0}));
    EXPECT_FALSE(chooser.least_kl(39));
    EXPECT_EQ(chooser.neighbours_of({0, 1, 0}).back(), (FormatChoice{0, 2, 0}));
  }
  EXPECT_NEAR(MixChooser(table, 10).fastest_step(1000), 0, 1e-12);
  for (const FormatChoice& each : exchanges_of(table, {1, 2, 1}, {}, 10)) EXPECT_NE(each[1], 0U);
}

}  // namespace
}  // namespace assay
