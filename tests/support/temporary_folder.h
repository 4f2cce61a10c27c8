// A folder of a test's own that disappears with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include "support/paths.h"

namespace assay::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "assay-test-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// tests/fixtures/models/NAME
inline std::string model_fixture(std::string_view name) {
  return source_folder() + "/tests/fixtures/models/" + std::string(name);
}

// The model of most tests of the program: 300 tokens, a context of 64, a tokenizer, and a text to score.
inline const std::string kModel = model_fixture("with_tokenizer"), kText = kModel + "/prompt.txt";

// A copy of a fixture that a test may spoil.
inline void copy_model_fixture(std::string_view name, const std::filesystem::path& to) {
  std::filesystem::copy(model_fixture(name), to, std::filesystem::copy_options::recursive);
}

}  // namespace assay::test
