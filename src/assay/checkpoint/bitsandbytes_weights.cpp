#include "assay/checkpoint/bitsandbytes_weights.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "assay/checkpoint/bitsandbytes.h"
#include "assay/checkpoint/companion_tensors.h"
#include "assay/quant/four_bit.h"
#include "assay/quant/quantizer.h"

namespace assay {

namespace {

namespace bnb = bitsandbytes;

bool is_nested(const Checkpoint& checkpoint, const std::string& weight) {
  const CheckpointTensor absmax = checkpoint.find(beside(weight, bnb::kAbsmax));
  return (absmax && absmax->dtype == DType::u8) || checkpoint.find(beside(weight, bnb::kNestedAbsmax)) ||
         checkpoint.find(beside(weight, bnb::kNestedQuantMap));
}

// "nf4" or "fp4", by the name of the tensor that holds its state.
std::string four_bit_type(const Checkpoint& checkpoint, const std::string& weight) {
  const std::string prefix = beside(weight, bnb::kQuantState);
  const CheckpointTensor nf4 = checkpoint.find(prefix + "nf4"), fp4 = checkpoint.find(prefix + "fp4");
  if (nf4 && fp4) throw Error("{}: a second quant_state, beside that of nf4", fp4.where());
  if (nf4) return "nf4";
  if (fp4) return "fp4";
  for (const CheckpointTensor& at : checkpoint.tensors())
    if (at->name.rfind(beside(weight, ".quant_state"), 0) == 0)
      throw Error("{}: unknown quant_type: expected the name to end with nf4 or fp4", at.where());
  need(checkpoint, weight, prefix + "nf4");
  return {};
}

std::int64_t blocks_of(const StoredCodes& weight) {
  const std::int64_t block = weight.format.inputs_per_scale;
  return (weight.elements() + block - 1) / block;
}
std::int64_t nested_blocks_of(const StoredCodes& weight) {
  return (blocks_of(weight) + kNestedBlock - 1) / kNestedBlock;
}

bnb::QuantState read_state(const Checkpoint& checkpoint, const std::string& weight) {
  const CheckpointTensor at =
      need(checkpoint, weight, beside(weight, bnb::kQuantState) + four_bit_type(checkpoint, weight));
  constexpr std::uint64_t kLongest = 4096;
  if (at->dtype != DType::u8 || at->bytes > kLongest)
    throw Error("{}: expected at most {} bytes of JSON as U8, found {} {}", at.where(), kLongest,
                info(at->dtype).safetensors, at->shape_text());
  std::string text(static_cast<std::size_t>(at->bytes), '\0');
  at.read_bytes(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  bnb::QuantState state = bnb::quant_state_from_text(text, at.where());
  if (!is_block_size(state.block))
    throw Error("{}: blocksize: expected a power of two from 32 to 4096, found {}", at.where(), state.block);
  return state;
}

void check_state(const StoredCodes& weight, const Checkpoint& checkpoint) {
  const std::string type = four_bit_type(checkpoint, weight.name);
  const CheckpointTensor at = checkpoint.find(beside(weight.name, bnb::kQuantState) + type);
  const bnb::QuantState state = read_state(checkpoint, weight.name);
  if (state.type != type)
    throw Error("{}: quant_type: expected {}, as its name says, found '{}'", at.where(), type, state.type);
  if (state.block != weight.format.inputs_per_scale)
    throw Error("{}: blocksize: expected {}, found {}", at.where(), weight.format.inputs_per_scale,
                state.block);
  if (state.shape != std::vector<std::int64_t>{weight.rows, weight.columns})
    throw Error("{}: shape: expected [{}, {}] (by config.json), found [{}]", at.where(), weight.rows,
                weight.columns, fmt::join(state.shape, ", "));
  if (is_nested(checkpoint, weight.name) != state.nested.has_value())
    throw Error("{}: the nested state is incomplete: nested_blocksize and nested_offset {}", at.where(),
                state.nested ? "without nested tensors" : "are missing");
  if (state.nested && state.nested->block != kNestedBlock)
    throw Error("{}: nested_blocksize: expected {}, found {}", at.where(), kNestedBlock, state.nested->block);
}

void check_nested(const StoredCodes& weight, const Checkpoint& checkpoint) {
  const CheckpointTensor absmax = checkpoint.find(beside(weight.name, bnb::kAbsmax));
  if (absmax->dtype != DType::u8 || absmax->elements() != blocks_of(weight))
    throw Error("{}: expected {} codes of scales as U8, found {} {}", absmax.where(), blocks_of(weight),
                info(absmax->dtype).safetensors, absmax->shape_text());
  expect_floats(need(checkpoint, weight.name, beside(weight.name, bnb::kNestedAbsmax)),
                nested_blocks_of(weight));
  expect_floats(need(checkpoint, weight.name, beside(weight.name, bnb::kNestedQuantMap)), 256);
}

void check_four_bit(const StoredCodes& weight, const Checkpoint& checkpoint) {
  const CheckpointTensor codes = checkpoint.find(weight.name);
  const auto bytes = static_cast<std::uint64_t>((weight.elements() + 1) / 2);
  if (codes->bytes != bytes)
    throw Error("{}: expected {} bytes of codes for [{}, {}] (by config.json), found {}", codes.where(),
                bytes, weight.rows, weight.columns, codes->bytes);
  const CheckpointTensor absmax = need(checkpoint, weight.name, beside(weight.name, bnb::kAbsmax));
  check_state(weight, checkpoint);
  if (is_nested(checkpoint, weight.name))
    check_nested(weight, checkpoint);
  else
    expect_floats(absmax, blocks_of(weight));
  const CheckpointTensor map = need(checkpoint, weight.name, beside(weight.name, bnb::kQuantMap));
  expect_floats(map, 16);
  const std::vector<float> values = floats_of(map);
  const bool is_nf4 = weight.format.element == ElementType::nf4;
  const auto& codebook = codebook_of(is_nf4 ? FourBit::nf4 : FourBit::fp4);
  // bitsandbytes itself reads its own table, not the file's: a file with another one is not what it says.
  constexpr float kTolerance = 1e-6F;
  for (std::size_t i = 0; i < codebook.size(); ++i)
    if (!(std::fabs(values[i] - codebook[i]) <= kTolerance))
      throw Error("{}: code {} stands for {}: that is not the {} table, where it is {}", map.where(), i,
                  values[i], is_nf4 ? "nf4" : "fp4", codebook[i]);
}

// LLM.int8().
void check_layout_of_codes(const Checkpoint& checkpoint, const StoredCodes& weight) {
  const CheckpointTensor format = checkpoint.find(beside(module_of(weight.name), bnb::kWeightFormat));
  if (!format) return;  // older files lack it, and are row-major too
  std::uint8_t value = 0;
  if (format->dtype == DType::u8 && format->elements() == 1)
    format.read_bytes(0, std::as_writable_bytes(std::span(&value, 1)));
  else
    value = 255;
  if (value != 0)
    throw Error("{}: expected one U8 of 0 (row-major): tiled layouts of older GPU versions are not supported",
                format.where());
}

std::vector<float> nested_scales(const Checkpoint& checkpoint, const StoredCodes& weight) {
  const CheckpointTensor at = checkpoint.find(beside(weight.name, bnb::kAbsmax));
  NestedScales nested;
  nested.codes.resize(static_cast<std::size_t>(at->elements()));
  at.read_bytes(0, std::as_writable_bytes(std::span(nested.codes)));
  nested.absmax = magnitudes_of(checkpoint.find(beside(weight.name, bnb::kNestedAbsmax)));
  nested.offset = read_state(checkpoint, weight.name).nested->offset;
  const CheckpointTensor map_at = checkpoint.find(beside(weight.name, bnb::kNestedQuantMap));
  const std::vector<float> values = floats_of(map_at);
  std::array<float, 256> map;
  std::copy(values.begin(), values.end(), map.begin());
  std::vector<float> scales(nested.codes.size());
  unnest_scales(nested, scales.data(), map);
  if (!std::all_of(scales.begin(), scales.end(), [](float x) { return std::isfinite(x); }))
    throw Error("{}: the scales that it gives are not finite", at.where());
  return scales;
}

bool is_nf4(WeightFormat format) {
  return format.element == ElementType::nf4;
}

}  // namespace

std::optional<WeightFormat> BitsandbytesWeights::format_of(const std::string& weight) const {
  const Checkpoint& checkpoint = checkpoint_;
  const CheckpointTensor at = checkpoint.find(weight);
  if (!at) return std::nullopt;
  if (at->dtype == DType::i8 || checkpoint.find(beside(module_of(weight), bnb::kScb)))
    return formats::kLlmInt8;
  constexpr std::string_view kSigns[] = {bnb::kAbsmax, bnb::kQuantMap, bnb::kNestedAbsmax};
  const bool has_state = std::any_of(std::begin(kSigns), std::end(kSigns), [&](std::string_view suffix) {
    return static_cast<bool>(checkpoint.find(beside(weight, suffix)));
  });
  if (at->dtype != DType::u8 && !has_state) return std::nullopt;
  const bool is_double = is_nested(checkpoint, weight);
  const std::string type = four_bit_type(checkpoint, weight);
  const WeightFormat usual = type == "nf4" ? (is_double ? formats::kNf4Dq : formats::kNf4)
                                           : (is_double ? formats::kFp4Dq : formats::kFp4);
  return with_block(usual, read_state(checkpoint, weight).block);
}

std::vector<std::string> BitsandbytesWeights::names_beside(const StoredCodes& tensor) const {
  const std::string& name = tensor.name;
  if (tensor.format == formats::kLlmInt8)
    return {beside(module_of(name), bnb::kScb), beside(module_of(name), bnb::kWeightFormat)};
  std::vector<std::string> names{beside(name, bnb::kAbsmax), beside(name, bnb::kQuantMap),
                                 beside(name, bnb::kQuantState) + (is_nf4(tensor.format) ? "nf4" : "fp4")};
  if (has_nested_scales(tensor.format))
    for (const std::string_view suffix : {bnb::kNestedAbsmax, bnb::kNestedQuantMap})
      names.push_back(beside(name, suffix));
  return names;
}

void BitsandbytesWeights::check(const StoredCodes& tensor) const {
  if (tensor.format != formats::kLlmInt8) return check_four_bit(tensor, checkpoint_);
  check_int8_codes(checkpoint_, tensor, beside(module_of(tensor.name), bnb::kScb));
  check_layout_of_codes(checkpoint_, tensor);
}

void BitsandbytesWeights::read_codes(const StoredCodes& tensor, std::int64_t first_row,
                                     std::int64_t row_count, std::uint8_t* out) const {
  if (tensor.format == formats::kLlmInt8)
    return read_int8_codes(checkpoint_, tensor, first_row, row_count, out);
  const auto first = static_cast<std::uint64_t>(first_row * tensor.columns);
  const auto count = static_cast<std::size_t>(row_count * tensor.columns);
  const std::size_t bytes = (count + 1) / 2;
  const auto packed = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
  checkpoint_.find(tensor.name).read_bytes(first / 2, std::as_writable_bytes(std::span(packed.get(), bytes)));
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::uint8_t>(i % 2 == 0 ? packed[i / 2] >> 4 : packed[i / 2] & 15);
}

std::vector<float> BitsandbytesWeights::read_scales(const StoredCodes& tensor) const {
  if (tensor.format == formats::kLlmInt8)
    return floats_of(checkpoint_.find(beside(module_of(tensor.name), bnb::kScb)));
  if (is_nested(checkpoint_, tensor.name)) return nested_scales(checkpoint_, tensor);
  return magnitudes_of(checkpoint_.find(beside(tensor.name, bnb::kAbsmax)));
}

}  // namespace assay
