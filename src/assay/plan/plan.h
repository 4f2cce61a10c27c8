// The forward pass as data: a list of operations over named buffers, written once by the model
// (model/forward.cpp) and run by any backend. What a step must read and compute is counted from the same
// list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "assay/base/units.h"
#include "assay/quant/precision.h"

namespace assay {

enum class Activation { none, relu, silu, tanh, gelu_tanh, gelu_erf, gelu_quick };
enum class Norm { layer, rms };

// What an operation is for; times are reported by phase.
enum class Phase { embed, norm, attention, linear, head };
inline constexpr std::size_t kPhases = 5;
std::string_view name_of(Phase phase);

using BufferId = int;
using WeightId = int;
inline constexpr int kNone = -1;

struct BufferSpec {
  std::string name;
  std::int64_t columns = 0;  // a row per token of the batch
};

// A weight as the model means it, apart from how a file stores it and how a backend packs it.
struct WeightSpec {
  std::string name;          // as the file names it
  std::int64_t rows = 0;     // outputs of a matrix, entries of a table; 1 for a vector
  std::int64_t columns = 0;  // inputs of a matrix, width of a table, length of a vector
  enum class Kind { vector, table, matrix } kind = Kind::vector;
  bool stored_transposed = false;  // the file holds [columns, rows] (GPT-2's Conv1D)
  bool is_table_too = false;       // a matrix whose rows are also looked up (tied embedding)
  WeightFormat format = WeightFormat::float32;
  // What 4-bit weights become in a product: float32 or bfloat16.
  WeightFormat expanded = WeightFormat::float32;
  // The file holds codes of `format` and their scales, [rows, columns]: they are taken as they are.
  bool is_stored_quantized = false;
  bool allows_non_finite = false;  // NaN and infinity are quantized as 0
  std::string_view why_kept = {};  // of a matrix that a quantized precision leaves: a constant text
  // What each column of a matrix, or element of a vector, is multiplied by when it is read; empty: 1.
  std::vector<float> column_factors = {};
  std::int64_t elements() const { return rows * columns; }
};

struct EmbedOp {  // out = tokens[id] (+ positions[position + position_offset])
  WeightId tokens = kNone, positions = kNone;
  std::int64_t position_offset = 0;
  BufferId out = kNone;
};
struct NormOp {  // out = (in - mean) / sqrt(variance + epsilon) * gain + bias, over each row
  Norm kind = Norm::layer;
  WeightId gain = kNone, bias = kNone;
  float epsilon = 0;
  BufferId in = kNone, out = kNone;
};
// Codes of all inputs of a product, known beforehand: x is worth scale * (code - zero_point), codes 0 to 255.
struct StaticInput {
  float scale = 1;
  int zero_point = 0;
  double clipped_share = 0;  // of the inputs it was calibrated on
};
struct LinearOp {  // out = activation(in * weight^T + bias), or out += where it adds the residual
  WeightId weight = kNone, bias = kNone;
  Activation activation = Activation::none;
  bool adds_to_output = false;
  float outlier_threshold = 0;  // of llm_int8 weights: columns of inputs that reach it are apart; 0 = none
  // Of int8 weights. Without static codes each token has a scale and zero point of its own, or all tokens of
  // a step together; what each input is multiplied by first, empty: 1.
  std::optional<StaticInput> static_input = {};
  bool has_tensor_scale = false;
  std::vector<float> input_factors = {};
  BufferId in = kNone, out = kNone;
};
struct AttentionOp {  // causal attention of the rows in `qkv` over their sequences' cached keys and values
  int layer = 0, heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;          // of the scores
  std::int64_t window = 0;  // keys a query sees, itself included; 0 = all
  BufferId qkv = kNone;     // [rows, (heads + 2 * kv_heads) * head_dim]: queries, keys, values
  BufferId out = kNone;     // [rows, heads * head_dim]
};

struct Op {
  std::string name;  // "h.3.attn.c_proj"
  Phase phase = Phase::linear;
  std::variant<EmbedOp, NormOp, LinearOp, AttentionOp> what;
};

struct Plan {
  std::vector<BufferSpec> buffers;
  std::vector<WeightSpec> weights;
  std::vector<Op> ops;      // from ids to hidden states
  Op head_norm, head;       // a NormOp and a LinearOp without output buffer: a stage of its own, with sinks
  BufferId hidden = kNone;  // where `ops` leave the hidden states
  std::int64_t vocab = 0, context = 0;
  int layers = 0, kv_heads = 0, head_dim = 0;
  KvFormat kv_format = KvFormat::float32;
  // The backend may look for the head's highest output in int8 first, if it finds the same (Precision). It
  // keeps the head a second time for that.
  bool screens_head = false;

  std::int64_t parameters() const;  // elements of all weights; tied ones once
  // As Transformers counts a footprint: codes of quantized matrices, `bytes` for every other element, no
  // scales.
  Bytes footprint(std::int64_t bytes) const;
};

// Where in `ops` the last attention is. From it on a row needs no other row but through keys and values: rows
// whose hidden states are not wanted can be left out there. The number of ops where that is not so: a product
// after it looks at all rows of a step together, for its scale or for outliers.
std::size_t tail_of(const Plan& plan);
// Where the product is that its queries, keys and values come out of; the number of ops where there is none.
// Queries of rows that are left out are not needed either.
std::size_t tail_product_of(const Plan& plan);

// Bytes of a weight in its format, with the scales of quantized ones; vectors are float32.
Bytes stored_bytes(const WeightSpec& weight);

// What the screen of a head reads.
Bytes screen_bytes(const Plan& plan);

// What an operation, or a step, must read and compute at least.
struct Cost {
  Bytes weight_bytes, kv_bytes;
  Flops flops;
  Cost& operator+=(const Cost& other);
};
// Of the body and the head for `rows` new tokens, the last `head_rows` of which go through the head, of one
// sequence that holds `past` tokens; of a screened head what the screen reads. A multiplication and an
// addition are two FLOPs; rows that can be left out (tail_of) are not counted.
Cost cost_of(const Plan& plan, std::int64_t rows, std::int64_t past, std::int64_t head_rows);
// The same by Phase.
std::array<Cost, kPhases> costs_by_phase(const Plan& plan, std::int64_t rows, std::int64_t past,
                                         std::int64_t head_rows);

}  // namespace assay
