// The forward pass as data: a list of operations over named buffers and weights, written once by the model
// (model/forward.cpp) and run by any backend.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "assay/base/units.h"
#include "assay/plan/ops.h"
#include "assay/plan/weights.h"

namespace assay {

// From hidden states to logits: a stage of its own, with sinks (backend.h).
struct LmHead {
  std::optional<NormOp> norm = {};  // without output buffer; none where the last block ends in one
  LinearOp product = {};            // without buffers; its bias is optional
  // Logits are multiplied by `scale`, which is positive, then become soft_cap * tanh(logit / soft_cap), 0 =
  // none. Neither changes which is highest: an argmax is that of the sums before them.
  float scale = 1, soft_cap = 0;
  bool bends_logits() const { return scale != 1 || soft_cap != 0; }
};

struct Plan {
  std::string model;  // where the weights are read from and in which precision, for messages; may be empty
  std::vector<BufferSpec> buffers;
  std::vector<WeightSpec> weights;
  std::vector<Op> ops;  // from ids to hidden states
  LmHead head;
  BufferId hidden = kNone;  // where `ops` leave the hidden states
  std::int64_t vocab = 0, context = 0;
  int layers = 0, kv_heads = 0, head_dim = 0;
  KvFormat kv_format = KvFormat::float32;
  // The backend may look for the highest logit in int8 first, if it finds the same (Precision). It keeps the
  // LM head a second time for that.
  bool has_candidate_search = false;

  const WeightSpec& weight(WeightId id) const { return weights[static_cast<std::size_t>(id)]; }
  std::vector<std::int64_t> widths() const;  // the buffers', in columns
  std::int64_t parameters() const;           // elements of all weights; tied ones once
  // As Transformers counts a footprint: codes of quantized matrices, `bytes` for every other element, no
  // scales.
  Bytes footprint(std::int64_t bytes) const;
};

// Last-token pruning: where rows whose hidden states nobody reads can be left out, as vLLM and TensorRT-LLM
// gather the last tokens before the LM head, but from the last attention on.
struct Pruning {
  // The last operation that mixes rows, if it is attention; ops.size() where rows cannot be left out. A row
  // behind it needs no other row but through keys and values.
  std::size_t attention = 0;
  // The matrix multiplication that its queries come out of, with keys and values behind them; ops.size()
  // where there is none. Queries of rows that are left out are not needed either.
  std::size_t qkv_product = 0;
  // What is read behind the attention, by the LM head too, and was written before it or by it.
  std::vector<BufferId> moved;
};
Pruning pruning_of(const Plan& plan);

}  // namespace assay
