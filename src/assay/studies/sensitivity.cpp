#include "assay/studies/sensitivity.h"

#include <algorithm>
#include <utility>

#include "assay/base/error.h"

namespace assay {

namespace {

void add_to(std::vector<double>& sum, const std::vector<double>& more) {
  sum.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

// Sums of items by a key, token by token, so that their intervals know what items have in common.
struct SummedRows {
  std::vector<SensitivityRow> rows;
  std::vector<std::vector<double>> kl;

  void add(const std::string& name, std::optional<int> layer, const SensitivityRow& item,
           const std::vector<double>& item_kl) {
    const auto same = [&](const SensitivityRow& row) { return row.name == name; };
    const auto at = std::find_if(rows.begin(), rows.end(), same) - rows.begin();
    if (static_cast<std::size_t>(at) == rows.size()) {
      rows.push_back({.name = name, .kind = "", .layer = layer, .items = 0, .kl = {}, .top1_agreement = {}});
      kl.emplace_back();
    }
    SensitivityRow& row = rows[static_cast<std::size_t>(at)];
    ++row.items;
    row.bytes = row.bytes + item.bytes;
    row.base_bytes = row.base_bytes + item.base_bytes;
    add_to(kl[static_cast<std::size_t>(at)], item_kl);
  }
  std::vector<SensitivityRow> finish() {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].kl = statistics::token_mean(kl[i]);
    return std::move(rows);
  }
};

void sort_by_kl(std::vector<SensitivityRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SensitivityRow& a, const SensitivityRow& b) { return a.kl.value > b.kl.value; });
}

}  // namespace

bool adds_up(const Sensitivity& found) {
  return found.ratio() <= kAdditiveFactor && found.ratio() * kAdditiveFactor >= 1;
}

TokenKl measure_tokens(ItemExchange& model, std::span<const TokenId> ids, const SensitivityOptions& options,
                       std::string* protocol) {
  const Divergence found =
      model.measure(ids, options.context == 0 ? std::nullopt : std::optional(options.context));
  if (protocol != nullptr) *protocol = found.protocol;
  TokenKl tokens;
  for (const TokenDivergence& token : found.candidates.front().tokens) {
    tokens.kl.push_back(token.kl);
    tokens.same_top1.push_back(token.same_top1 ? 1 : 0);
  }
  return tokens;
}

Sensitivity measure_sensitivity(ItemExchange& model, const WeightFormat& format, std::span<const TokenId> ids,
                                const SensitivityOptions& options) {
  Sensitivity found;
  found.format = format;
  found.baseline = recipe_name_of(model.base_format());
  const std::vector<FormatItem>& items = model.items();
  const auto passes = static_cast<std::int64_t>(items.size()) + 1;
  const auto progress = [&](const std::string& what, std::int64_t done) {
    if (options.on_progress) options.on_progress(what, done, passes);
  };
  SummedRows kinds, layers;
  std::vector<double> sum;
  std::vector<WeightFormat> all;  // that the items have together
  model.restore();
  for (std::size_t i = 0; i < items.size(); ++i) {
    all.push_back(model.takes(i, format) ? format : model.base_format());
    if (!model.takes(i, format)) {
      found.left_out.push_back(items[i].name);
      continue;
    }
    progress(items[i].name, static_cast<std::int64_t>(i));
    model.set(i, format);
    const TokenKl tokens = measure_tokens(model, ids, options, &found.protocol);
    model.restore(i);
    found.items.push_back({.name = items[i].name,
                           .kind = items[i].kind,
                           .layer = items[i].layer,
                           .kl = statistics::token_mean(tokens.kl),
                           .top1_agreement = statistics::token_mean(tokens.same_top1),
                           .bytes = model.bytes(i, format),
                           .base_bytes = model.bytes(i, model.base_format())});
    const SensitivityRow& row = found.items.back();
    kinds.add(row.kind, std::nullopt, row, tokens.kl);
    if (row.layer) layers.add(fmt::format("layer {}", *row.layer), row.layer, row, tokens.kl);
    add_to(sum, tokens.kl);
  }
  if (found.items.empty())
    throw Error("{}: no weight has a multiple of {} inputs, which a block of {} has", model.base().id,
                block_inputs(format), recipe_name_of(format));
  progress("all together", passes - 1);
  model.set_all(all);
  const TokenKl together = measure_tokens(model, ids, options);
  model.restore();
  found.tokens_scored = std::ssize(together.kl);
  found.together = statistics::token_mean(together.kl);
  found.together_top1 = statistics::token_mean(together.same_top1);
  found.sum = statistics::token_mean(sum);
  found.kinds = kinds.finish();
  found.layers = layers.finish();
  sort_by_kl(found.items);
  sort_by_kl(found.kinds);
  return found;
}

WeightFormat format_from_name(const std::string& name, const std::string& field) {
  if (const auto format = weight_format_from_name(name)) {
    if (!is_quantized(*format) || is_quantized_to(*format)) return *format;
    throw FieldError(field, "expected a format that weights can be quantized to, found '{}'", name);
  }
  try {
    const Precision precision = precision_from_name(name);
    if (!precision.needs_calibration()) return precision.weights;
  } catch (const FieldError& error) {
    throw FieldError(field, "{}", error.problem());
  }
  throw FieldError(field, "expected a precision that needs no calibration, found '{}'", name);
}

}  // namespace assay
