// Requests to a worker, one a line. It holds a small model, which every "load" gives again.
#include <memory>

#include <nlohmann/json.hpp>

#include "assay/backend/cpu/cpu_backend.h"
#include "assay/harness/worker_protocol.h"
#include "assay/session/load.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

constexpr int kMostRequests = 4;

// Without threads for probes, so that no case waits for rooflines, which are most of its time.
class UnprobedBackend : public cpu::CpuBackend {
 public:
  UnprobedBackend() : CpuBackend({.threads = 1}) {}
  ThreadPool* pool() override { return nullptr; }
};

LoadedModel small_model() {
  static const LoadedModel loaded = [] {
    const char* folder = std::getenv("ASSAY_FUZZ_MODEL");
    expect(folder != nullptr, "the variable ASSAY_FUZZ_MODEL names no model folder");
    return load_model_and_tokenizer(
        {folder}, {}, {.shared_backend = std::make_shared<UnprobedBackend>(), .needs_tokenizer = false});
  }();
  return loaded;
}

// Counts and lists that decide how long a request takes. Counts that would be refused stay what they are.
void shorten(nlohmann::ordered_json& json) {
  constexpr std::size_t kMostPrompts = 4;
  constexpr std::int64_t kShort = 8, kLong = 1'000'000'000;
  for (auto& [key, value] : json.items()) {
    if (value.is_structured()) shorten(value);
    const bool is_list = value.is_array() && (key == "prompts" || key == "ids");
    while (is_list && value.size() > kMostPrompts) value.erase(value.size() - 1);
    const bool is_count =
        key == "batch_size" || key == "sequences" || key == "new_tokens" || key == "tokens" || key == "depth";
    if (!is_count || !value.is_number_integer()) continue;
    const auto count = value.get<std::int64_t>();
    if (count > kShort && count < kLong) value = 1 + count % kShort;
  }
}

// A request without what would change this process or take seconds by design: a limit of its memory, a
// roofline, many sequences or tokens.
std::string harmless(const std::string& line) {
  nlohmann::ordered_json json;
  is_accepted([&] { json = parse_ordered_json(line, "request"); });
  if (!json.is_object()) return line;
  json.erase("memory_limit");
  const std::string op = json.value("op", nlohmann::ordered_json()).dump();
  if (op == "\"roofline\"" || op == "\"roof\"") json.erase("op");
  shorten(json);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM(assay::fuzz::lines())

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  WorkerServer server({}, [](const auto&, const auto&, const auto&) { return fuzz::small_model(); });
  const std::string loaded = server.answer(R"({"op":"load","model":"small"})");
  if (!loaded.starts_with(R"({"ok":true)")) fuzz::fail(loaded);
  int requests = 0;
  for (const fuzz::Part& line : fuzz::lines().split(fuzz::text_of(data, size))) {
    if (++requests > fuzz::kMostRequests || !server.is_open()) break;
    const std::string answer = server.answer(fuzz::harmless(line.text));
    fuzz::expect(nlohmann::json::parse(answer, nullptr, false).is_object(), "an answer is no JSON object");
  }
  return 0;
}
