// What find_mix() measures of each part in each format: its KL alone, its bytes, and its share of a decode
// step.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "assay/studies/mix_table.h"
#include "assay/studies/sensitivity.h"

namespace assay {

// How many forward passes that takes.
std::int64_t passes_of_scores(const ItemExchange& model, std::span<const WeightFormat> candidates);

// Tells `progress` before each pass. The model is in the baseline's formats again at the end.
MixTable score_items(ItemExchange& model, std::span<const TokenId> ids,
                     std::span<const WeightFormat> candidates, const SensitivityOptions& options,
                     const std::function<void(const std::string&)>& progress);

// Adds the times. Items of a kind and size share one: all of them are exchanged, and the change of a decode
// step, in turns with the baseline's, is divided by their number, as one alone changes less than a step
// varies.
void time_items(ItemExchange& model, std::span<const TokenId> prompt,
                std::span<const WeightFormat> candidates, MixTable& table,
                const std::function<void(const std::string&)>& progress);

// Seconds of a decode step of the model as it is set now: the median.
double step_seconds(ItemExchange& model, std::span<const TokenId> prompt);

}  // namespace assay
