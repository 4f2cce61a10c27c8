// --lm-head-search int8: the same tokens from fewer bytes, on a model that was trained.
#include <nlohmann/json.hpp>

#include "support/program.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

Json generation_json(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  arguments.emplace_back("--json");
  const ProgramResult result = run_program(arguments);
  expect_success(result);
  return Json::parse(result.out);
}

TEST(CliLmHeadSearch, GivesTheSameTokens) {
  for (const Arguments& precision :
       {Arguments{"float32"}, {"bfloat16"}, {"nf4", "--dtype", "bfloat16"}, {"int8-dynamic"}}) {
    Arguments generate{"generate", "demo", "-p", "The old house", "-n", "120", "--precision"};
    generate.insert(generate.end(), precision.begin(), precision.end());
    const Json plain = generation_json(generate, {}),
               searched = generation_json(generate, {"--lm-head-search", "int8"});
    EXPECT_EQ(searched["ids"], plain["ids"]) << precision[0];
    EXPECT_EQ(searched["dtype"], plain["dtype"].get<std::string>() + ", lm_head search int8");
    EXPECT_FALSE(plain.contains("head_computed_share"));
    EXPECT_GT(searched["head_computed_share"].get<double>(), 0) << precision[0];
    EXPECT_LT(searched["head_computed_share"].get<double>(), 0.2) << precision[0];
  }
}

// Drawing needs every logit, and so does scoring: the candidate search has no part in them.
TEST(CliLmHeadSearch, LeavesDrawingAndScoringAlone) {
  const Arguments draw{"generate", "demo",          "-p",  "The old house", "-n",
                       "20",       "--temperature", "0.8", "--seed",        "3"};
  const Json searched = generation_json(draw, {"--lm-head-search", "int8"});
  EXPECT_EQ(searched["ids"], generation_json(draw, {})["ids"]);
  EXPECT_EQ(searched["head_computed_share"], 0);
  const Arguments score{"logits", "demo", "--ids", "5,6,7"};
  EXPECT_EQ(generation_json(score, {"--lm-head-search", "int8"})["rows"], generation_json(score, {})["rows"]);
}

TEST(CliLmHeadSearch, RowsSayIt) {
  const Arguments bench{"bench", "demo", "-p", "0", "-n", "2", "-r", "1", "--precision", "float32,nf4"};
  const Json plain = generation_json(bench, {}),
             searched = generation_json(bench, {"--lm-head-search", "int8"});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(searched["rows"][i]["precision"],
              plain["rows"][i]["precision"].get<std::string>() + ", lm_head search int8");
    // 4,096 outputs of 256 inputs: a byte each and 16 per output, instead of four each.
    EXPECT_DOUBLE_EQ(plain["rows"][i]["bytes_per_token"].get<double>() -
                         searched["rows"][i]["bytes_per_token"].get<double>(),
                     4096.0 * (256 * 3 - 16));
  }
}

TEST(CliLmHeadSearch, GoesWithAHeadOfFloats) {
  expect_failure(run_program({"generate", "demo", "-p", "hi", "--precision", "nf4", "--quantize-head", "int8",
                              "--lm-head-search", "int8"}),
                 2, {"--lm-head-search", "float32 or bfloat16", "int8"});
}

}  // namespace
}  // namespace assay::test
