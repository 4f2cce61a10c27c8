// Which GGUF file of a folder is meant.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace assay {

// The GGUF files of a folder that are models, one of each set of shards; companions for images or sound
// (mmproj anywhere in the name) are none. In the order of their names.
std::vector<std::filesystem::path> gguf_models_in(const std::filesystem::path& folder);

// The one that is called `part` ("m.Q4_K_M.gguf", with or without its ending and shard), or whose name has it
// ("Q4_K_M", any case) between other words of it; without a part, the only one. Throws Error with the names
// to choose from where none or several have it.
std::filesystem::path gguf_model_in(const std::filesystem::path& folder, const std::string& part = {});

}  // namespace assay
