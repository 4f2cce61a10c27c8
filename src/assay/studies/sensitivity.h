// Where quantization hurts: how far a model is from itself in float32 (or bfloat16) when one part of it is
// quantized, the rest left as it is, and whether that adds up.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "assay/session/format_items.h"
#include "assay/statistics/divergence_statistics.h"

namespace assay {

struct SensitivityOptions {
  std::int64_t context = 0;  // tokens per window; 0: the model's context
  // Told before each forward pass: what is measured, and how many passes are done of all.
  std::function<void(const std::string& what, std::int64_t done, std::int64_t all)> on_progress = {};
};

// Per token, in text order.
struct TokenKl {
  std::vector<double> kl;         // nats
  std::vector<double> same_top1;  // 1 or 0
};

// One item in one format, or several together.
struct SensitivityRow {
  std::string name;                     // an item's, a kind of items' ("h.*.mlp.c_fc"), or "layer 3"
  std::string kind;                     // an item's; else empty
  std::optional<int> layer;             // an item's, or the layer itself
  std::int64_t items = 1;               // whose KL are summed
  statistics::Estimate kl;              // mean per token: of the item alone, or the sum of the items'
  statistics::Estimate top1_agreement;  // an item's alone
  Bytes bytes = {}, base_bytes = {};    // in the format, and in the baseline's
};

struct Sensitivity {
  WeightFormat format;
  std::string baseline = "float32";
  std::int64_t tokens_scored = 0;
  std::string protocol;
  std::vector<std::string> left_out;   // items whose inputs are no whole number of the format's blocks
  std::vector<SensitivityRow> items;   // the largest KL first
  std::vector<SensitivityRow> kinds;   // sums, the largest first
  std::vector<SensitivityRow> layers;  // sums, by layer; items outside the layers are in none
  statistics::Estimate sum;            // the sum of all items' KL
  statistics::Estimate together;       // the KL of all items quantized at once
  statistics::Estimate together_top1;
  double ratio() const { return sum.value != 0 ? together.value / sum.value : 1; }
};

// Where the KL of all parts together is within this factor of the sum, their scores can be added to choose
// among mixes: as far as it was off for formats down to 3 bits.
inline constexpr double kAdditiveFactor = 1.2;
bool adds_up(const Sensitivity& found);

// Each item alone in the format, and then all together; the model is in the baseline's format again at the
// end. Throws as ItemExchange does, and Error where the format's blocks divide the inputs of no item.
Sensitivity measure_sensitivity(ItemExchange& model, const WeightFormat& format, std::span<const TokenId> ids,
                                const SensitivityOptions& options = {});

// What the model as it is set now gives on the tokens; `protocol` receives that of the measure.
TokenKl measure_tokens(ItemExchange& model, std::span<const TokenId> ids, const SensitivityOptions& options,
                       std::string* protocol = nullptr);

// A precision or format by the name that recipes or --precision use: "nf4", "int8-dynamic", "bfloat16".
// Throws FieldError of `field` for another, and for a precision that is more than a format (int8-static).
WeightFormat format_from_name(const std::string& name, const std::string& field);

}  // namespace assay
