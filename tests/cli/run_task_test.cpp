// assay run --task: a column of accuracy beside speed and memory, of a task of the user's own and of the one
// that ships.
#include <map>

#include <nlohmann/json.hpp>

#include "support/fixtures.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

class CliRunTask : public testing::Test {
 protected:
  ProgramResult run(const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"run", model, "-p", "the", "-n", "3", "--processes", "1", "-r", "1", "--precision",
                 "float32,nf4", "--skip",
                 "noise,lengths,ablation,batches,batched-precisions,perplexity,divergence,edge", "-o", out_});
    return run_program(more);
  }
  // By label, of the trade-off; null where it has none.
  std::map<std::string, Json> accuracies() const {
    std::map<std::string, Json> all;
    const Json json = Json::parse(read_file(out_ + "/results.json"));
    for (const Json& row : json["rows"])
      if (row["scenario"] == "trade-off")
        all[row["label"]] = row["values"].contains("accuracy") ? row["values"]["accuracy"]["value"] : Json();
    return all;
  }

  TemporaryFolder folder_;
  const std::string out_ = folder_ / "out";
};

TEST_F(CliRunTask, HasAColumnOfTheUsersTask) {
  const std::string model = fixture("quality/gpt2").string(),
                    items = fixture("quality/choices.jsonl").string();
  const ProgramResult result = run(model, {"--task", items});
  expect_success(result);
  EXPECT_NE(result.out.find("Accuracy (%)"), std::string::npos) << result.out;
  const auto found = accuracies();
  const Json expected = Json::parse(read_file(fixture("quality/expected.json").string()));
  EXPECT_NEAR(found.at("float32").get<double>(), expected["gpt2"]["lm-eval"]["choices"]["acc"].get<double>(),
              1e-9)
      << "lm-eval's";
  EXPECT_TRUE(found.at("nf4").is_number());
  expect_failure(run(model, {"--task", folder_ / "absent.jsonl"}), 1, {"absent.jsonl"});
  // A model of the user's own scores no task unasked.
  expect_success(run(model, {}));
  EXPECT_TRUE(accuracies().at("float32").is_null());
}

TEST_F(CliRunTask, HasAColumnOfTheTaskThatShips) {
  expect_success(run("demo", {}));
  const auto found = accuracies();
  EXPECT_GT(found.at("float32"), 0.4);
  EXPECT_GT(found.at("nf4"), 0.4);
}

// An accuracy of a few items has its interval beside it, at 0 too, and a warning.
TEST_F(CliRunTask, AFewItemsSayLittle) {
  const std::string model = fixture("quality/gpt2").string();
  const auto score = [&](int items) {
    std::string text;
    for (int i = 0; i < items; ++i)
      text += R"({"prompt": "a", "choices": ["b", "b c d e"], "answer": 1})"
              "\n";
    write_file(folder_ / "items.jsonl", text);
    const ProgramResult result =
        run_program({"task", model, folder_ / "items.jsonl", "--precision", "float32", "-o", out_});
    expect_success(result);
    return result.out;
  };
  const std::string few = score(3);
  EXPECT_NE(few.find("95 % CI"), std::string::npos) << few;
  EXPECT_NE(few.find("0.0 to 56.1"), std::string::npos) << few;  // Wilson's of 0 of 3
  EXPECT_NE(few.find("0 of 3 items right"), std::string::npos) << few;
  const Json warnings = Json::parse(read_file(out_ + "/results.json"))["rows"][0]["warnings"];
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0]["kind"], "few_items");
  EXPECT_EQ(score(100).find("100 items right"), std::string::npos);
}

}  // namespace
}  // namespace assay::test
