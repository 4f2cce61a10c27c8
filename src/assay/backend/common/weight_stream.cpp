#include "assay/backend/common/weight_stream.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "assay/base/aligned.h"
#include "assay/base/error.h"
#include "assay/quant/quantizer.h"
#include "assay/tensor/transpose.h"

namespace assay {

namespace {

// A slab stays in the second-level cache between reading and packing.
constexpr std::int64_t kSlabFloats = std::int64_t{1} << 18;
// Where a transposed matrix is quantized, a slab is a strip: some outputs of every stored row. Strips that
// are wide read faster, and matrices of GPT-2's smallest model are one strip; of all threads they are
// bounded.
constexpr std::int64_t kStripFloats = std::int64_t{3} << 20, kAllStripFloats = std::int64_t{32} << 20;

bool is_coded(const WeightSpec& spec) {
  return spec.kind == WeightSpec::Kind::matrix && is_quantized(spec.format);
}
bool has_super_blocks(const WeightSpec& spec) {
  return is_coded(spec) && spec.format.inputs_per_super_block > 0;
}
// Its numbers become blocks of GGUF here.
bool is_made_in_blocks(const WeightSpec& spec) {
  return is_coded(spec) && holds_stored_scales(spec.format) && !spec.is_stored_quantized;
}
bool has_blocks(const WeightSpec& spec) {
  return is_coded(spec) && is_grouped(spec.format) && !has_super_blocks(spec);
}
bool is_in_strips(const WeightSpec& spec) {
  return spec.stored_transposed && is_quantized(spec.format);
}

// A tensor of a weight. Its scales are there from its first piece to its last: those of all 4-bit tensors at
// once would be an eighth of the packed weights.
struct Tensor {
  std::size_t weight = 0;
  TensorPart part = {};
  // Not std::call_once: an exception does not come through it where libstdc++ is linked statically.
  std::mutex beginning = {};
  bool has_begun = false;
  std::vector<float> scales = {};  // those of 4-bit blocks, and of outputs where they are stored
  BlockFactors factors = {};       // where its numbers are made into blocks here
  std::atomic<std::size_t> pieces_left{0};
  const WeightSpec& spec() const { return part.spec; }
};

// Some stored rows of a tensor. Those of a transposed matrix are its inputs, a multiple of 64 first; those of
// another its outputs, a multiple of 64 first. Where it is read in strips, outputs too.
struct Piece {
  Tensor* tensor;
  std::int64_t first, count;
};

// What pieces cut: stored rows, or outputs of strips; and how many numbers each of them has.
std::pair<std::int64_t, std::int64_t> stored_size(const WeightSpec& spec) {
  return spec.stored_transposed && !is_in_strips(spec) ? std::pair{spec.columns, spec.rows}
                                                       : std::pair{spec.rows, spec.columns};
}

std::int64_t rows_per_piece(const WeightSpec& spec, int threads) {
  const std::int64_t slab =
      is_in_strips(spec) ? std::min(kStripFloats, kAllStripFloats / threads) : kSlabFloats;
  const std::int64_t unit = kQuantizedRows;  // also a whole number of panels and of steps
  return std::max(unit, slab / stored_size(spec).second / unit * unit);
}

// A row has so many numbers as the source gives it.
std::int64_t stored_width(const WeightSpec& spec) {
  return spec.stored_transposed ? spec.rows : spec.columns;
}

// Stored rows [first, first + count), each column of the weight times its factor.
void apply_factors(const WeightSpec& spec, std::int64_t first, std::int64_t count, float* stored) {
  const std::int64_t width = stored_width(spec);
  for (std::int64_t row = 0; row < count; ++row)
    for (std::int64_t i = 0; i < width; ++i)
      stored[row * width + i] *=
          spec.column_factors[static_cast<std::size_t>(spec.stored_transposed ? first + row : i)];
}

// Calls take(row, count, output) for rows [first, first + count) of a tensor, as long as their outputs follow
// one another.
template <typename Take>
void for_runs(const WeightSpec& spec, std::int64_t first, std::int64_t count, const Take& take) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = first + done, left = count - done;
    const std::int64_t size =
        spec.run_outputs.empty() ? left : std::min(left, spec.run_rows - row % spec.run_rows);
    take(done, size, spec.output_of(row));
    done += size;
  }
}

