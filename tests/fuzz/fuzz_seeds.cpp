// usage: fuzz_seeds FOLDER
// Writes first inputs of the formats that the program writes itself, made of values as its tests have them:
// results, journals, requests, configurations and tuning. FOLDER/TARGET/NAME each.
#include <filesystem>
#include <string>
#include <variant>

#include <nlohmann/json.hpp>

#include "assay/backend/cpu/run/tuning.h"
#include "assay/backend/cuda/run/launch_tuning.h"
#include "assay/base/file.h"
#include "assay/checkpoint/bitsandbytes.h"
#include "assay/config/fields.h"
#include "assay/config/fields_json.h"
#include "assay/harness/case_json.h"
#include "assay/harness/worker_protocol.h"
#include "assay/report/written_results.h"
#include "assay/results/finding.h"
#include "assay/results/results_json.h"
#include "support/field_values.h"
#include "support/result_sets.h"

namespace {

using namespace assay;
using Document = nlohmann::ordered_json;

class Seeds {
 public:
  explicit Seeds(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void write(const std::string& target, const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(folder_ / target);
    write_file_atomically(folder_ / target / name, content);
  }

 private:
  std::filesystem::path folder_;
};

template <std::size_t... kinds>
void add_findings(ResultSet& results, std::index_sequence<kinds...>) {
  (results.findings.push_back(std::variant_alternative_t<kinds, Finding>{}), ...);
  const auto fill = [&](const char*, auto& own) {
    using Own = std::remove_reference_t<decltype(own)>;
    if constexpr (std::is_same_v<Own, Comparison> || std::is_same_v<Own, std::optional<Comparison>>)
      own = results.comparisons.front();
    else if constexpr (std::is_same_v<Own, std::vector<Comparison>>)
      own = results.comparisons;
    else if constexpr (std::is_same_v<Own, std::vector<double>>)
      own = {1, 0.01};
  };
  for (Finding& finding : results.findings) std::visit([&](auto& found) { found.fields(fill); }, finding);
}

// Rows of every scenario with steps, losses and places, and a finding of every kind.
ResultSet results_of_everything() {
  ResultSet results = test::full_results();
  for (const Scenario scenario : {Scenario::baseline, Scenario::batches, Scenario::lengths}) {
    Row row = test::measured_row(scenario, "float32", 0.3);
    row.step_s = {{0.01, 0.02}, {0.01, 0.03}};
    row.losses = LossBlocks{20, {40, 12}};
    row.absent = {{"perplexity", "it was not asked for"}};
    for (int i = 0; i < 6; ++i) row.places.push_back({i / 2, i % 2});
    row.parameters.emplace_back("position", "3");
    results.rows.push_back(row);
  }
  add_findings(results, std::make_index_sequence<std::variant_size_v<Finding>>());
  return results;
}

void write_results(const Seeds& seeds) {
  const std::string full = report::results_json(results_of_everything()).dump();
  ResultSet b = test::full_results();
  for (Row& row : b.rows)
    for (auto& [tag, value] : row.values) value.value *= 1.25;
  const std::string other = to_json(b).dump(), plain = to_json(test::full_results()).dump();
  seeds.write("results_fuzz", "everything", full);
  seeds.write("results_fuzz", "plain", plain);
  seeds.write("compare_fuzz", "unlike", plain + '\0' + other);
  seeds.write("compare_fuzz", "everything", full + '\0' + full);
}

Case a_case() {
  Case made;
  made.label = "128 tokens";
  made.prompts = {Prompt("Once upon a time"), Prompt(std::vector<TokenId>{1, 2, 3})};
  made.new_tokens = 4;
  return made;
}

Document facts() {
  SessionFacts made;
  made.model = test::full_results().model;
  made.device = "cpu";
  made.kernels = "scalar";
  made.threads = 1;
  made.context = 64;
  return to_json(made);
}

void write_journal(const Seeds& seeds) {
  const auto line = [](const char* kind, const Document& data) {
    return Document{{"kind", kind}, {"key", "k"}, {"data", data}}.dump() + "\n";
  };
  Sample sample;
  sample.step_s = {0.01, 0.02};
  const CorpusLosses losses{
      .corpus_sha256 = "ab", .protocol = "p", .log_probabilities = {-1, -2}, .tokens = 2};
  seeds.write("journal_fuzz", "every_kind",
              Document{{"journal", 4}, {"plan", "plan"}}.dump() + "\n" +
                  line("first", {{"facts", facts()}, {"first_run", to_json(FirstRun{})}}) +
                  line("sample", {{"process", 0}, {"round", 1}, {"sample", to_json(sample)}}) +
                  line("visits", {{"processes", 3}, {"rounds", 2}}) + line("text", to_json(FirstRun{})) +
                  line("audit", to_json(std::vector<AuditRow>(1))) +
                  line("losses", {{"facts", facts()}, {"losses", to_json(losses)}}) + line("done", true));
}

void write_requests(const Seeds& seeds) {
  const auto request = [&](const std::string& op, Document more = Document::object()) {
    more["op"] = op;
    seeds.write("worker_fuzz", op, more.dump() + "\n");
  };
  const Document ids = {{1, 2, 3}, {4, 5}};
  request("facts");
  request("run", {{"case", to_json(a_case())}});
  request("first_run", {{"case", to_json(a_case())}});
  request("score", {{"file", "text"}, {"context", 16}, {"stride", 8}, {"through", "prefill"}});
  request("audit", {{"prompts", to_json(a_case().prompts)}, {"new_tokens", 2}});
  request("prefill", {{"ids", ids}});
  request("decode", {{"ids", ids}, {"new_tokens", 2}});
  request("profile", {{"ids", ids}, {"new_tokens", 2}});
  request("logits", {{"ids", ids[0]}});
  request("quit");
  request("load", {{"candidates", {"small"}},
                   {"configuration", to_json(a_case().configuration)},
                   {"needs_tokenizer", false},
                   {"constants", to_json(usual_constants())},
                   {"key", "a"}});
  Case random = a_case();
  random.prompts.clear();
  random.random_prompts = RandomPrompts{2, 4, 1};
  seeds.write("worker_fuzz", "random_prompts",
              Document{{"op", "load"}, {"model", "small"}, {"precision", "nf4"}, {"key", "b"}}.dump() + "\n" +
                  Document{{"op", "run"}, {"key", "b"}, {"case", to_json(random)}}.dump() + "\n");
}

void write_configurations(const Seeds& seeds) {
  for (const Field& field : fields()) {
    RunConfig config;
    field.parse(config, test::value_of(field));
    seeds.write("configuration_fuzz", std::string(field.key), to_json(config).dump());
  }
  seeds.write("configuration_fuzz", "recipe",
              "name = \"a\"\ndefault = \"nf4\"\nlm_head = \"int8\"\n\n[[modules]]\nmatch = \"*.attn.*\"\n"
              "format = \"int8\"\n");
  seeds.write(
      "configuration_fuzz", "toml",
      "model = 'demo' # a model\nthreads = 2\ncpu_mask = 0x3\nexclude = [\"h.0.\", \"h.1.\"]\n"
      "llm_int8_threshold = 4.5e0\nnewlines = \"\"\"\nkeep\"\"\"\n[table]\nat = 1979-05-27T07:32:00Z\n");
  seeds.write("configuration_fuzz", "text", "nf4+head+activations:int8@cuda:0");
  seeds.write("configuration_fuzz", "rules",
              "latency:3%,faster:3%,throughput:3%,memory:0%,size:0%,perplexity:1%");
}

void write_tuning(const Seeds& seeds) {
  const Tuning tuning{.constants = usual_constants(),
                      .gain = 1.5,
                      .grouped_gain = 1.5,
                      .many_rows_gain = 1.25,
                      .is_measured = true};
  seeds.write("tuning_fuzz", "tuning", cpu::with_tuning("", "key", tuning));
  cuda::LaunchChoices launches;
  launches.put({.outputs = 4, .inputs = 8}, {.choice = {.loads = 1, .kernel = 2}, .gain = 1.5});
  launches.put({.outputs = 4, .inputs = 8, .rows = 8}, {.is_measured = false});
  seeds.write("tuning_fuzz", "launches", cuda::with_launches("", "key", launches));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  const Seeds seeds(argv[1]);
  write_results(seeds);
  write_journal(seeds);
  write_requests(seeds);
  write_configurations(seeds);
  write_tuning(seeds);
  return 0;
}
