// Tokens per second of encode() and decode().
// The text is $ASSAY_BENCH_TEXT (default: the one that ships), the tokenizer $ASSAY_BENCH_MODEL (default:
// demo).
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "assay/base/file.h"
#include "assay/checkpoint/model_folder.h"
#include "assay/session/load.h"
#include "assay/text/tokenizer.h"

namespace {

std::string setting(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : fallback;
}

const assay::Tokenizer& tokenizer() {
  static const assay::Tokenizer t = assay::Tokenizer::load(
      assay::locate_model(setting("ASSAY_BENCH_MODEL", ASSAY_SOURCE_DIR "/models/demo")));
  return t;
}

const std::string& text() {
  static const std::string t =
      assay::read_text_file(setting("ASSAY_BENCH_TEXT", ASSAY_SOURCE_DIR "/models/demo/texts/evaluate.txt"));
  return t;
}

void encode(benchmark::State& state) {
  std::size_t tokens = 0;
  for (auto _ : state) tokens += tokenizer().encode(text()).size();
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsRate);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text().size()));
}
BENCHMARK(encode)->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const auto ids = tokenizer().encode(text());
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().decode(ids));
  state.counters["tokens/s"] = benchmark::Counter(
      static_cast<double>(ids.size()) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
