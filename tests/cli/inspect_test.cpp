// assay inspect over all families: one table that fits a terminal, and the facts behind it.
#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/session/fitting_context.h"
#include "assay/session/load_parts.h"
#include "support/family_models.h"
#include "support/fixtures.h"
#include "support/gguf_copy.h"
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

// As many tokens as fit, and one more does not.
TEST(CliInspect, SaysHowManyTokensFit) {
  const auto source = open_source(locate_model(model_fixture("llama_grouped")));
  const Plan plan = plan_forward(spec_from_source(*source), precision_of(Preset::float32));
  const auto backend = cpu_backend(best_usable_isa(), 1);
  const auto needed = [&](std::int64_t tokens) {
    const PredictedMemory memory = backend->predict(plan, tokens);
    return memory.program.weights + memory.program.packing + memory.program.workspace + memory.kv_cache;
  };
  const std::int64_t block = 64;  // positions of a block of the KV cache
  ASSERT_GT(plan.context, block);
  const Bytes all = needed(plan.context), one_block = needed(block);
  ASSERT_LT(one_block, all);
  EXPECT_EQ(fitting_context(*backend, plan, all).tokens, plan.context);
  EXPECT_EQ(fitting_context(*backend, plan, all).needed, all);
  EXPECT_EQ(fitting_context(*backend, plan, {1000 * all.value}).tokens, plan.context);
  EXPECT_LT(fitting_context(*backend, plan, {all.value - 1}).tokens, plan.context);
  EXPECT_EQ(fitting_context(*backend, plan, one_block).tokens, block);
  const FittingContext none = fitting_context(*backend, plan, {one_block.value - 1});
  EXPECT_EQ(none.tokens, 0);
  EXPECT_LT(none.needed, one_block);

  const ProgramResult result = run_program({"inspect", model_fixture("llama_grouped")});
  expect_success(result);
  const std::string limit = fmt::format("fits up to {0} tokens (the model's limit is {0})", plan.context);
  for (const char* format : {"float32 ", "bfloat16 ", "int8-dynamic ", "nf4 "}) {
    const std::size_t line = result.out.find(format, result.out.find("What fits"));
    ASSERT_NE(line, std::string::npos) << format;
    EXPECT_EQ(result.out.compare(result.out.find("fits up to", line), limit.size(), limit), 0) << format;
  }
}

TEST(CliInspect, ShowsTheTypesOfEachKindOfTensor) {
  const auto types_of = [](const std::string& model) {
    const ProgramResult result = run_program({"inspect", model, "--json"});
    expect_success(result);
    return nlohmann::json::parse(result.out);
  };
  const auto row = [](const nlohmann::json& json, const std::string& name) {
    for (const auto& each : json["types"]["modules"])
      if (each["name"] == name) return each;
    return nlohmann::json();
  };
  const auto plain = types_of(model_fixture("bf16"));
  EXPECT_EQ(row(plain, "transformer.h.*.mlp.c_fc.weight")["format"], "BF16");
  EXPECT_EQ(plain["types"]["bits_per_weight"], 16.0);
  EXPECT_EQ(plain["types"]["bytes"], 2 * plain["parameters"].get<std::int64_t>());
  const TemporaryFolder folder;
  const std::string file = folder / "mixed.gguf";
  expect_success(run_program({"quantize", demo_model(), file, "--recipe", "Q4_K_M"}));
  const auto mixed = types_of(file);
  std::int64_t tensors = 0, bytes = 0, elements = 0;
  for (const auto& each : mixed["types"]["modules"]) {
    tensors += each["tensors"].get<std::int64_t>();
    bytes += each["bytes"].get<std::int64_t>();
    elements += each["elements"].get<std::int64_t>();
    const auto format = each["format"].get<std::string>();
    if (format == "Q4_K" || format == "Q6_K") {
      EXPECT_EQ(each["bits_per_weight"], format == "Q4_K" ? 4.5 : 6.5625);
    }
  }
  EXPECT_EQ(tensors, static_cast<std::int64_t>(mixed["tensors"].size()));
  EXPECT_EQ(elements, mixed["parameters"]);
  EXPECT_LT(bytes, mixed["weight_file_bytes"]);
  EXPECT_GT(bytes, 0.8 * mixed["weight_file_bytes"].get<double>());
  EXPECT_FALSE(row(mixed, "norms and biases").is_null());
  const std::string nf4 = folder / "nf4";
  expect_success(run_program({"quantize", demo_model(), nf4, "--precision", "nf4"}));
  EXPECT_EQ(row(types_of(nf4), "transformer.h.*.mlp.c_fc.weight")["format"], "nf4");
}

