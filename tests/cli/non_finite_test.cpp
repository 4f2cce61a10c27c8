// A model with NaN or infinity among its weights: every command says so in one sentence, on every tier.
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "support/fixtures.h"
#include "support/program.h"
#include "support/safetensors_copy.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

class CliNonFinite : public testing::Test {
 protected:
  // The fixture with number `index` of a tensor replaced; -1: a third of them on, of a fused product the
  // first key's.
  std::string spoiled(const std::string& tensor, float bad, std::ptrdiff_t index = 1) const {
    const std::filesystem::path to = folder_.path() / "model";
    std::filesystem::remove_all(to);
    copy_model_fixture("with_tokenizer", to);
    TensorList tensors(to / "model.safetensors");
    std::string& bytes = tensors[tensor].bytes;
    const std::size_t at = index < 0 ? bytes.size() / 3 : static_cast<std::size_t>(index) * sizeof(bad);
    std::memcpy(bytes.data() + at, &bad, sizeof(bad));
    write_file(to / "model.safetensors", tensors.file());
    return to.string();
  }
  std::string spoiled_keys() const {
    return spoiled("transformer.h.0.attn.c_attn.bias", std::numeric_limits<float>::quiet_NaN(), -1);
  }

  TemporaryFolder folder_;
  const std::string text_ = model_fixture("with_tokenizer") + "/prompt.txt", out_ = folder_ / "out";
};

TEST_F(CliNonFinite, EveryCommandSaysSoOnEveryTier) {
  const std::string model = spoiled_keys();
  for (const Isa isa : usable_isas())
    for (const char* precision : {"float32", "bfloat16", "int8-dynamic", "nf4"}) {
      SCOPED_TRACE(testing::Message() << name_of(isa) << " " << precision);
      const auto fails = [&](std::vector<std::string> words, const char* what) {
        words.insert(words.end(), {"--isa", std::string(name_of(isa)), "--precision", precision, "--quiet"});
        const ProgramResult result = run_program(words);
        expect_failure(
            result, 1,
            {fmt::format("{} in {}: {}", model, precision, what), "weights or arithmetic are broken",
             std::string(precision) == "float32" ? "; try another copy" : "; try float32, and if that"});
        EXPECT_EQ(result.err.find("-nan"), std::string::npos) << result.err;
      };
      fails({"generate", model, "--ids", "1,2,3", "-n", "2"}, "the logits at position 2 are not finite");
      fails({"generate", model, "--ids", "1", "-n", "2", "--temperature", "0.7"},
            "the logits at position 0 are not finite (NaN for token id 0)");
      fails({"perplexity", model, text_}, "the log-probability of scored token 1 of ");
      fails({"logits", model, "--ids", "1,2,3", "-o", out_}, "the logits at position 0 are not finite (NaN");
      EXPECT_FALSE(std::filesystem::exists(out_)) << "a file of broken logits";
    }
}

TEST_F(CliNonFinite, RunKeepsARowWithTheReason) {
  const ProgramResult result =
      run_program({"run", spoiled_keys(), "-p", "hello", "-n", "3", "-r", "2", "--corpus", text_, "-o", out_,
                   "--precision", "float32", "--skip",
                   "noise,trade-off,lengths,ablation,batches,batched-precisions,divergence,edge"});
  EXPECT_EQ(result.exit_code, 3) << result.err;  // cases failed
  const auto json = nlohmann::json::parse(read_file(out_ + "/results.json"));
  EXPECT_FALSE(json["rows"].empty());
  for (const auto& row : json["rows"]) {
    EXPECT_EQ(row["status"], "error") << row.dump();
    EXPECT_NE(row["reason"].get<std::string>().find("not finite"), std::string::npos) << row.dump();
  }
}

// Weights that are quantized, and what stays as it is beside them.
TEST_F(CliNonFinite, QuantizeNamesTheTensor) {
  for (const char* tensor :
       {"transformer.h.0.mlp.c_fc.weight", "transformer.h.1.ln_2.bias", "transformer.wte.weight"})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()})
      for (const char* precision : {"nf4", "llm-int8", "int8-dynamic"}) {
        SCOPED_TRACE(testing::Message() << tensor << " " << bad << " " << precision);
        expect_failure(run_program({"quantize", spoiled(tensor, bad), out_, "--precision", precision}), 1,
                       {"model.safetensors", tensor, "finite", "NaN or infinity"});
        EXPECT_FALSE(std::filesystem::exists(out_));
      }
}

}  // namespace
}  // namespace assay::test
