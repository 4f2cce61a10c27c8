// Requests to a worker, one a line. It holds a small model, which every "load" gives again.
#include <memory>

#include <nlohmann/json.hpp>

#include "assay/harness/worker_protocol.h"
#include "assay/session/load.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

constexpr int kMostRequests = 6;

LoadedModel small_model() {
  static const LoadedModel loaded = [] {
    const char* folder = std::getenv("ASSAY_FUZZ_MODEL");
    expect(folder != nullptr, "the variable ASSAY_FUZZ_MODEL names no model folder");
    RunConfig config;
    config.threads = 1;
    config.isa = Isa::scalar;
    config.tune = Tune::off;
    return load_model_and_tokenizer({folder}, config, {.needs_tokenizer = false});
  }();
  return loaded;
}

// A request without what would change this process or take seconds by design: a limit of its memory, a
// roofline, a generation of many tokens.
std::string harmless(const std::string& line) {
  nlohmann::ordered_json json;
  is_accepted([&] { json = parse_ordered_json(line, "request"); });
  if (!json.is_object()) return line;
  json.erase("memory_limit");
  const std::string op = json.value("op", nlohmann::ordered_json()).dump();
  if (op == "\"roofline\"" || op == "\"roof\"") json.erase("op");
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM(assay::fuzz::lines())

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  WorkerServer server({}, [](const auto&, const auto&, const auto&) { return fuzz::small_model(); });
  server.answer(R"({"op":"load","model":"small"})");
  int requests = 0;
  for (const fuzz::Part& line : fuzz::lines().split(fuzz::text_of(data, size))) {
    if (++requests > fuzz::kMostRequests || !server.is_open()) break;
    const std::string answer = server.answer(fuzz::harmless(line.text));
    fuzz::expect(nlohmann::json::parse(answer, nullptr, false).is_object(), "an answer is no JSON object");
  }
  return 0;
}
