// What else lies in a model's folder: files that go with the weights, and formats of weights that are not
// read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace assay {

// Everything but weights, their indexes and config.json, by path inside the folder and sorted: tokenizers,
// chat templates, licences, code. Left out are hidden files, folders that hold weights in any format, and
// the configuration of an adapter, which would be taken for one of the new model.
std::vector<std::filesystem::path> files_beside_weights(const std::filesystem::path& folder);

// For messages that a model's files are missing, what to do with those that are there: "; it holds an adapter
// (adapter_config.json) of 'org/base': ..."; empty where nothing is recognised.
std::string advice_on(const std::filesystem::path& folder);

// Whether anything in the folder looks like a model's: weights in any format, a tokenizer, an adapter, or a
// config.json that is not the one of a run beside its results.
bool shows_model(const std::filesystem::path& folder);

// For messages, where a name was looked for: " in /place/name" of one that is not a whole path, else "".
std::string place_of(const std::filesystem::path& folder);

}  // namespace assay
