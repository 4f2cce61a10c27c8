// A word that names a model beside the first, and may have been meant as a precision.
#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

TEST(CliOtherModel, IsNeitherAModelNorAPrecision) {
  // Both readings are named.
  expect_failure(run_program({"diverge", "demo", "nf9"}), 2,
                 {"CANDIDATE", "'nf9'", "the nearest is nf4", "nf9: no such folder", "Hugging Face cache"});
  expect_failure(run_program({"diverge", "demo", "nf4+hed"}), 2,
                 {"CANDIDATE", "'nf4+hed'", "no such folder"});
  expect_failure(run_program({"diverge", "demo", "nf9, absent"}), 2,
                 {"nf9: no such folder", "absent: no such folder"});
  // A path can be no precision: the list of them would hide what is wrong.
  const ProgramResult path = run_program({"diverge", "demo", "/absent/model"});
  expect_failure(path, 2, {"no precision and no model", "/absent/model: no such folder"});
  EXPECT_EQ(path.err.find("float32"), std::string::npos) << path.err;
  // What exists and is no model, or is a recipe, is not wrong usage of the word.
  expect_failure(run_program({"diverge", "demo", kText}), 1, {kText});
}

TEST(CliOtherModel, IsAModelBehindWith) {
  const TemporaryFolder empty;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"tradeoff", kModel}, {"bench", kModel}, {"perplexity", kModel, kText}}) {
    const auto with = [&](const std::string& word) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--with", word});
      return run_program(words);
    };
    SCOPED_TRACE(command.front());
    expect_failure(with("nf9"), 2, {"--with", "nf9: no such folder", "the nearest is nf4", "--precision"});
    expect_failure(with("nf4"), 2, {"--with", "'nf4', a precision", "--precision"});
  }
}

}  // namespace
}  // namespace assay::test
