// Plans with each ingredient of the vocabulary, in the orders of the families that they are named after.
#pragma once

#include <cmath>
#include <ostream>
#include <string>
#include <utility>

#include "support/hand_written_plan.h"

namespace assay::test {

enum class QkNorm { none, by_head, whole };

struct Ingredients {
  const char* name;
  int heads = 4, kv_heads = 2, head_dim = 10;
  std::int64_t embed_width = 0;  // those of embeddings that are projected; 0: none
  bool norms_embedding = false, has_positions = false, is_post_norm = false, is_parallel = false;
  bool splits_qkv = false;  // into three products, the queries' last
  QkNorm qk_norm = QkNorm::none;
  std::int64_t rotary_pairs = 0;
  RotaryPairing pairing = RotaryPairing::halves;
  std::int64_t window = 0;  // that of every other layer
  float attention_cap = 0;
  bool has_alibi = false;
  bool is_gated = false;
  Norm norm = Norm::rms;
  float gain_offset = 0, embed_scale = 1, residual_scale = 1;
  bool has_final_norm = true, has_head_bias = false;
  float head_scale = 1, head_cap = 0;
  KvFormat kv_format = KvFormat::float32;
  WeightFormat format = formats::kFloat32;
};

inline void PrintTo(const Ingredients& what, std::ostream* out) {
  *out << what.name;
}

inline constexpr std::int64_t kPlanHidden = 40, kPlanMlp = 48, kPlanVocab = 37, kPlanContext = 200;
inline constexpr int kPlanLayers = 2;

class IngredientsWriter {
 public:
  explicit IngredientsWriter(const Ingredients& what) : what_(what) {}

  HandWrittenPlan write() {
    const std::int64_t queries = std::int64_t{what_.heads} * what_.head_dim,
                       keys = std::int64_t{what_.kv_heads} * what_.head_dim;
    x_ = p_.buffer(kPlanHidden);
    h_ = p_.buffer(kPlanHidden);
    y_ = p_.buffer(kPlanHidden);
    qkv_ = p_.buffer(queries + 2 * keys);
    attended_ = p_.buffer(queries);
    gate_up_ = p_.buffer(2 * kPlanMlp);
    mlp_ = p_.buffer(kPlanMlp);
    embed();
    for (int layer = 0; layer < kPlanLayers; ++layer) write_layer(layer, queries, keys);
    finish();
    return std::move(p_);
  }

 private:
  NormOp norm(BufferId in, BufferId out, std::int64_t size, Norm kind) {
    NormOp op{.kind = kind, .epsilon = 1e-3F, .in = in, .out = out};
    op.gain = p_.vector(size, what_.gain_offset == 0 ? 1 : 0, 0.5, what_.gain_offset);
    if (kind == Norm::layer) op.bias = p_.vector(size, 0, 0.3);
    return op;
  }
  LinearOp linear(BufferId in, BufferId out, std::int64_t outputs, bool adds = false) {
    const std::int64_t inputs = p_.plan.buffers[static_cast<std::size_t>(in)].columns;
    return {.weight = p_.matrix(outputs, inputs, what_.format),
            .bias = p_.vector(outputs, 0, 0.2),
            .adds_to_output = adds,
            .in = in,
            .out = out};
  }

  void embed() {
    const auto table = [&](std::int64_t rows, std::int64_t width) { return p_.table(rows, width); };
    if (what_.embed_width == 0) {
      p_.op(OpClass::embed,
            EmbedOp{.tokens = table(kPlanVocab, kPlanHidden),
                    .positions = what_.has_positions ? table(kPlanContext + 2, kPlanHidden) : kNone,
                    .position_offset = what_.has_positions ? 2 : 0,
                    .scale = what_.embed_scale,
                    .out = x_});
    } else {
      const BufferId narrow = p_.buffer(what_.embed_width);
      p_.op(OpClass::embed, EmbedOp{.tokens = table(kPlanVocab, what_.embed_width), .out = narrow});
      p_.op(OpClass::linear, linear(narrow, x_, kPlanHidden));
      p_.op(OpClass::embed, EmbedOp{.positions = table(kPlanContext, kPlanHidden), .out = y_});
      p_.op(OpClass::embed, AddOp{.in = y_, .out = x_});
    }
    if (what_.norms_embedding) p_.op(OpClass::norm, norm(x_, x_, kPlanHidden, Norm::layer));
  }

