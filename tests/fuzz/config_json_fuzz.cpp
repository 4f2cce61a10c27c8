// config.json and generation_config.json, NUL between them, to the plan of the forward pass and its cost.
// What the checkpoint holds follows from a last section: its first byte says which names are found, and of
// which type.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "assay/checkpoint/configuration_file.h"
#include "assay/checkpoint/model_folder.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/plan/cost.h"
#include "assay/plan/operation_groups.h"
#include "assay/session/generation_rules.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

constexpr std::int64_t kMostHeads = 2048;  // layers times heads

// Finds what it is asked for, in one shape.
class AnyCheckpoint : public Checkpoint {
 public:
  explicit AnyCheckpoint(unsigned mode) : mode_(mode) {}

  CheckpointTensor find(const std::string& name) const override {
    const char* prefix = mode_ & 2 ? "model." : mode_ & 4 ? "transformer." : "";
    if ((mode_ & 1) == 0 || !name.starts_with(prefix)) return {};
    StoredTensor& tensor = found_[name];
    tensor = {.name = name, .dtype = mode_ & 8 ? DType::i8 : DType::bf16, .shape = {4, 4}};
    tensor.bytes = mode_ & 8 ? 16 : 32;
    return {*this, tensor, 0};
  }
  std::vector<CheckpointTensor> tensors() const override {
    std::vector<CheckpointTensor> all;
    for (const auto& [name, tensor] : found_) all.emplace_back(*this, tensor, 0);
    return all;
  }
  std::vector<std::filesystem::path> files() const override { return {"model.safetensors"}; }
  std::uint64_t file_bytes() const override { return 0; }
  void read_floats(const CheckpointTensor&, std::int64_t, std::int64_t count, float* out) const override {
    std::fill_n(out, count, 1.0F);
  }
  void read_bytes(const CheckpointTensor&, std::uint64_t, std::span<std::byte> out) const override {
    std::fill(out.begin(), out.end(), std::byte{1});
  }

 private:
  unsigned mode_;
  mutable std::map<std::string, StoredTensor> found_;
};

void plan(const ModelFolder& folder, const ModelSpec& spec, const Precision& precision) {
  const Plan plan = plan_forward(spec, precision);
  for (const std::int64_t rows : {std::int64_t{1}, spec.context}) {
    cost_of(plan, rows, spec.context - rows, 1);
    costs_by_phase(plan, rows, 0, rows);
  }
  operation_groups(plan, 1, 1, 1);
  modules_of(plan);
  is_accepted([&] { check_weights(plan, folder); });
}

void read(const ModelFolder& folder, unsigned mode) {
  const ModelSpec spec = spec_from_source(folder);
  for (int layer = 0; layer < spec.layers; ++layer) {
    spec.attention_scale(layer);
    spec.window_of(layer);
    spec.rotary_of(layer);
  }
  is_accepted([&] { folder.quantized_weights(); });
  if (std::int64_t{spec.layers} * spec.heads > kMostHeads) return;
  is_accepted([&] {
    const auto stored = stored_precision(folder, spec);
    plan(folder, spec, stored ? *stored : Precision{});
  });
  is_accepted([&] {
    plan_forward(spec, precision_from_name(mode & 16 ? "nf4" : mode & 32 ? "llm-int8" : "int8-dynamic"));
  });
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM((assay::fuzz::sections<2, true>()))

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  const auto parts = fuzz::split_sections(fuzz::text_of(data, size), 2, true);
  const unsigned mode = parts[2].text.empty() ? 0 : static_cast<unsigned char>(parts[2].text.front());
  fuzz::is_accepted([&] {
    Json generation = Json::object();
    fuzz::is_accepted([&] { generation = parse_configuration(parts[1].text, "generation_config.json"); });
    const ModelFolder folder("folder", parse_configuration(parts[0].text, "config.json"),
                             std::move(generation), std::make_unique<fuzz::AnyCheckpoint>(mode));
    fuzz::read(folder, mode);
  });
  return 0;
}
