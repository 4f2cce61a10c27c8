// A file of safetensors, its header mutated as the JSON that it is.
#include <cstring>
#include <vector>

#include "assay/checkpoint/safetensors.h"
#include "assay/checkpoint/safetensors_checkpoint.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

constexpr std::size_t kHeaderLength = 8;

// The header, and the bytes behind it; its length is written anew.
std::vector<Part> split_file(std::string_view file) {
  std::uint64_t length = 0;
  if (file.size() < kHeaderLength) return {};
  std::memcpy(&length, file.data(), kHeaderLength);
  file.remove_prefix(kHeaderLength);
  if (length > file.size()) return {};
  return {{std::string(file.substr(0, length))}, {std::string(file.substr(length)), false}};
}

std::string join_file(const std::vector<Part>& parts) {
  const std::uint64_t length = parts[0].text.size();
  std::string file(kHeaderLength, '\0');
  std::memcpy(file.data(), &length, kHeaderLength);
  return file + parts[0].text + parts[1].text;
}

void read_all(std::string_view bytes) {
  const SafetensorsFile file(file_of(bytes, "model.safetensors"));
  for (const StoredTensor& tensor : file.tensors()) {
    expect(file.find(tensor.name) == &tensor, "a tensor is not found by its name");
    const std::int64_t count = tensor.elements();
    expect(count >= 0 && tensor.bytes <= bytes.size() && static_cast<std::uint64_t>(count) <= bytes.size(),
           "a tensor is larger than its file");
    std::vector<std::byte> stored(tensor.bytes);
    file.read_bytes(tensor, 0, stored);
    std::vector<float> values(static_cast<std::size_t>(count));
    is_accepted([&] { file.read_floats(tensor, 0, count, values.data()); });
    is_accepted([&] { file.read_floats(tensor, count / 2, count - count / 2, values.data()); });
  }
  const auto checkpoint =
      SafetensorsCheckpoint::of_file(SafetensorsFile(file_of(bytes, "model.safetensors")));
  for (const CheckpointTensor& tensor : checkpoint->tensors()) {
    expect(!tensor.where().empty(), "a tensor has no place");
    expect(checkpoint->find(tensor->name)->bytes == tensor->bytes, "a tensor is found as another");
  }
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM((assay::fuzz::Form{assay::fuzz::split_file, assay::fuzz::join_file}))

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  assay::fuzz::is_accepted([&] { assay::fuzz::read_all(assay::fuzz::text_of(data, size)); });
  return 0;
}