  void write_qkv(BufferId in, std::int64_t queries, std::int64_t keys) {
    if (!what_.splits_qkv) return p_.op(OpClass::linear, linear(in, qkv_, queries + 2 * keys));
    for (const auto& [outputs, column] :
         {std::pair{keys, queries + keys}, {keys, queries}, {queries, std::int64_t{0}}}) {
      LinearOp op = linear(in, qkv_, outputs);
      op.out_column = column;
      p_.op(OpClass::linear, std::move(op));
    }
  }
  void norm_queries_and_keys(std::int64_t queries, std::int64_t keys) {
    if (what_.qk_norm == QkNorm::none) return;
    const bool is_whole = what_.qk_norm == QkNorm::whole;
    for (const auto& [column, columns] : {std::pair{std::int64_t{0}, queries}, {queries, keys}}) {
      NormOp op = norm(qkv_, qkv_, is_whole ? columns : what_.head_dim, what_.norm);
      op.column = column;
      op.groups = static_cast<int>(is_whole ? 1 : columns / what_.head_dim);
      p_.op(OpClass::norm, op);
    }
  }
  AttentionOp attention(int layer) const {
    AttentionOp op{.layer = layer,
                   .heads = what_.heads,
                   .kv_heads = what_.kv_heads,
                   .head_dim = what_.head_dim,
                   .scale = 0.5F,
                   .window = layer % 2 == 0 ? what_.window : 0,
                   .soft_cap = what_.attention_cap,
                   .qkv = qkv_,
                   .out = attended_};
    for (int head = 0; what_.has_alibi && head < what_.heads; ++head)
      op.alibi_slopes.push_back(std::exp2(-static_cast<float>(head + 1)));
    return op;
  }
  // x += what a product of `in` gives, normed first in post-norm models.
  void add_to_stream(BufferId in) {
    if (!what_.is_post_norm) return p_.op(OpClass::linear, linear(in, x_, kPlanHidden, true));
    p_.op(OpClass::linear, linear(in, y_, kPlanHidden));
    p_.op(OpClass::norm, norm(y_, y_, kPlanHidden, what_.norm));
    p_.op(OpClass::linear, AddOp{.scale = what_.residual_scale, .in = y_, .out = x_});
  }
  BufferId input_of_block() {
    if (what_.is_post_norm) return x_;
    p_.op(OpClass::norm, norm(x_, h_, kPlanHidden, what_.norm));
    return h_;
  }
  void write_layer(int layer, std::int64_t queries, std::int64_t keys) {
    const BufferId in = input_of_block();
    write_qkv(in, queries, keys);
    norm_queries_and_keys(queries, keys);
    if (what_.rotary_pairs > 0) {
      RotaryOp op{.buffer = qkv_,
                  .heads = what_.heads + what_.kv_heads,
                  .head_dim = what_.head_dim,
                  .pairing = what_.pairing,
                  .frequencies = {}};
      for (std::int64_t i = 0; i < what_.rotary_pairs; ++i)
        op.frequencies.push_back(std::pow(0.3F, static_cast<float>(i)));
      p_.op(OpClass::attention, std::move(op));
    }
    p_.op(OpClass::attention, attention(layer));
    add_to_stream(attended_);
    const BufferId mlp_in = what_.is_parallel ? in : input_of_block();
    if (what_.is_gated) {
      p_.op(OpClass::linear, linear(mlp_in, gate_up_, 2 * kPlanMlp));
      p_.op(OpClass::linear, GatedOp{.activation = Activation::silu, .in = gate_up_, .out = mlp_});
    } else {
      LinearOp op = linear(mlp_in, mlp_, kPlanMlp);
      op.activation = Activation::gelu_erf;
      p_.op(OpClass::linear, std::move(op));
    }
    add_to_stream(mlp_);
  }

