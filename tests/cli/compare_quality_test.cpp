// assay compare --fail-on with limits of quality: exit codes, the table and JSON.
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

TEST(CliCompareQuality, HoldsLimits) {
  const TemporaryFolder folder;
  const std::string a = folder / "a/results.json", b = folder / "quality.json";
  expect_success(run_program({"sweep", "lengths", kModel, "--lengths", "4", "-n", "2", "--processes", "1",
                              "-r", "1", "-o", folder / "a"}));
  const Json sound = Json::parse(read_file(a));
  Json json = sound, row = sound["rows"][0];
  row["scenario"] = "divergence";
  row["label"] = "nf4";
  const auto value = [](double figure, const Json& interval, const char* unit) {
    return Json{
        {"value", figure}, {"unit", unit}, {"n", 1}, {"interval", interval}, {"samples", Json::array()}};
  };
  row["values"] = {{"kl_mean", value(0.05, {{"low", 0.04}, {"high", 0.06}, {"level", 0.95}}, "nats/token")},
                   {"tokens_scored", value(3000, nullptr, "tokens")}};
  for (const char* key : {"places", "step_s"}) row.erase(key);
  json["rows"].push_back(row);
  write_file(b, json.dump());
  const ProgramResult kept = run_program({"compare", a, b, "--fail-on", "kl:0.07", "--json"});
  expect_success(kept);
  const Json quality = Json::parse(kept.out)["quality"];
  ASSERT_EQ(quality.size(), 1U);
  EXPECT_EQ(quality[0]["metric"], "kl_mean");
  EXPECT_EQ(quality[0]["b"], 0.05);
  EXPECT_EQ(quality[0]["high"], 0.06);
  EXPECT_EQ(quality[0]["a"], nullptr);
  const ProgramResult broken = run_program({"compare", a, b, "--fail-on", "kl:0.02"});
  EXPECT_EQ(broken.exit_code, 4) << broken.err;
  EXPECT_NE(broken.out.find("B [0.04, 0.06]"), std::string::npos) << broken.out;
  const ProgramResult undecided = run_program({"compare", a, b, "--fail-on", "kl:0.05"});
  EXPECT_EQ(undecided.exit_code, 1);
  EXPECT_NE(undecided.err.find("'kl:0.05' is undecided"), std::string::npos) << undecided.err;
  const ProgramResult both = run_program({"compare", a, b, "--fail-on", "kl:0.05,kl:0.02"});
  EXPECT_EQ(both.exit_code, 4) << "what is undecided hides nothing: " << both.err;
  expect_failure(run_program({"compare", a, b, "--fail-on", "kl:x"}), 2, {"--fail-on", "'kl:x'"});
  expect_failure(run_program({"compare", a, b, "--fail-on", ""}), 2, {"--fail-on", "found an empty text"});
}

}  // namespace
}  // namespace assay::test
