// The operations of a forward pass: what each computes, and which buffers it reads and writes. Memory, cost,
// fusing and last-token pruning follow from that, whatever the order in which a family writes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "assay/plan/elementwise.h"
#include "assay/plan/weights.h"

namespace assay {

enum class Norm { layer, rms };

// What an operation is for; times are reported by phase.
enum class OpClass { embed, norm, attention, linear, head };
inline constexpr std::size_t kOpClasses = 5;
std::string_view name_of(OpClass phase);

using BufferId = int;
inline constexpr int kNone = -1;

// Activations, a row per token of the batch. What an operation writes to part of a buffer's columns leaves
// the others as they are.
struct BufferSpec {
  std::string name;
  std::int64_t columns = 0;
};

// out = scale * tokens[id] + positions[position + position_offset], of the tables that there are.
struct EmbedOp {
  WeightId tokens = kNone, positions = kNone;
  std::int64_t position_offset = 0;
  float scale = 1;
  BufferId out = kNone;
};

// out = (in - mean) / sqrt(variance + epsilon) * gain + bias over each row (layer), or in / sqrt(mean of
// squares + epsilon) * gain (rms: Zhang and Sennrich 2019). A row may be normed in parts: `groups` of as many
// columns as the gain has elements, from `column` on, side by side, each by itself with the same gain and
// bias. So are queries and keys normed head by head (Henry et al. 2020, "Query-Key Normalization"), or all of
// a token's at once. `out` may be `in`; other columns stay.
struct NormOp {
  Norm kind = Norm::layer;
  WeightId gain = kNone, bias = kNone;  // bias optional
  float epsilon = 0;
  BufferId in = kNone, out = kNone;
  std::int64_t column = 0;
  int groups = 1;
};

// Codes of all input activations of a matrix multiplication, known beforehand: a code stands for
// scale * (code - zero_point), codes 0 to 255.
struct StaticInput {
  float scale = 1;
  int zero_point = 0;
  double clipped_share = 0;  // how many of the activations it was calibrated on were beyond its range
};

// out[:, out_column ...] = activation(in * weight^T + bias), or += where it adds the residual.
struct LinearOp {
  WeightId weight = kNone, bias = kNone;
  Activation activation = Activation::none;
  bool adds_to_output = false;
  float outlier_threshold = 0;  // for llm_int8 weights: input features that reach it are decomposed; 0 = none
  // Of int8 weights. Without static codes each token has a scale and zero point of its own, or all tokens of
  // a step together; what each input feature is multiplied by first, empty: 1.
  std::optional<StaticInput> static_input = {};
  bool has_tensor_scale = false;
  std::vector<float> input_factors = {};
  // For 4-bit weights: inputs become int8 with a scale for each group of inputs that shares one of the
  // weights; beside scales as a checkpoint stores them, for each 32.
  bool has_int8_activations = false;
  BufferId in = kNone, out = kNone;
  std::int64_t out_column = 0;
  // Modules of the checkpoint that it is: "h.3.attn.c_proj"; of q, k and v in one, the three.
  std::vector<std::string> modules = {};
};

// Rotary position embedding, in place: pair i of each head is turned by the angle position * frequencies[i]
// (Su et al. 2021). Frequencies hold base and scaling; what is beyond 2 * frequencies.size() elements stays.
struct RotaryOp {
  BufferId buffer = kNone;
  std::int64_t column = 0;  // where the first head begins
  int heads = 0, head_dim = 0;
  RotaryPairing pairing = RotaryPairing::halves;
  std::vector<float> frequencies;  // radians per position
  float amplitude = 1;             // that cosine and sine have (YaRN's attention factor)
  // Instead of `frequencies`, for all tokens of a sequence that extends beyond `original_context` (LongRoPE,
  // Ding et al. 2024); empty: the same for sequences of any length.
  std::vector<float> long_frequencies = {};
  std::int64_t original_context = 0;
  // Those for a sequence of that many tokens.
  const std::vector<float>& frequencies_of(std::int64_t extent) const {
    return long_frequencies.empty() || extent <= original_context ? frequencies : long_frequencies;
  }
  bool rotates_like(const RotaryOp& other) const {
    return amplitude == other.amplitude && frequencies == other.frequencies &&
           long_frequencies == other.long_frequencies && original_context == other.original_context;
  }
};

// Causal attention of the rows in `qkv` over their sequences' cached keys and values.
struct AttentionOp {
  int layer = 0, heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;          // that scores are multiplied by
  std::int64_t window = 0;  // keys a query sees, itself included; 0 = all
  float soft_cap = 0;       // scores become soft_cap * tanh(score / soft_cap); 0 = none (Gemma 2)
  // By head: slope * (key - query), their positions, is added to a score, behind the cap (Press et al. 2022).
  // Empty: none.
  std::vector<float> alibi_slopes = {};
  BufferId qkv = kNone;  // [rows, (heads + 2 * kv_heads) * head_dim]: queries, keys, values
  BufferId out = kNone;  // [rows, heads * head_dim]
  bool has_score_modifiers() const { return soft_cap != 0 || !alibi_slopes.empty(); }
  std::int64_t k_column() const { return std::int64_t{heads} * head_dim; }
  std::int64_t v_column() const { return k_column() + std::int64_t{kv_heads} * head_dim; }
};

// out = activation(in[:, :n]) * in[:, n:], n columns of out (Shazeer 2020, "GLU Variants Improve
// Transformer").
struct GatedOp {
  Activation activation = Activation::silu;
  BufferId in = kNone, out = kNone;
};

struct AddOp {  // out += scale * in: the residual of families that scale it, or norm what they add
  float scale = 1;
  BufferId in = kNone, out = kNone;
};

struct Op {
  std::string name;  // "h.3.attn.c_proj"
  OpClass phase = OpClass::linear;
  std::variant<EmbedOp, NormOp, LinearOp, RotaryOp, AttentionOp, GatedOp, AddOp> kind;
};

// One function for each alternative, and none for all: an operation without one does not compile.
template <typename... Functions>
struct Cases : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Cases(Functions...) -> Cases<Functions...>;

// Buffers that an operation reads, and those that it writes; one that it changes in place or adds to is in
// both. Columns beside those that it writes stay: that is no reading.
struct BufferUse {
  std::vector<BufferId> reads, writes;
};
BufferUse buffers_of(const Op& op);

// A row of its result depends on other rows than its own: attention, and matrix multiplications whose
// activation scale or outliers are those of all rows together.
bool mixes_rows(const Op& op);

}  // namespace assay
