// The journal of a run that was cut off: its lines, and what each entry holds.
#include <nlohmann/json.hpp>

#include "assay/harness/case_json.h"
#include "assay/harness/journal.h"
#include "assay/harness/worker_protocol.h"
#include "assay/results/results_json.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

using Document = nlohmann::ordered_json;

void use_sample(const JsonReader& data) {
  data.at("process").whole<int>();
  data.at("round").whole<int>();
  const Sample sample = sample_from_json(data.at("sample"));
  const Document written = to_json(sample);
  Document again;
  expect(is_accepted([&] { again = to_json(sample_from_json(JsonReader(written))); }),
         "a sample that was written cannot be read");
  expect(written == again, "a sample that is written, read and written differs");
}

void use_losses(const JsonReader& data) {
  corpus_losses_from_json(data.at("losses"));
  session_facts_from_json(data.at("facts"));
}

// An entry is what its kind says; hostile ones are given to every reader.
void use(const Document& data) {
  const JsonReader reader(data, "journal.jsonl");
  is_accepted([&] { use_sample(reader); });
  is_accepted([&] { use_losses(reader); });
  is_accepted([&] { audit_rows_from_json(reader); });
  is_accepted([&] { first_run_from_json(reader); });
  is_accepted([&] {
    to_json(first_run_from_json(reader.at("first_run")));
    to_json(session_facts_from_json(reader.at("facts")));
  });
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM(assay::fuzz::lines())

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  fuzz::is_accepted([&] {
    read_journal(fuzz::text_of(data, size), "journal.jsonl", "plan",
                 [](const std::string&, const std::string&, const nlohmann::ordered_json& entry) {
                   fuzz::use(entry);
                 });
  });
  return 0;
}
