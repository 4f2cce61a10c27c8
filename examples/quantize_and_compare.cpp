// Writes a quantized copy of a model, and compares the perplexity of both on one text.
// usage: quantize_and_compare MODEL OUT [PRECISION] [TEXT_FILE]
#include <cstdio>
#include <exception>
#include <string>

#include "assay/assay.h"

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MODEL OUT [PRECISION] [TEXT_FILE]\n", argv[0]);
    return 2;
  }
  const std::string model = argv[1], out = argv[2];

  assay::QuantizeOptions options;
  options.config = assay::run_config_from_text(argc > 3 ? argv[3] : "nf4");
  options.replaces = true;  // what an earlier run wrote
  const assay::QuantizeReport report = assay::quantize_model(model, out, options);
  std::printf("%s: %zu matrices in %s, %.1f MB of %.1f MB, %.2f bits per weight\n", out.c_str(),
              report.tensors.size(), report.precision.c_str(),
              static_cast<double>(report.file_bytes_after) / 1e6,
              static_cast<double>(report.file_bytes_before) / 1e6, report.coverage.bits_per_weight);

  const std::string text = argc > 4 ? argv[4] : assay::shipped_file("texts/evaluate.txt").string();
  for (const std::string& folder : {model, out}) {
    const assay::LoadedModel loaded = assay::load_model_and_tokenizer({folder}, assay::RunConfig{});
    const assay::CorpusScore scored = assay::score_file(loaded, text, {.context = 256, .stride = 256});
    std::printf("%-16s perplexity %.2f over %lld tokens\n", loaded.dtype_label.c_str(),
                scored.score.perplexity, static_cast<long long>(scored.score.tokens_scored));
  }
} catch (const assay::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
