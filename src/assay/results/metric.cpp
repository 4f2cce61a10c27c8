#include "assay/results/metric.h"

#include <stdexcept>
#include <string>

namespace assay {

namespace {

constexpr Metric kCatalogue[] = {
    {"total_latency_s", "Latency", "s", Better::lower,
     "From handing the prompt's ids to the model to the last new token, device synchronised before both "
     "readings; prefill included, tokenization and loading excluded."},
    {"tokens_generated", "New tokens", "tokens", Better::neither,
     "Ids generated, counted as ids and never by re-tokenizing text."},
    {"tokens_per_sec", "Tokens/s", "tokens/s", Better::higher,
     "tokens_generated / total_latency_s; of a test of assay bench: tokens of all its sequences / its median "
     "time."},
    {"avg_latency_per_token_ms", "ms/token", "ms", Better::lower,
     "1000 * total_latency_s / tokens_generated."},
    {"time_to_first_token_s", "First token", "s", Better::lower,
     "From handing the prompt's ids to the model to the choice of the first new token."},
    {"prompt_tokens", "Prompt", "tokens", Better::neither, "Ids of the prompt."},
    {"prefill_tokens_per_sec", "Prefill tokens/s", "tokens/s", Better::higher,
     "prompt_tokens / time of the first step, model and head, timed on its own."},
    {"decode_tokens_per_sec", "Decode tokens/s", "tokens/s", Better::higher,
     "New tokens after the first of each sequence / the summed time of their steps, model and head, each "
     "step "
     "timed on its own."},
    {"tokenize_s", "Tokenize", "s", Better::lower, "Turning the prompt's text into ids; in no other figure."},
    {"load_s", "Load", "s", Better::lower,
     "Reading, converting, quantizing and packing the weights; running the calibration text where one is "
     "needed."},
    {"memory_bytes", "Memory", "B", Better::lower,
     "Parameters and buffers in the precision's width, tied weights once: what Transformers' "
     "get_memory_footprint() counts."},
    {"resident_weights_bytes", "Resident weights", "B", Better::lower,
     "Bytes of the weights as they lie in memory, padding of the packed layout included."},
    {"workspace_bytes", "Workspace", "B", Better::lower, "Bytes of activations and logits, allocated once."},
    {"peak_rss_bytes", "Peak RSS", "B", Better::lower,
     "Largest resident set of the process so far, as the kernel counts it (VmHWM)."},
    {"loss", "Loss", "nats/token", Better::lower,
     "Negative log-likelihood of the scored tokens, summed in double and divided by their number."},
    {"perplexity", "Perplexity", "", Better::lower,
     "exp(loss) over the whole text, by the protocol named beside it."},
    {"tokens_scored", "Scored", "tokens", Better::neither,
     "Tokens that the loss is the mean of; each is scored once."},
    {"prefill_latency_s", "Prefill", "s", Better::lower,
     "The first step over all prompts, model and head, timed on its own."},
    {"decode_latency_s", "Decode", "s", Better::lower,
     "The steps after the first, model and head, each timed on its own, summed."},
    {"sampling_s", "Sampling", "s", Better::lower,
     "Choosing tokens from logits outside the head's own arithmetic; 0 for plain greedy choice."},
    {"detokenize_s", "Detokenize", "s", Better::lower, "Turning the new ids into text; in no other latency."},
    {"end_to_end_s", "End to end", "s", Better::lower,
     "From the prompts' text to the new tokens' text, tokenization and detokenization included; loading "
     "excluded. Timed on its own."},
    {"step_latency_ms", "Step", "ms", Better::lower,
     "Median of the decode steps of a run, all its sequences together."},
    {"position", "Position", "tokens", Better::neither, "Tokens that a sequence holds when a step begins."},
    {"inter_token_p90_ms", "p90 token", "ms", Better::lower,
     "The time between tokens that nine of ten decode steps of a run stay below; given for ten steps or "
     "more."},
    {"sequences", "Sequences", "sequences", Better::neither, "Prompts of a run, over all its batches."},
    {"tokens_per_sec_per_sequence", "Tokens/s/seq", "tokens/s", Better::higher,
     "New tokens of one sequence / time of its batch from its prompts' ids to its last token."},
    {"computed_prompt_tokens", "Computed", "tokens", Better::neither,
     "Prompt tokens that were computed, padding included."},
    {"padding_waste_percent", "Waste", "%", Better::lower, "100 * padding tokens / computed prompt tokens."},
    {"padded_tokens_per_sec", "Padded tok/s", "tokens/s", Better::neither,
     "Prompt tokens, padding included, and new tokens / latency: what counting padding as work would claim."},
    {"real_tokens_per_sec", "Real tok/s", "tokens/s", Better::higher,
     "Prompt tokens without padding, and new tokens / latency."},
    {"quantized_weights_percent", "Quantized", "%", Better::neither,
     "100 * elements in quantized tensors / elements of all tensors."},
    {"bits_per_weight", "Bits/weight", "bit", Better::lower,
     "8 * bytes of all weights, scales included / elements of all tensors."},
    {"outlier_columns_percent", "Outliers", "%", Better::neither,
     "Of llm-int8: 100 * input columns that were apart as outliers / input columns of its products."},
    {"saturation_percent", "Saturated", "%", Better::lower,
     "Of int8-static: 100 * inputs beyond the calibrated range / inputs, over the calibration text."},
    {"head_computed_percent", "Head", "%", Better::lower,
     "Of a screened head: 100 * outputs that were computed exactly / outputs, over the run's tokens."},
    {"kv_cache_bytes", "KV cache", "B", Better::lower,
     "Keys and values at the end of the case, in whole blocks of 64 positions."},
    {"predicted_memory_bytes", "Predicted", "B", Better::lower,
     "Weights as packed, activations and keys and values of the case, counted from the plan before loading."},
    {"measured_memory_bytes", "Measured", "B", Better::lower,
     "Largest anonymous memory of the process while the case ran once, without what it held before loading."},
    {"roof_latency_s", "Roof", "s", Better::neither,
     "The least time that the measured roofs allow the case: for each step the longer of its bytes / read "
     "bandwidth at its working set and its FLOPs / multiply peak, measured just before each run."},
    {"quantize_s", "Quantize", "s", Better::lower,
     "What loading takes longer than the baseline's loading: reading, quantizing and packing."},
    {"break_even_tokens", "Break-even", "tokens", Better::lower,
     "New tokens after which the time saved per token has paid for the longer loading."},
    {"perplexity_ratio", "PPL ratio", "", Better::lower,
     "Perplexity / the baseline's over the same tokens: exp of the mean difference of their losses."},
    {"latency_ratio", "Against typical", "", Better::neither,
     "Median latency / that of the typical prompt with the same number of new tokens."},
    {"bytes_per_token", "Bytes/token", "B", Better::lower,
     "Weights, keys and values that a test must read at least, each once per step, counted from the plan / "
     "tokens of all sequences."},
    {"flops_per_token", "FLOP/token", "FLOP", Better::neither,
     "Multiplications and additions that a test must do at least, counted from the plan / tokens of all "
     "sequences."},
    {"achieved_gb_s", "GB/s", "GB/s", Better::higher, "Bytes of a test / its median time; GB = 1e9 bytes."},
    {"achieved_gflops", "GFLOPS", "GFLOP/s", Better::higher, "FLOPs of a test / its median time."},
    {"roof_gb_s", "Roof GB/s", "GB/s", Better::neither,
     "Median of what a plain read loop reaches on the same threads between the repeats of the test, over the "
     "model's own weights and as many bytes besides as a step reads, 1 GiB at most."},
    {"roof_gflops", "Roof GFLOPS", "GFLOP/s", Better::neither,
     "Median of what a loop of the kernels' multiply instruction reaches on the same threads between the "
     "repeats of the test."},
    {"percent_of_roof", "Of roof", "%", Better::higher,
     "100 * the longer of the two times that the roofs allow, for the bytes and for the FLOPs / median time "
     "of the test."},
};

}  // namespace

std::span<const Metric> metric_catalogue() {
  return kCatalogue;
}

const Metric& metric(std::string_view tag) {
  for (const Metric& m : kCatalogue)
    if (m.tag == tag) return m;
  throw std::logic_error("no metric " + std::string(tag));
}

}  // namespace assay