class Stream {
 public:
  Stream(const WeightSource& source, WeightSink& sink) : source_(source), sink_(sink) {}

  void begin(Tensor& tensor) const {
    const std::lock_guard lock(tensor.beginning);
    if (tensor.has_begun) return;
    const WeightSpec& spec = tensor.spec();
    if (is_made_in_blocks(spec))
      tensor.factors = BlockFactors(spec.format, spec.rows, spec.columns);
    else if (has_super_blocks(spec))
      sink_.put_super_blocks(tensor.weight, tensor.part, checked_super_blocks(spec));
    else if (spec.is_stored_quantized)
      tensor.scales = checked_scales(spec);
    else if (has_blocks(spec))
      tensor.scales.resize(static_cast<std::size_t>(ScaleLayout(spec.format, spec.rows, spec.columns).count));
    tensor.has_begun = true;  // not where that threw
  }

  void pass(const Piece& piece, float* slab) const {
    const WeightSpec& spec = piece.tensor->spec();
    if (spec.is_stored_quantized) return pass_stored(piece, reinterpret_cast<std::uint8_t*>(slab));
    if (is_in_strips(spec)) return quantize_strip(piece, slab);
    const std::size_t weight = piece.tensor->weight;
    const std::int64_t first_output = piece.tensor->part.first_output;
    source_.read_rows(spec, piece.first, piece.count, slab);
    if (spec.offset != 0)
      for (std::int64_t i = 0; i < piece.count * stored_width(spec); ++i) slab[i] += spec.offset;
    if (!spec.column_factors.empty()) apply_factors(spec, piece.first, piece.count, slab);
    if (spec.kind == WeightSpec::Kind::vector) {
      for_runs(spec, 0, spec.columns, [&](std::int64_t done, std::int64_t size, std::int64_t output) {
        sink_.put_vector(weight, first_output + output, {slab + done, static_cast<std::size_t>(size)});
      });
    } else if (is_coded(spec)) {
      quantize(piece, piece.first, piece.count, slab);
    } else if (spec.stored_transposed) {
      sink_.put_floats(weight, {.first_output = first_output,
                                .outputs = spec.rows,
                                .first_input = piece.first,
                                .inputs = piece.count,
                                .values = slab,
                                .input_stride = spec.rows,
                                .output_stride = 1});
    } else {
      for_runs(spec, piece.first, piece.count,
               [&](std::int64_t done, std::int64_t size, std::int64_t output) {
                 sink_.put_floats(weight, {.first_output = first_output + output,
                                           .outputs = size,
                                           .first_input = 0,
                                           .inputs = spec.columns,
                                           .values = slab + done * spec.columns,
                                           .input_stride = 1,
                                           .output_stride = spec.columns});
               });
    }
  }

  // The scales of all blocks, when they are known: quantized themselves or not.
  void end(Tensor& tensor) const {
    const WeightSpec& spec = tensor.spec();
    if (is_made_in_blocks(spec)) return end_in_blocks(tensor);
    if (has_blocks(spec)) {
      if (has_nested_scales(spec.format) && !spec.is_stored_quantized)
        unnest_scales(nest_scales(tensor.scales), tensor.scales.data());
      sink_.put_block_scales(tensor.weight, tensor.part, tensor.scales);
    }
    tensor.scales = std::vector<float>();
  }

 private:
  void end_in_blocks(Tensor& tensor) const {
    const BlockFactors factors = std::exchange(tensor.factors, {});
    const WeightFormat& format = tensor.spec().format;
    if (format.inputs_per_super_block > 0)
      return sink_.put_super_blocks(tensor.weight, tensor.part, factors.super_blocks);
    sink_.put_block_scales(tensor.weight, tensor.part, factors.scales);
    if (format.offset != Offset::none) sink_.put_offsets(tensor.weight, tensor.part, factors.offsets);
  }

