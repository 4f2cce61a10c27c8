#include "assay/checkpoint/gguf_weights.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"

namespace assay {

namespace {

constexpr std::int64_t kRowsSlab = std::int64_t{1} << 20;  // bytes of blocks held at once

std::int64_t row_bytes_of(const ggml::BlockType& type, const StoredCodes& tensor) {
  return tensor.columns / type.elements * type.bytes;
}

// Calls `use` with the blocks of some rows at a time: its first argument is the first row.
template <typename Use>
void for_rows(const GgufCheckpoint& checkpoint, const StoredCodes& tensor, std::int64_t first_row,
              std::int64_t row_count, const Use& use) {
  const std::int64_t width = row_bytes_of(*checkpoint.type_of(tensor.name), tensor);
  const std::int64_t most = std::max<std::int64_t>(1, kRowsSlab / width);
  std::vector<std::byte> blocks;
  for (std::int64_t done = 0; done < row_count; done += most) {
    const std::int64_t rows = std::min(most, row_count - done);
    blocks.resize(static_cast<std::size_t>(rows * width));
    checkpoint.read_rows(tensor.name, first_row + done, rows, blocks.data());
    use(done, std::span<const std::byte>(blocks));
  }
}

}  // namespace

std::optional<WeightFormat> GgufWeights::format_of(const std::string& weight) const {
  const ggml::BlockType* type = checkpoint_.type_of(weight);
  if (type == nullptr || checkpoint_.find(weight)->shape.size() != 2) return std::nullopt;
  return type->format;
}

void GgufWeights::check(const StoredCodes& tensor) const {
  const CheckpointTensor at = checkpoint_.find(tensor.name);
  StoredTensor expected;
  expected.shape = {tensor.rows, tensor.columns};
  if (at->shape != expected.shape)
    throw Error("{}: expected shape {}, found {}", at.where(), expected.shape_text(), at->shape_text());
}

void GgufWeights::read_codes(const StoredCodes& tensor, std::int64_t first_row, std::int64_t row_count,
                             std::uint8_t* out) const {
  const ggml::BlockType& type = *checkpoint_.type_of(tensor.name);
  for_rows(checkpoint_, tensor, first_row, row_count,
           [&](std::int64_t row, std::span<const std::byte> blocks) {
             ggml::read_codes(type, blocks, out + row * tensor.columns);
           });
}

GgufWeights::Groups GgufWeights::groups_of(const StoredCodes& tensor) const {
  const ggml::BlockType& type = *checkpoint_.type_of(tensor.name);
  const std::int64_t groups = tensor.columns / type.format->inputs_per_scale;  // in a row
  Groups all;
  all.scales.resize(static_cast<std::size_t>(tensor.rows * groups));
  if (type.format->offset != Offset::none) all.offsets.resize(all.scales.size());
  for_rows(checkpoint_, tensor, 0, tensor.rows, [&](std::int64_t row, std::span<const std::byte> blocks) {
    ggml::read_scales(type, blocks, all.scales.data() + row * groups,
                      all.offsets.empty() ? nullptr : all.offsets.data() + row * groups);
  });
  for (const std::vector<float>* numbers : {&all.scales, &all.offsets})
    if (!std::all_of(numbers->begin(), numbers->end(), [](float x) { return std::isfinite(x); }))
      throw Error("{}: expected finite scales, found NaN or infinity", checkpoint_.find(tensor.name).where());
  return all;
}

std::vector<float> GgufWeights::read_scales(const StoredCodes& tensor) const {
  return groups_of(tensor).scales;
}

std::vector<float> GgufWeights::read_offsets(const StoredCodes& tensor) const {
  return groups_of(tensor).offsets;
}

SuperBlocks GgufWeights::read_super_blocks(const StoredCodes& tensor) const {
  const ggml::BlockType& type = *checkpoint_.type_of(tensor.name);
  const bool has_minima = type.format->offset != Offset::none;
  const std::int64_t groups = tensor.columns / type.format->inputs_per_scale,
                     factors = tensor.columns / type.format->inputs_per_super_block;  // in a row
  SuperBlocks all;
  all.scales.resize(static_cast<std::size_t>(tensor.rows * groups));
  all.scale_factors.resize(static_cast<std::size_t>(tensor.rows * factors));
  if (has_minima) {
    all.minima.resize(all.scales.size());
    all.minimum_factors.resize(all.scale_factors.size());
  }
  for_rows(checkpoint_, tensor, 0, tensor.rows, [&](std::int64_t row, std::span<const std::byte> blocks) {
    ggml::read_super_blocks(
        type, blocks,
        {all.scales.data() + row * groups, has_minima ? all.minima.data() + row * groups : nullptr,
         all.scale_factors.data() + row * factors,
         has_minima ? all.minimum_factors.data() + row * factors : nullptr});
  });
  constexpr unsigned kExponent = 0x7C00;
  for (const std::vector<std::uint16_t>* numbers : {&all.scale_factors, &all.minimum_factors})
    if (std::any_of(numbers->begin(), numbers->end(),
                    [](std::uint16_t x) { return (x & kExponent) == kExponent; }))
      throw Error("{}: expected finite scales, found NaN or infinity", checkpoint_.find(tensor.name).where());
  return all;
}

}  // namespace assay
