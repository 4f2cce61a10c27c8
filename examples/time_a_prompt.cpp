// Loads a model, continues a prompt under the clock, and scores a text.
// usage: time_a_prompt [MODEL] [PROMPT] [TEXT_FILE]
#include <cstdio>
#include <exception>
#include <string>

#include "assay/assay.h"

int main(int argc, char** argv) try {
  const std::string model = argc > 1 ? argv[1] : "demo";
  const std::string prompt = argc > 2 ? argv[2] : "Once upon a time, in a land far, far away,";

  const assay::LoadedModel loaded =
      assay::load_model_and_tokenizer({model}, "float32", assay::device_from_name("auto"));
  std::puts(loaded.load_line().c_str());
  std::printf("%.1f MB of parameters\n", assay::get_model_memory_footprint(*loaded.model).megabytes());

  assay::TimeOptions options;
  options.max_new_tokens = 40;
  const assay::TimedGeneration timed = assay::time_generate(loaded, prompt, options);
  std::printf("%s[%s]\n", prompt.c_str(), timed.text.c_str());
  std::printf("%lld tokens in %.3f s: %.1f tokens/s, first token after %.1f ms\n",
              static_cast<long long>(timed.tokens_generated), timed.total_latency_s, timed.tokens_per_sec,
              1e3 * timed.time_to_first_token_s);

  const std::string text = argc > 3 ? argv[3] : assay::shipped_file("texts/evaluate.txt").string();
  std::printf("perplexity %.2f\n", assay::score_file(loaded, text).score.perplexity);
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
