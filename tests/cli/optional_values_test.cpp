// Flags whose value may be left out: with a blank before it, with "=", and without one.
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using OptionalJson = nlohmann::json;

TEST(CliOptionalValues, SampleTakesANumberBehindIt) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--sample", "20"}, {"--sample=20"}}) {
    std::vector<std::string> perplexity{"perplexity", kModel, "--json"}, diverge{"diverge", kModel};
    perplexity.insert(perplexity.end(), words.begin(), words.end());
    const ProgramResult scored = run_program(perplexity);
    expect_success(scored);
    EXPECT_EQ(OptionalJson::parse(scored.out)["protocol"].get<std::string>().find("500"), std::string::npos);
    // In front of a candidate too, which it does not take for its value.
    diverge.insert(diverge.end(), words.begin(), words.end());
    diverge.insert(diverge.end(), {"nf4", "--no-noise-floor", "--json"});
    const ProgramResult compared = run_program(diverge);
    expect_success(compared);
    EXPECT_EQ(OptionalJson::parse(compared.out)["candidates"].size(), 1U) << compared.out.substr(0, 400);
  }
  expect_failure(run_program({"diverge", kModel, "nf4", "--sample", "1"}), 2, {"--sample", "found '1'"});
  expect_failure(run_program({"perplexity", kModel, "--sample", "2.5"}), 2, {"--sample", "found '2.5'"});
  // Behind "--" a number is a name.
  expect_failure(run_program({"diverge", kModel, "--", "20"}), 2, {"20: no such folder"});
}

// A file behind the flag is the text, and the flag means its usual value.
TEST(CliOptionalValues, SmoothQuantLeavesTheTextAlone) {
  const std::vector<std::string> all{"perplexity", kModel, "--precision", "int8-dynamic", "--json"};
  const auto loss = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = all;
    command.insert(command.end(), more.begin(), more.end());
    const ProgramResult result = run_program(command);
    expect_success(result);
    return OptionalJson::parse(result.out)["loss"].get<double>();
  };
  EXPECT_EQ(loss({"--smooth-quant", kText}), loss({kText, "--smooth-quant", "0.5"}));
}

}  // namespace
}  // namespace assay::test
