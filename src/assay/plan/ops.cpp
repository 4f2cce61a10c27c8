#include "assay/plan/ops.h"

namespace assay {

std::string_view name_of(OpClass phase) {
  switch (phase) {
    case OpClass::embed:
      return "embed";
    case OpClass::norm:
      return "norm";
    case OpClass::attention:
      return "attention";
    case OpClass::linear:
      return "linear";
    case OpClass::head:
      return "head";
  }
  return "?";
}

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::gelu_erf:
      return "gelu";
    case Activation::gelu_quick:
      return "quick_gelu";
    case Activation::relu:
      return "relu";
    case Activation::relu2:
      return "relu2";
    case Activation::silu:
      return "silu";
    case Activation::tanh:
      return "tanh";
  }
  return "";
}

BufferUse buffers_of(const Op& op) {
  return std::visit(Cases{[](const EmbedOp& embed) {
                            return BufferUse{{}, {embed.out}};
                          },
                          [](const NormOp& norm) {
                            return BufferUse{{norm.in}, {norm.out}};
                          },
                          [](const LinearOp& linear) {
                            BufferUse use{{linear.in}, {linear.out}};
                            if (linear.adds_to_output) use.reads.push_back(linear.out);
                            return use;
                          },
                          [](const RotaryOp& rotary) {
                            return BufferUse{{rotary.buffer}, {rotary.buffer}};
                          },
                          [](const AttentionOp& attention) {
                            return BufferUse{{attention.qkv}, {attention.out}};
                          },
                          [](const GatedOp& gated) {
                            return BufferUse{{gated.in}, {gated.out}};
                          },
                          [](const AddOp& add) {
                            return BufferUse{{add.in, add.out}, {add.out}};
                          }},
                    op.kind);
}

bool mixes_rows(const Op& op) {
  return std::visit(
      Cases{[](const EmbedOp&) { return false; }, [](const NormOp&) { return false; },
            [](const LinearOp& linear) { return linear.has_tensor_scale || linear.outlier_threshold > 0; },
            [](const RotaryOp&) { return false; }, [](const AttentionOp&) { return true; },
            [](const GatedOp&) { return false; }, [](const AddOp&) { return false; }},
      op.kind);
}

}  // namespace assay
