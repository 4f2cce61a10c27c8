#include "assay/checkpoint/configuration_file.h"

#include "assay/base/json.h"

namespace assay {

// Indexes of 10,000 tensors take 1 MB; a file may be padded with blanks to any size.
Json read_configuration(const std::filesystem::path& path) {
  constexpr std::uint64_t kMax = std::uint64_t{16} << 20;
  constexpr std::size_t kMaxValues = 1'000'000;
  return read_python_json(path, kMax, kMaxValues);
}

}  // namespace assay