// As people call such files; a mix says little of the types in it.
TEST(CliInspect, CallsAGgufFileAsItsFileTypeSays) {
  const TemporaryFolder folder;
  const std::string file = folder / "mixed.gguf";
  expect_success(run_program({"quantize", demo_model(), file, "--recipe", "Q4_K_M"}));
  const ProgramResult result = run_program({"inspect", file});
  expect_success(result);
  EXPECT_NE(result.out.find("  file type         Q4_K_M; of its weights "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(" % are Q4_K, "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\n  Q4_K_M       q4_k + q6_k (as stored)"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\n  Q4_K_M       fits up to "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\n  token_embd.weight "), std::string::npos) << result.out;
  const auto json = nlohmann::json::parse(run_program({"inspect", file, "--json"}).out);
  EXPECT_EQ(json["file_type"], "Q4_K_M");
  EXPECT_TRUE(std::any_of(json["tensors"].begin(), json["tensors"].end(), [](const auto& each) {
    return each["name"] == "transformer.wte.weight" && each["name_in_file"] == "token_embd.weight";
  }));
  EXPECT_EQ(json["memory"][0]["precision"], "q4_k");
  const ProgramResult generated = run_program({"generate", file, "--ids", "1", "-n", "1"});
  EXPECT_NE(generated.err.find(" (as stored) | file_type=Q4_K_M"), std::string::npos) << generated.err;
  // A model of plain numbers has a row for each precision that it can run in.
  const ProgramResult plain = run_program({"inspect", (fixture("gguf") / "minimal.gguf").string()});
  EXPECT_NE(plain.out.find("  file type         F32\n"), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find("\n  nf4          nf4"), std::string::npos) << plain.out;
  const auto folder_json =
      nlohmann::json::parse(run_program({"inspect", model_fixture("llama_grouped"), "--json"}).out);
  EXPECT_TRUE(folder_json["file_type"].is_null());
  EXPECT_FALSE(folder_json["tensors"][0].contains("name_in_file"));
}

// It is shown all the same, and nothing is said of memory that it will never take.
TEST(CliInspect, WarnsOfTypesThatCannotBeRun) {
  constexpr std::uint32_t kNvfp4 = 40;
  const TemporaryFolder folder;
  const std::string path = folder / "m.gguf";
  GgufCopy file((fixture("gguf") / "quantized_q4_0.gguf").string());
  file.tensor("blk.0.ffn_up.weight").type = kNvfp4;
  write_file(path, file.bytes());
  const ProgramResult result = run_program({"inspect", path});
  expect_success(result);
  for (const char* words :
       {"warning: 1 of ", "weights cannot be run (1 NVFP4; the first is 'blk.0.ffn_up.weight')",
        "llama-quantize --allow-requantize FILE OUT.gguf Q8_0"})
    EXPECT_NE(result.err.find(words), std::string::npos) << words << result.err;
  EXPECT_NE(result.out.find("No memory is predicted"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("fits"), std::string::npos) << result.out;
  EXPECT_TRUE(nlohmann::json::parse(run_program({"inspect", path, "--json"}).out)["memory"].empty());
  expect_failure(run_program({"generate", path, "--ids", "1", "-n", "1"}), 1,
                 {"m.gguf: 1 of ", "blk.0.ffn_up.weight", "NVFP4 is not supported"});
  expect_failure(run_program({"quantize", path, folder / "out.gguf", "--recipe", "Q8_0"}), 1,
                 {"m.gguf: 1 of ", "NVFP4 is not supported"});
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
    EXPECT_EQ(launches("bfloat16", "64", kind), 0);
    EXPECT_EQ(launches("bfloat16", "65", kind), 1);
    EXPECT_EQ(launches("nf4", "4", kind), 0);
    EXPECT_EQ(launches("nf4", "65", kind), 1);
    // Gates beside int8 belong to the multiplication in front, where they fill its strips, which these do
    // not.
    EXPECT_EQ(launches("int8-dynamic", "1", kind), kind == std::string("gate") ? 1 : 0);
  }
  EXPECT_EQ(launches("nf4", "64", "norm"), 0)
      << "beside float16, as a GPU has it; beside float32 5 tokens have one";
  EXPECT_EQ(launches("bfloat16", "4", "matmul"), 3);  // the LM head, its inputs in order, and its norm
  EXPECT_EQ(launches("float32", "4", "matmul"), 2);
}

// One token's attention over a 16-bit cache is one kernel, which others share with storing and merging.
TEST(CliInspect, PredictsTheKernelsOfAttention) {
  const auto launches = [](const std::string& model, const char* precision, const char* rows,
                           const std::string& kind) {
    const ProgramResult result = run_program({"inspect", model, "--gpu", "h200", "--precision", precision,
                                              "--rows", rows, "--past", "512", "--json"});
    expect_success(result);
    const auto json = nlohmann::json::parse(result.out);
    for (const auto& kernel : json["gpu_step"]["kernels"])
      if (kernel["kind"] == kind) return kernel["launches_each"].get<std::int64_t>();
    return std::int64_t{-1};
  };
  EXPECT_EQ(launches(demo_model(), "bfloat16", "1", "attention"), 1);
  EXPECT_EQ(launches(demo_model(), "bfloat16", "2", "attention"), 3);
  EXPECT_EQ(launches(demo_model(), "float32", "1", "attention"), 3);
  EXPECT_EQ(launches(model_fixture("llama_grouped"), "bfloat16", "1", "attention"), 3);  // small heads
  EXPECT_EQ(launches(model_fixture("llama_grouped"), "bfloat16", "1", "rotary"), 0);
}

// The LM head of the step, which is not quantized unless that is asked for.
TEST(CliInspect, PredictsAQuantizedLmHead) {
  const auto step_of = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"inspect", demo_model(), "--gpu", "h200", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    expect_success(result);
    return nlohmann::json::parse(result.out)["gpu_step"];
  };
  const auto head_bytes = [](const nlohmann::json& step) {
    for (const auto& kernel : step["kernels"])
      if (kernel["name"] == "lm_head") return kernel["bytes"].get<double>();
    return 0.0;
  };
  const nlohmann::json as_it_is = step_of({"--precision", "nf4"}),
                       quantized = step_of({"--precision", "nf4", "--quantize-head", "nf4"});
  EXPECT_EQ(quantized["precision"], "nf4+head:nf4, dtype float16");
  EXPECT_GT(head_bytes(quantized), 0);
  EXPECT_LT(3 * head_bytes(quantized), head_bytes(as_it_is));
  expect_failure(run_program({"inspect", demo_model(), "--gpu", "h200", "--precision", "bfloat16",
                              "--quantize-head", "nf4"}),
                 2, {"--quantize-head: it applies to a quantized precision, not to bfloat16"});
}

}  // namespace
}  // namespace assay::test
