// The folder in which processes keep for each other what they have measured of a processor or a GPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "assay/base/json.h"
#include "assay/base/process.h"

namespace assay {

// $XDG_CACHE_HOME/assay/NAME, else ~/.cache/assay/NAME; empty where neither is named.
std::string tuning_file_named(std::string_view name);
// Its text, at most 1 MiB; empty where it cannot be read.
std::string text_of_tuning_file(const std::string& file);
// Its entries; none where it is torn, or no object, or holds more values.
Json entries_of_tuning(std::string_view text, std::size_t max_values);
// Held while this process measures; none where the answer could not be kept, or where another process
// measures for longer than `patience`.
std::unique_ptr<FolderLock> lock_to_measure(const std::string& file, Seconds patience);

}  // namespace assay
