// assay inspect over all families: one table that fits a terminal, and the facts behind it.
#include <gtest/gtest.h>

#include "assay/model/model.h"
#include "support/family_models.h"
#include "support/fixtures.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

TEST(CliInspect, FitsATerminalForEveryFamily) {
  for (const char* name : kFamilyModels) {
    SCOPED_TRACE(name);
    const ProgramResult result = run_program({"inspect", model_fixture(name)});
    expect_success(result);
    const std::string table = result.out.substr(0, result.out.find("\nTensors"));
    const std::vector<std::string> lines = lines_of(table);
    ASSERT_GT(lines.size(), 20U);
    for (std::size_t i = 1; i < lines.size(); ++i) EXPECT_LE(lines[i].size(), 80U) << lines[i];
    EXPECT_EQ(table.find("not used"), std::string::npos);
  }
}

TEST(CliInspect, SaysWhatSetsAModelApart) {
  for (const auto& [name, line] :
       {std::pair{"gemma3_scaled", "window            13 in 2 of 3 layers\n"},
        {"gemma3_scaled", "norms             RMSNorm before each block and after it, of queries and keys\n"},
        {"gpt_neox_serial", "positions         rotary, 4 of 10 elements of a head\n"},
        {"smollm3_interval", "positions         rotary in 2 of 3 layers\n"},
        {"gptj_partial", "layers            2, attention and MLP in parallel\n"},
        {"bloom_four", "positions         ALiBi\n"},
        {"bloom_four", "norms             LayerNorm of embeddings, before each block\n"},
        {"opt_post_norm", "norms             LayerNorm after each block\n"},
        {"falcon_one_key", "key/value heads   1\n"}}) {
    const ProgramResult result = run_program({"inspect", model_fixture(name)});
    EXPECT_NE(result.out.find(line), std::string::npos) << line << result.out.substr(0, 1500);
  }
}

// What a loaded model reports, of as many threads as inspect counts on.
TEST(CliInspect, PredictsTheBytesThatLoadingTakes) {
  for (const char* name : {"base", "bf16", "llama_grouped"}) {
    const ProgramResult result = run_program({"inspect", model_fixture(name), "--json"});
    expect_success(result);
    const auto json = nlohmann::json::parse(result.out);
    for (const auto& row : json["memory"]) {
      const auto precision = row["precision"].get<std::string>();
      if (precision == "int8-static") continue;  // needs a text; tests/model/memory_test.cpp has it
      SCOPED_TRACE(name + (" " + precision));
      RunConfig config = run_config_from_text(precision);
      config.threads = json["threads"].get<int>();
      const LoadedModel loaded =
          load_model_and_tokenizer({model_fixture(name)}, config, {.needs_tokenizer = false});
      const MemoryReport memory = loaded.model->program().memory();
      EXPECT_EQ(row["weights_bytes"], memory.weights.value);
      EXPECT_EQ(row["packing_bytes"], memory.packing.value);
      EXPECT_EQ(row["resident_weights_bytes"], (memory.weights + memory.packing).value);
      EXPECT_EQ(row["workspace_bytes"], memory.workspace.value);
      EXPECT_EQ(row["kv_bytes_full_context"],
                loaded.model->program().cache_bytes(loaded.model->spec().context).value);
    }
  }
}

// Gates and norms of few tokens belong to the matrix multiplications behind them.
TEST(CliInspect, PredictsNoKernelForWhatAMultiplicationMakesItself) {
  const auto launches = [](const char* precision, const char* rows, const std::string& kind) {
    const ProgramResult result = run_program({"inspect", model_fixture("llama_grouped"), "--gpu", "h100",
                                              "--precision", precision, "--rows", rows, "--json"});
    expect_success(result);
    std::int64_t most = 0;
    const auto json = nlohmann::json::parse(result.out);
    for (const auto& kernel : json["gpu_step"]["kernels"])
      if (kernel["kind"] == kind) most = std::max(most, kernel["launches_each"].get<std::int64_t>());
    return most;
  };
  for (const char* kind : {"gate", "norm"}) {
    SCOPED_TRACE(kind);
    EXPECT_EQ(launches("bfloat16", "16", kind), 0);
    EXPECT_EQ(launches("bfloat16", "17", kind), 1);
    EXPECT_EQ(launches("nf4", "4", kind), 0);
    EXPECT_EQ(launches("nf4", "5", kind), 1);
    EXPECT_EQ(launches("int8-dynamic", "1", kind), 1);
  }
  EXPECT_EQ(launches("bfloat16", "4", "matmul"), 3);  // the LM head, its inputs in order, and its norm
  EXPECT_EQ(launches("float32", "4", "matmul"), 2);
}

}  // namespace
}  // namespace assay::test
