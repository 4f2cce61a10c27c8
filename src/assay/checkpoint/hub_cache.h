// Where the Hugging Face cache lies, by the variables that Python's huggingface_hub reads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// "~", "~user", "$NAME" and "${NAME}" as os.path.expanduser() and expandvars() replace them; what names
// nothing stays.
std::string expanded_path(std::string_view path);

// Folders of models--org--name, to be looked through in this order: the cache of huggingface_hub, by
// HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or
// ~/.cache/huggingface/hub, the first that is set; then that of Transformers 4, by TRANSFORMERS_CACHE,
// PYTORCH_TRANSFORMERS_CACHE or PYTORCH_PRETRAINED_BERT_CACHE, where one is set.
std::vector<std::filesystem::path> hub_caches();

}  // namespace assay
