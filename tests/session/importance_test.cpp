// What a text says of the inputs of matrices: against the program that runs them all at once; and the GGUF
// files that are written with it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/checkpoint/gguf_file.h"
#include "assay/generate/steps.h"
#include "assay/model/model.h"
#include "assay/quantize/write_gguf.h"
#include "assay/session/text_through_model.h"
#include "support/fixtures.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

TEST(ImportanceOfInputs, IsTheMeanSquareOfEachColumn) {
  for (const char* name : {"base", "llama_grouped"}) {
    SCOPED_TRACE(name);
    const auto source = open_source(test::model_fixture(name));
    const auto backend = test::cpu_backend(best_usable_isa(), 1);
    const Model model = Model::load(source, backend, precision_from_name("float32"));
    std::vector<TokenId> ids;
    for (int i = 0; i < 40; ++i) ids.push_back((7 * i + 3) % 60);
    Importance wanted;
    Program& program = model.program();
    program.observe_inputs([&](const ObservedInput& in) {
      for (const TensorPart& part : tensors_of(program.plan().weight(in.weight))) {
        std::vector<float>& columns = wanted[part.spec.name];
        columns.resize(static_cast<std::size_t>(in.columns));
        for (std::int64_t row = 0; row < in.rows; ++row)
          for (std::int64_t k = 0; k < in.columns; ++k) {
            const float x = in.x[row * in.stride + k];
            columns[static_cast<std::size_t>(k)] += x * x / static_cast<float>(ids.size());
          }
      }
    });
    const auto cache = program.make_cache();
    const StepItem item{cache->add_sequence(), ids};
    run_in_steps(program, *cache, std::span(&item, 1), [](std::span<const StepPart>) {});
    program.observe_inputs({});

    const Importance found = measure_importance(*source, *backend, ids);
    ASSERT_GE(found.size(), 8U);
    for (const auto& [weight, columns] : found) {
      ASSERT_TRUE(wanted.contains(weight)) << weight;
      ASSERT_EQ(columns.size(), wanted[weight].size()) << weight;
      for (std::size_t k = 0; k < columns.size(); ++k)
        EXPECT_NEAR(columns[k], wanted[weight][k], 1e-4 * (1e-3 + wanted[weight][k])) << weight << ' ' << k;
    }
  }
}

TEST(ImportanceOfInputs, RefusesIdsOutsideTheVocabulary) {
  const auto source = open_source(test::model_fixture("base"));
  const auto backend = test::cpu_backend(best_usable_isa(), 1);
  for (const TokenId id : {-1, 101}) {
    const std::vector<TokenId> ids = {3, id, 5};
    std::string said = "no error";
    try {
      measure_importance(*source, *backend, ids);
    } catch (const Error& error) {
      said = error.what();
    }
    EXPECT_NE(said.find(fmt::format("token id {} is outside the model's vocabulary of 101", id)),
              std::string::npos)
        << said;
  }
}

// Less of what the text makes of the weights is lost, and the file says what it was written with.
TEST(ImportanceOfInputs, MakesAFileOfLowerPerplexity) {
  const test::TemporaryFolder folder;
  const std::string demo = test::demo_model().string(),
                    text = (test::demo_model() / "texts/calibrate.txt").string();
  const auto perplexity = [&](const std::filesystem::path& file) {
    const test::ProgramResult result = test::run_program(
        {"perplexity", file, (test::demo_model() / "texts/evaluate.txt").string(), "--json"});
    test::expect_success(result);
    return nlohmann::json::parse(result.out)["perplexity"].get<double>();
  };
  for (const char* mix : {"Q4_0", "Q4_K_S"}) {
    const std::filesystem::path with = folder.path() / (std::string(mix) + ".with.gguf"),
                                without = folder.path() / (std::string(mix) + ".gguf");
    GgufOptions options{.mix = GgufMix::named(mix).value(), .threads = 2};
    write_gguf(demo, without, options);
    options.importance = text;
    const QuantizeReport report = write_gguf(demo, with, options);
    EXPECT_EQ(report.calibration_sha256.size(), 64U);
    EXPECT_LT(perplexity(with), perplexity(without)) << mix;
    const GgufFile file(with);
    EXPECT_EQ(file.text("quantize.imatrix.file"), "calibrate.txt");
    EXPECT_EQ(file.text("quantize.imatrix.dataset"), "calibrate.txt");
    EXPECT_EQ(file.integer("quantize.imatrix.entries_count"), 16);  // four matrices of four layers
    EXPECT_EQ(file.integer("quantize.imatrix.chunks_count"), 4);    // the last one is no whole window
    EXPECT_EQ(GgufFile(without).value("quantize.imatrix.file"), nullptr);
  }
}

TEST(ImportanceOfInputs, IsRefusedWhereItChangesNothing) {
  const test::TemporaryFolder folder;
  const std::string text = (test::demo_model() / "texts/calibrate.txt").string(), demo = test::demo_model();
  test::expect_failure(
      test::run_program({"quantize", demo, folder / "m", "--precision", "nf4", "--importance", text}), 2,
      {"--importance: a folder takes no importance matrix"});
  test::write_file(folder.path() / "short.txt", "one");
  test::expect_failure(test::run_program({"quantize", demo, folder / "m.gguf", "--recipe", "Q4_0",
                                          "--importance", folder / "short.txt"}),
                       1, {"short.txt", "expected at least 32 tokens"});
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "m.gguf"));
}

}  // namespace
}  // namespace assay
