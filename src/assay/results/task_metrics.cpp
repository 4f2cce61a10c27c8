#include "assay/results/task_metrics.h"

namespace assay {

namespace {

using S = Scenario;

// In the order of columns. Shares are shown in per cent.
constexpr Metric kTaskMetrics[] = {
    {.tag = "accuracy",
     .title = "Accuracy",
     .head = "Accuracy",
     .unit = "",
     .better = Better::higher,
     .scale = 100,
     .shown_unit = "%",
     .decimals = 1,
     .shows_interval = true,
     .tables = {S::tradeoff, S::task},
     .rank = 2,
     .definition = "Share of items whose right choice has the highest log-likelihood, or whose completion is "
                   "what greedy decoding gives; lm-eval's acc. Its interval is Wilson's."},
    {.tag = "accuracy_norm",
     .title = "Accuracy per character",
     .head = "Accuracy/char",
     .unit = "",
     .better = Better::higher,
     .scale = 100,
     .shown_unit = "%",
     .decimals = 1,
     .tables = {S::task},
     .rank = 3,
     .definition =
         "The same by log-likelihoods divided by the characters of the choice; lm-eval's acc_norm."},
    {.tag = "accuracy_bytes",
     .title = "Accuracy per byte",
     .head = "Accuracy/byte",
     .unit = "",
     .better = Better::higher,
     .scale = 100,
     .shown_unit = "%",
     .decimals = 1,
     .definition = "The same by log-likelihoods divided by the bytes of the choice in UTF-8; lm-eval's "
                   "acc_bytes."},
    {.tag = "accuracy_change",
     .title = "Change of accuracy",
     .head = "Change",
     .unit = "",
     .better = Better::higher,
     .scale = 100,
     .shown_unit = "points",
     .decimals = 1,
     .tables = {S::task},
     .rank = 4,
     .definition = "Accuracy minus that of the baseline on the same items, with Newcombe's interval for "
                   "paired shares (method 10)."},
    {.tag = "flips",
     .title = "Flips",
     .head = "Flips",
     .unit = "items",
     .better = Better::lower,
     .tables = {S::task},
     .rank = 5,
     .definition = "Items that are right with one of the two and wrong with the other. A precision can flip "
                   "many and keep its accuracy."},
    {.tag = "flips_to_wrong",
     .title = "Flips to wrong",
     .head = "To wrong",
     .unit = "items",
     .better = Better::lower,
     .tables = {S::task},
     .rank = 6,
     .definition = "Flips from the baseline's right answer to a wrong one."},
    {.tag = "mcnemar_p",
     .title = "McNemar's p value",
     .head = "p",
     .unit = "",
     .better = Better::neither,
     .decimals = 3,
     .tables = {S::task},
     .rank = 7,
     .definition = "Chance of flips at least as uneven where both are equally accurate: binomial below 25 "
                   "flips, chi-squared with the correction for continuity from there on. Not corrected for "
                   "several precisions; verdicts are."},
    {.tag = "items",
     .title = "Items",
     .head = "Items",
     .unit = "items",
     .better = Better::neither,
     .tables = {S::task},
     .rank = 8,
     .definition = "Items of the task that were scored."},
    {.tag = "completion_perplexity",
     .title = "Perplexity per completion",
     .head = "Perplexity/completion",
     .unit = "",
     .better = Better::lower,
     .decimals = 2,
     .tables = {S::task},
     .rank = 8,
     .definition =
         "exp of the mean negative log-likelihood of a completion, however many tokens it has: what "
         "lm-eval calls the perplexity of LAMBADA."},
    {.tag = "completion_token_perplexity",
     .title = "Perplexity per token of completions",
     .head = "Perplexity/token",
     .unit = "",
     .better = Better::lower,
     .decimals = 2,
     .tables = {S::task},
     .rank = 8,
     .definition = "exp of the mean negative log-likelihood of a token of the completions."},
};

}  // namespace

std::span<const Metric> task_metrics() {
  return kTaskMetrics;
}

}  // namespace assay
