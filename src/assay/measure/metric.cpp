#include "assay/measure/metric.h"

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
     "Steps after the first / their summed time, model and head, each step timed on its own."},
    {"tokenize_s", "Tokenize", "s", Better::lower, "Turning the prompt's text into ids; in no other figure."},
    {"load_s", "Load", "s", Better::lower, "Reading, converting and packing the weights."},
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
    {"bytes_per_token", "Bytes/token", "B", Better::lower,
     "Weights, keys and values that a test must read at least, each once per step, counted from the plan / "
     "tokens of all sequences."},
    {"flops_per_token", "FLOP/token", "FLOP", Better::neither,
     "Multiplications and additions that a test must do at least, counted from the plan / tokens of all "
     "sequences."},
    {"achieved_gb_s", "GB/s", "GB/s", Better::higher, "Bytes of a test / its median time; GB = 1e9 bytes."},
    {"achieved_gflops", "GFLOPS", "GFLOP/s", Better::higher, "FLOPs of a test / its median time."},
    {"roof_gb_s", "Roof GB/s", "GB/s", Better::neither,
     "Median of what a plain read loop reaches on the same threads between the repeats of the test, over as "
     "many bytes as a step reads, 1 GiB at most."},
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
