// A model of the same function with outliers: some channels of each norm before a product come out larger,
// and the rows of the product's weights that read them are as much smaller.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "assay/checkpoint/model_folder.h"
#include "safetensors_writer.h"
#include "temporary_folder.h"

namespace assay::test {

// Writes a GPT-2 folder like `from`, in float32, to `to`. Every 29th channel is one of them, 8 at most.
inline void plant_outliers(const std::filesystem::path& from, const std::filesystem::path& to, float factor) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from))
    if (entry.path().extension() == ".json")
      std::filesystem::copy(entry.path(), to / entry.path().filename());
  const ModelFolder folder(from);
  std::vector<WrittenTensor> tensors;
  for (const CheckpointTensor& at : folder.all()) {
    const StoredTensor& stored = *at;
    std::vector<float> values(static_cast<std::size_t>(stored.elements()));
    at.read_floats(0, stored.elements(), values.data());
    const bool is_norm = stored.name.find(".ln_") != std::string::npos,  // that of a block: "h.0.ln_1"
        is_reader = stored.name.find(".c_attn.weight") != std::string::npos ||
                    stored.name.find(".c_fc.weight") != std::string::npos;
    const bool is_last_norm = stored.name.find("ln_f") != std::string::npos;
    if ((is_norm && !is_last_norm) || is_reader) {
      const std::size_t channels = static_cast<std::size_t>(stored.shape[0]),
                        width = values.size() / channels;
      for (std::size_t i = 0; i < 8 && 29 * i + 3 < channels; ++i)
        for (std::size_t j = 0; j < width; ++j)
          values[(29 * i + 3) * width + j] *= is_norm ? factor : 1 / factor;
    }
    tensors.push_back({stored.name, "F32", stored.shape, float_bytes(values)});
  }
  write_file(to / "model.safetensors", safetensors_file(tensors));
}

}  // namespace assay::test
