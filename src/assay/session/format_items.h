// The parts of a model that have one storage format each, and a loaded model whose parts change theirs: what
// each of them loses in a format is measured on the same tokens, without loading the model anew.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/base/units.h"
#include "assay/generate/divergence.h"
#include "assay/model/model.h"
#include "assay/plan/plan.h"
#include "assay/quant/recipe.h"
#include "assay/session/load.h"

namespace assay {

// Matrices that are multiplied together and so share a format: query, key and value projections are one item,
// gate and up projections another, the LM head (with the embedding, where they are tied) the last.
struct FormatItem {
  std::string name;          // "model.layers.0.self_attn.q_proj+k_proj+v_proj"; "lm_head"
  std::string kind;          // without the layer: "model.layers.*.self_attn.q_proj+k_proj+v_proj"
  std::optional<int> layer;  // none outside the blocks
  std::vector<std::string> modules = {};  // whose format a recipe says; none of the LM head
  WeightId weight = kNone;                // its number in the plan
};
// In the order of the plan, the LM head last.
std::vector<FormatItem> format_items(const Plan& plan);

// The recipe that gives each item its format: the format that most modules have as the default, one rule for
// modules of a kind that agree in all layers, and one for each other module.
Recipe recipe_of_items(const std::string& name, std::span<const FormatItem> items,
                       std::span<const WeightFormat> formats);

// A loaded model in float32 or bfloat16, and a second copy of it whose items take other formats. Both run on
// the CPU. The copy with a format for each item computes what the model computes when it is loaded with
// recipe(formats), and the dtype bfloat16 where the baseline has that.
inline constexpr std::int64_t kKeptLogits = std::int64_t{1} << 30;

class ItemExchange {
 public:
  // `base` is what load_model_and_tokenizer() makes of the precision float32 or bfloat16; its weights are
  // loaded once more. Throws Error where it is in another precision, and as loading does.
  explicit ItemExchange(LoadedModel base, std::function<bool()> should_stop = {});

  const LoadedModel& base() const { return base_; }
  const std::vector<FormatItem>& items() const { return items_; }

  // Whether the item's inputs are whole blocks of the format, and how many inputs it has.
  bool takes(std::size_t item, const WeightFormat& format) const;
  std::int64_t inputs_of(std::size_t item) const;

  // Throws Error naming the item where a device does not run the format, or a weight cannot be quantized.
  void set(std::size_t item, const WeightFormat& format);
  void set_all(std::span<const WeightFormat> formats);  // one for each item
  // In the baseline's format again: one, or all.
  void restore(std::size_t item) { set(item, base_format_); }
  void restore();
  const WeightFormat& base_format() const { return base_format_; }

  // KL and the like of the copy against the model as it was loaded, whose logits are kept for the next
  // measure of the same tokens where they take at most kKeptLogits and a quarter of the memory there is.
  // Throws as measure_divergence(), and Error where the copy's logits are not finite.
  Divergence measure(std::span<const TokenId> ids, std::optional<std::int64_t> context = {});

  // Seconds of decode steps of one token, a step of the model as it was loaded and one of the copy in turns,
  // so that both see the same machine: `steps` of each (fewer where the context ends), behind a prompt of
  // the ids, of which there must be one.
  struct StepTimes {
    std::vector<double> base, copy;
  };
  StepTimes time_steps(std::span<const TokenId> ids, std::int64_t steps);

  // What the item takes, with scales; and everything that is no item: norms, biases, other embeddings.
  Bytes bytes(std::size_t item, const WeightFormat& format);
  Bytes other_bytes() const;

 private:
  const Plan& plan_in(const WeightFormat& format);

  LoadedModel base_, copy_;
  WeightFormat base_format_;
  KeptBaseline kept_;
  std::function<bool()> should_stop_;
  std::unique_ptr<WeightSource> source_;
  std::vector<FormatItem> items_;
  std::vector<WeightFormat> formats_;  // that the copy has now
  std::map<std::string, Plan> plans_;  // by the format of all their matrices
};

}  // namespace assay
