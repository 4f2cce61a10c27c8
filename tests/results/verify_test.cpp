// Whether results are reproduced: equal, unequal in one id, byte or digit, computed by other kernels, and at
// another speed.
#include "assay/results/verify.h"

#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"

namespace assay {
namespace {

// Five processes of two rounds each; `seed` shifts what is noise.
ResultSet verified_run(double latency_s = 1, double seed = 0) {
  ResultSet results;
  results.model.sha256 = "abc";
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = "nf4";
  row.parameters = {{"configuration", "nf4"}, {"kernels", "avx2"}, {"device", "cpu"}};
  row.set("memory_bytes", 1000);
  row.set("working_memory_bytes", 1500);
  std::vector<double> samples;
  for (int process = 0; process < 5; ++process)
    for (int round = 0; round < 2; ++round) {
      row.places.push_back({process, round});
      samples.push_back(latency_s * (1 + 0.01 * std::sin(2.3 * process + seed)));
    }
  row.set("total_latency_s", value_of_processes(samples, row.places));
  results.rows.push_back(row);
  Row text;
  text.scenario = Scenario::perplexity;
  text.label = "nf4";
  text.parameters = row.parameters;
  text.set("perplexity", 12.25);
  results.rows.push_back(text);
  GeneratedText generated{"nf4, prompt 1", "Once", " upon a time", {7}, {1, 2, 3}, Scenario::tradeoff, "nf4"};
  results.texts.push_back(generated);
  return results;
}

const VerifiedFigure& figure_of(const Verification& found, std::size_t row, const std::string& metric) {
  for (const VerifiedFigure& figure : found.rows.at(row).figures)
    if (figure.metric == metric) return figure;
  throw Error("no figure {}", metric);
}

TEST(Verify, ReproducesARunThatIsRepeated) {
  const Verification found = verify(verified_run(), verified_run(1.01, 1));
  EXPECT_EQ(found.outcome(), Outcome::reproduced);
  EXPECT_EQ(figure_of(found, 0, "ids").outcome, Outcome::reproduced);
  EXPECT_EQ(figure_of(found, 0, "total_latency_s").outcome, Outcome::reproduced);
  EXPECT_EQ(figure_of(found, 1, "perplexity").outcome, Outcome::reproduced);
  // Drift may hide as much of a change as it explains.
  EXPECT_GT(found.detectable_difference, (1 + kDrift) * (1 + kDrift) - 1);
  EXPECT_LT(found.detectable_difference, 0.3);
}

TEST(Verify, FindsALatencyThatIsNotOfItsSamples) {
  ResultSet theirs = verified_run();
  Value value = *theirs.rows[0].find("total_latency_s");
  value.value *= 1.02;  // within what hours explain
  theirs.rows[0].set("total_latency_s", value);
  const Verification found = verify(theirs, verified_run(1.01, 1));
  EXPECT_EQ(found.outcome(), Outcome::differs);
  EXPECT_EQ(figure_of(found, 0, "total_latency_s").reason,
            "the latency is not what the samples beside it give");
}

TEST(Verify, FindsOneWrongIdByteOrDigitAlways) {
  ResultSet ours = verified_run();
  ours.texts[0].ids[2] = 4;
  Verification found = verify(verified_run(), ours);
  EXPECT_EQ(found.outcome(), Outcome::differs);
  EXPECT_EQ(figure_of(found, 0, "ids").reason, "new token 3 of the prompt 'Once' is the first that differs");
  ours = verified_run();
  ours.texts[0].ids.push_back(9);
  EXPECT_EQ(verify(verified_run(), ours).outcome(), Outcome::differs);
  ours = verified_run();
  ours.rows[0].set("memory_bytes", 1001);
  EXPECT_EQ(verify(verified_run(), ours).rows[0].outcome(), Outcome::differs);
  ours = verified_run();
  ours.rows[1].set("perplexity", std::nextafter(12.25, 13));
  found = verify(verified_run(), ours);
  EXPECT_EQ(found.rows[1].outcome(), Outcome::differs);
  EXPECT_EQ(found.rows[0].outcome(), Outcome::reproduced);
}

TEST(Verify, CannotTellWhatOtherKernelsRoundDifferently) {
  ResultSet ours = verified_run();
  for (Row& row : ours.rows) row.parameters[1].second = "avx512";
  ours.texts[0].ids[2] = 4;
  ours.rows[1].set("perplexity", 12.2500001);
  Verification found = verify(verified_run(), ours);
  EXPECT_EQ(found.outcome(), Outcome::cannot_tell);
  EXPECT_EQ(figure_of(found, 1, "perplexity").reason,
            "kernels 'avx2' there and 'avx512' here round differently");
  ours.rows[0].set("memory_bytes", 999);  // no kernel changes what a file's weights take
  EXPECT_EQ(verify(verified_run(), ours).outcome(), Outcome::differs);
}

TEST(Verify, TellsASlowerProgramFromADrift) {
  EXPECT_EQ(verify(verified_run(), verified_run(1.3)).rows[0].outcome(), Outcome::differs);
  EXPECT_EQ(verify(verified_run(), verified_run(0.7)).rows[0].outcome(), Outcome::differs);
  EXPECT_EQ(verify(verified_run(), verified_run(1.05)).rows[0].outcome(), Outcome::reproduced);
  EXPECT_EQ(verify(verified_run(), verified_run(1.05), 0.01).rows[0].outcome(), Outcome::differs);
  // Beyond the drift, and within what it is taken twice.
  EXPECT_EQ(verify(verified_run(), verified_run(1.16), 0.1).rows[0].outcome(), Outcome::differs);
  EXPECT_EQ(verify(verified_run(1.16), verified_run(), 0.1).rows[0].outcome(), Outcome::differs);
}

TEST(Verify, TakesTheMachinesOwnSpeedForWhatItIs) {
  const auto with_roofline = [](ResultSet results, double gb_s) {
    Row& row = results.rows[0];
    const std::vector<double> samples(row.places.size(), gb_s);
    for (const char* tag : {"roofline_gb_s", "roofline_gflops"})
      row.set(tag, value_of_processes(samples, row.places));
    return results;
  };
  const Verification found =
      verify(with_roofline(verified_run(1), 20), with_roofline(verified_run(2, 1), 10));
  const VerifiedFigure& figure = figure_of(found, 0, "total_latency_s");
  EXPECT_EQ(figure.outcome, Outcome::reproduced);
  EXPECT_NE(figure.reason.find("rooflines of the two machines explain"), std::string::npos) << figure.reason;
  EXPECT_EQ(
      verify(with_roofline(verified_run(1), 20), with_roofline(verified_run(2, 1), 20)).rows[0].outcome(),
      Outcome::differs);
}

TEST(Verify, SaysNothingOfASpeedThatItsProcessesDoNotTell) {
  ResultSet noisy = verified_run();
  std::vector<double> samples;
  for (std::size_t i = 0; i < noisy.rows[0].places.size(); ++i)
    samples.push_back(std::exp(0.8 * std::sin(2.3 * noisy.rows[0].places[i].process)));
  noisy.rows[0].set("total_latency_s", value_of_processes(samples, noisy.rows[0].places));
  const Verification found = verify(verified_run(), noisy);
  EXPECT_EQ(figure_of(found, 0, "total_latency_s").outcome, Outcome::cannot_tell);
  EXPECT_NE(figure_of(found, 0, "total_latency_s").reason.find("more processes"), std::string::npos);
}

TEST(Verify, SaysWhyARowCannotBeTold) {
  ResultSet ours = verified_run();
  ours.rows.pop_back();
  Verification found = verify(verified_run(), ours);
  EXPECT_EQ(found.rows[1].outcome(), Outcome::cannot_tell);
  EXPECT_EQ(found.rows[1].reason, "it was not measured here");
  ours = verified_run();
  ours.rows[0].status = RowStatus::error;
  ours.rows[0].reason = "out of memory";
  found = verify(verified_run(), ours);
  EXPECT_EQ(found.rows[0].reason, "it failed here: out of memory");
  EXPECT_EQ(found.outcome(), Outcome::cannot_tell);
  ours = verified_run();
  ours.model.sha256 = "other";
  EXPECT_THROW(verify(verified_run(), ours), Error);
}

}  // namespace
}  // namespace assay
