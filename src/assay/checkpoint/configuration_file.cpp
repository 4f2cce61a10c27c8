#include "assay/checkpoint/configuration_file.h"

#include "assay/base/json.h"

namespace assay {

namespace {

// Indexes of 10,000 tensors take 1 MB; a file may be padded with blanks to any size.
constexpr std::uint64_t kMaxConfiguration = std::uint64_t{16} << 20;
constexpr std::size_t kMaxConfigurationValues = 1'000'000;

}  // namespace

Json read_configuration(const std::filesystem::path& path) {
  return read_python_json(path, kMaxConfiguration, kMaxConfigurationValues);
}

Json parse_configuration(std::string_view text, const std::string& where) {
  return parse_python_json(text, where, kMaxConfigurationValues);
}

}  // namespace assay