  std::vector<float> checked_scales(const WeightSpec& spec) const {
    std::vector<float> scales = source_.read_scales(spec);
    const auto count = static_cast<std::size_t>(ScaleLayout(spec.format, spec.rows, spec.columns).count);
    if (scales.size() != count)
      throw Error("tensor '{}': expected {} scales, found {}", spec.name, count, scales.size());
    return scales;
  }
  SuperBlocks checked_super_blocks(const WeightSpec& spec) const {
    SuperBlocks blocks = source_.read_super_blocks(spec);
    const auto groups = static_cast<std::size_t>(ScaleLayout(spec.format, spec.rows, spec.columns).count),
               count = static_cast<std::size_t>(spec.elements() / spec.format.inputs_per_super_block);
    const bool has_minima = spec.format.offset == Offset::minimum;
    if (blocks.scales.size() != groups || blocks.minima.size() != (has_minima ? groups : 0) ||
        blocks.scale_factors.size() != count || blocks.minimum_factors.size() != (has_minima ? count : 0))
      throw Error("tensor '{}': expected {} scales in {} super-blocks, found {} in {}", spec.name, groups,
                  count, blocks.scales.size(), blocks.scale_factors.size());
    return blocks;
  }
  std::int64_t output_of(const Tensor& tensor, std::int64_t row) const {
    return tensor.part.first_output + tensor.spec().output_of(row);
  }

  // Rows [first, first + count) of the tensor's outputs, [count][columns], to codes.
  void quantize(const Piece& piece, std::int64_t first, std::int64_t count, float* rows) const {
    Tensor& tensor = *piece.tensor;
    const WeightSpec& spec = tensor.spec();
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * spec.columns));
    // int8 scales, which go beside the codes at once
    std::vector<float> own(is_int8(spec.format) ? static_cast<std::size_t>(count) : 0);
    const std::string where = fmt::format("tensor '{}'", spec.name);
    const std::span<float> values(rows, codes.size());
    if (is_made_in_blocks(spec)) {
      quantize_rows_to_blocks(spec.format, spec.allows_non_finite, where, spec.columns, first, values,
                              codes.data(), tensor.factors);
    } else {
      const ScaleLayout layout(spec.format, spec.rows, spec.columns);
      float* scales = is_int8(spec.format) ? own.data() : tensor.scales.data() + layout.at(first, 0);
      quantize_rows(spec.format, spec.allows_non_finite, where, spec.columns, values, codes.data(), scales);
    }
    for (std::int64_t i = 0; i < count; ++i)
      sink_.put_codes(tensor.weight, output_of(tensor, first + i), codes.data() + i * spec.columns,
                      own.empty() ? 0.0F : own[static_cast<std::size_t>(i)]);
  }

  // The same of codes that the source has: nothing is quantized.
  void pass_stored(const Piece& piece, std::uint8_t* slab) const {
    const Tensor& tensor = *piece.tensor;
    const WeightSpec& spec = tensor.spec();
    source_.read_codes(spec, piece.first, piece.count, slab);
    for (std::int64_t i = 0; i < piece.count; ++i)
      sink_.put_codes(tensor.weight, output_of(tensor, piece.first + i), slab + i * spec.columns,
                      is_int8(spec.format) ? tensor.scales[static_cast<std::size_t>(piece.first + i)] : 0.0F);
  }

  // Reads the piece's outputs of every stored row, and turns them a few outputs at a time.
  void quantize_strip(const Piece& piece, float* slab) const {
    WeightSpec strip = piece.tensor->spec();
    strip.tensor_count = strip.tensor_count > 0 ? strip.tensor_count : strip.rows;
    strip.tensor_first += piece.first;
    strip.rows = piece.count;
    source_.read_rows(strip, 0, strip.columns, slab);
    if (!strip.column_factors.empty()) apply_factors(strip, 0, strip.columns, slab);
    constexpr std::int64_t kOutputs = kQuantizedRows;
    std::vector<float> rows(static_cast<std::size_t>(kOutputs * strip.columns));
    for (std::int64_t first = 0; first < strip.rows; first += kOutputs) {
      const std::int64_t count = std::min(kOutputs, strip.rows - first);
      transpose(slab + first, strip.rows, strip.columns, count, rows.data(), strip.columns);
      quantize(piece, piece.first + first, count, rows.data());
    }
  }

  const WeightSource& source_;
  WeightSink& sink_;
};

