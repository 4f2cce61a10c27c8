// A GGUF file: container, keys as a configuration, tensors, blocks, and the tokenizer that it holds.
#include <algorithm>
#include <memory>
#include <vector>

#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/gguf_source.h"
#include "assay/checkpoint/gguf_tokenizer.h"
#include "assay/model/families/families.h"
#include "assay/text/tokenizer.h"
#include "fuzz.h"

namespace assay::fuzz {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 20;

void read_tensors(const GgufSource& source) {
  const auto weights = source.quantized_weights();
  for (const CheckpointTensor& tensor : source.all()) {
    expect(static_cast<bool>(source.find(tensor->name)), "a tensor is not found by its name");
    const std::int64_t count = tensor->elements();
    if (count > kMostElements) continue;
    std::vector<float> values(static_cast<std::size_t>(count));
    is_accepted([&] { tensor.read_floats(0, count, values.data()); });
    const auto format = weights->format_of(tensor->name);
    if (!format || tensor->shape.size() != 2) continue;
    const StoredCodes codes{tensor->name, tensor->shape[0], tensor->shape[1], *format};
    is_accepted([&] {
      weights->check(codes);
      std::vector<std::uint8_t> read(static_cast<std::size_t>(codes.elements()));
      weights->read_codes(codes, 0, codes.rows, read.data());
      if (format->inputs_per_super_block > 0) {
        weights->read_super_blocks(codes);
      } else {
        weights->read_scales(codes);
        weights->read_offsets(codes);
      }
    });
  }
}

void read_all(std::string_view bytes) {
  const GgufSource source(std::make_unique<const GgufFile>(file_of(bytes, "model.gguf")));
  is_accepted([&] { spec_from_source(source); });
  read_tensors(source);
}

void read_tokenizer(std::string_view bytes) {
  const GgufFile file(file_of(bytes, "model.gguf"));
  if (!has_gguf_tokenizer(file)) return;
  const Tokenizer tokenizer = Tokenizer::from_files(gguf_tokenizer_files(file));
  const auto ids = tokenizer.encode("Hello  world's 123\n caf\xc3\xa9 <s>");
  tokenizer.decode(ids);
}

}  // namespace
}  // namespace assay::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = assay::fuzz::text_of(data, size);
  assay::fuzz::is_accepted([&] { assay::fuzz::read_all(bytes); });
  assay::fuzz::is_accepted([&] { assay::fuzz::read_tokenizer(bytes); });
  return 0;
}