  void finish() {
    Plan& plan = p_.plan;
    plan.hidden = x_;
    if (what_.embed_width > 0) {
      plan.hidden = p_.buffer(what_.embed_width);
      p_.op(OpClass::linear, linear(x_, plan.hidden, what_.embed_width));
    }
    const std::int64_t width = plan.buffers[static_cast<std::size_t>(plan.hidden)].columns;
    if (what_.has_final_norm) plan.head.norm = norm(plan.hidden, kNone, width, what_.norm);
    plan.head.product.weight = p_.matrix(kPlanVocab, width, what_.format);
    if (what_.has_head_bias) plan.head.product.bias = p_.vector(kPlanVocab, 0, 2);
    plan.head.scale = what_.head_scale;
    plan.head.soft_cap = what_.head_cap;
    plan.vocab = kPlanVocab;
    plan.context = kPlanContext;
    plan.layers = kPlanLayers;
    plan.kv_heads = what_.kv_heads;
    plan.head_dim = what_.head_dim;
    plan.kv_format = what_.kv_format;
  }

  Ingredients what_;
  HandWrittenPlan p_;
  BufferId x_ = kNone, h_ = kNone, y_ = kNone, qkv_ = kNone, attended_ = kNone, gate_up_ = kNone,
           mlp_ = kNone;
};

inline HandWrittenPlan written(const Ingredients& what) {
  return IngredientsWriter(what).write();
}

inline const Ingredients kPlans[] = {
    {.name = "plain", .has_positions = true, .norm = Norm::layer},
    {.name = "qwen3", .qk_norm = QkNorm::by_head, .rotary_pairs = 5, .is_gated = true},
    {.name = "olmo2", .is_post_norm = true, .qk_norm = QkNorm::whole, .rotary_pairs = 5, .is_gated = true},
    {.name = "qk_layer_norm", .splits_qkv = true, .qk_norm = QkNorm::by_head, .norm = Norm::layer},
    {.name = "bloom", .kv_heads = 4, .norms_embedding = true, .has_alibi = true, .norm = Norm::layer},
    {.name = "falcon_rw", .kv_heads = 1, .is_parallel = true, .has_alibi = true, .norm = Norm::layer},
    {.name = "opt_350m",
     .embed_width = 24,
     .is_post_norm = true,
     .norm = Norm::layer,
     .has_final_norm = false},
    {.name = "phi",
     .kv_heads = 4,
     .is_parallel = true,
     .rotary_pairs = 2,
     .norm = Norm::layer,
     .has_head_bias = true},
    {.name = "gptj",
     .kv_heads = 4,
     .is_parallel = true,
     .rotary_pairs = 3,
     .pairing = RotaryPairing::neighbours,
     .norm = Norm::layer,
     .has_head_bias = true},
    {.name = "gemma2",
     .is_post_norm = true,
     .rotary_pairs = 5,
     .window = 3,
     .attention_cap = 1.5F,
     .is_gated = true,
     .gain_offset = 1,
     .embed_scale = 2.5F,
     .head_cap = 3},
    {.name = "granite",
     .is_post_norm = true,
     .rotary_pairs = 5,
     .is_gated = true,
     .residual_scale = 0.22F,
     .head_scale = 0.3F},
    {.name = "cohere", .is_parallel = true, .rotary_pairs = 5, .is_gated = true, .head_scale = 0.0625F},
    {.name = "everything",
     .heads = 8,
     .kv_heads = 1,
     .norms_embedding = true,
     .splits_qkv = true,
     .qk_norm = QkNorm::by_head,
     .rotary_pairs = 5,
     .window = 9,
     .attention_cap = 2,
     .has_alibi = true,
     .is_gated = true,
     .has_head_bias = true,
     .head_scale = 1.5F,
     .head_cap = 4},
};

}  // namespace assay::test