std::vector<std::int32_t> checked_input_groups(const WeightSpec& spec, std::vector<std::int32_t> groups) {
  const std::int64_t size = ScaleLayout(spec.format, spec.rows, spec.columns).group,
                     count = (spec.columns + size - 1) / size;
  const auto is_group = [&](std::int32_t group) { return group >= 0 && group < count; };
  if (groups.size() != static_cast<std::size_t>(spec.columns) ||
      !std::all_of(groups.begin(), groups.end(), is_group))
    throw Error("tensor '{}': expected a group from 0 to {} for each of {} inputs", spec.name, count - 1,
                spec.columns);
  return groups;
}

}  // namespace

void WeightSink::put_super_blocks(std::size_t /*weight*/, const TensorPart& tensor,
                                  const SuperBlocks& /*blocks*/) {
  throw std::logic_error("no place for the super-blocks of " + tensor.spec.name);
}
void WeightSink::put_offsets(std::size_t /*weight*/, const TensorPart& tensor,
                             std::span<const float> /*offsets*/) {
  throw std::logic_error("no place for the offsets of " + tensor.spec.name);
}
void WeightSink::put_input_groups(std::size_t /*weight*/, const TensorPart& tensor,
                                  std::span<const std::int32_t> /*groups*/) {
  throw std::logic_error("no place for the input groups of " + tensor.spec.name);
}

void stream_weights(std::span<const WeightSpec> specs, const WeightSource& source, ThreadPool& pool,
                    WeightSink& sink) {
  std::deque<Tensor> tensors;
  std::vector<Piece> pieces;
  std::int64_t slab_floats = 0;
  for (std::size_t weight = 0; weight < specs.size(); ++weight)
    for (TensorPart& part : tensors_of(specs[weight])) {
      Tensor& tensor = tensors.emplace_back();
      tensor.weight = weight;
      tensor.part = std::move(part);
      const auto [rows, width] = stored_size(tensor.spec());
      const std::int64_t each = rows_per_piece(tensor.spec(), pool.size());
      for (std::int64_t first = 0; first < rows; first += each, ++tensor.pieces_left)
        pieces.push_back({&tensor, first, std::min(each, rows - first)});
      slab_floats = std::max(slab_floats, std::min(each, rows) * width);
    }
  std::map<std::size_t, std::vector<std::int32_t>> groups_of;  // by weight: of its first tensor
  for (const Tensor& tensor : tensors) {
    const WeightSpec& spec = tensor.spec();
    if (spec.format.offset != Offset::none && !has_super_blocks(spec) && !is_made_in_blocks(spec))
      sink.put_offsets(tensor.weight, tensor.part, source.read_offsets(spec));
    if (!spec.format.has_input_groups) continue;
    const std::vector<std::int32_t> groups = checked_input_groups(spec, source.read_input_groups(spec));
    if (groups_of.try_emplace(tensor.weight, groups).first->second != groups)
      throw Error(
          "tensor '{}': its inputs are in other groups than those of the tensors that it is multiplied with",
          spec.name);
    sink.put_input_groups(tensor.weight, tensor.part, groups);
  }
  const Stream stream(source, sink);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  pool.run(std::min<std::int64_t>(pool.size(), static_cast<std::int64_t>(pieces.size())), [&](std::int64_t) {
    try {
      AlignedBuffer slab(static_cast<std::size_t>(slab_floats) * sizeof(float), "a slab of weights");
      for (std::size_t i = next++; i < pieces.size(); i = next++) {
        Tensor& tensor = *pieces[i].tensor;
        stream.begin(tensor);
        stream.pass(pieces[i], slab.floats());
        if (--tensor.pieces_left == 0) stream.end(tensor);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
      next = pieces.size();
    }
  });
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace assay
