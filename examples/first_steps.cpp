// Loads a model, lets it write, scores a sentence, and shows the tokens that it finds most likely next.
// usage: first_steps [MODEL] [PRECISION]
#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "assay/assay.h"

int main(int argc, char** argv) try {
  const assay::LanguageModel model =
      assay::load(argc > 1 ? argv[1] : "demo", {.precision = argc > 2 ? argv[2] : "auto"});
  std::printf("dtype %s, a context of %lld tokens\n", model.dtype().c_str(),
              static_cast<long long>(model.context()));

  const std::string prompt = "The captain of the ship";
  const assay::TimedGeneration told = model.generate(prompt, {.max_new_tokens = 24});
  std::printf("%s[%s]\n", prompt.c_str(), told.text.c_str());

  const assay::Score score = model.score("The sea was calm that evening.");
  std::printf("perplexity %.1f over %lld tokens\n", score.perplexity,
              static_cast<long long>(score.tokens_scored));

  const std::vector<assay::TokenId> ids = model.ids_of(prompt);
  const assay::Logits logits = model.logits(ids);
  const auto last = logits.row(logits.rows - 1);
  std::vector<assay::TokenId> order(last.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + 3, order.end(), [&](assay::TokenId a, assay::TokenId b) {
    return last[static_cast<std::size_t>(a)] > last[static_cast<std::size_t>(b)];
  });
  for (int i = 0; i < 3; ++i)
    std::printf("next: '%s'\n",
                model.text_of(std::vector<assay::TokenId>{order[static_cast<std::size_t>(i)]}).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
