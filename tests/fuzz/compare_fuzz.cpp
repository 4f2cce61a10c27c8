// Two results.json, NUL between them, compared in both directions and judged by every rule.
#include <nlohmann/json.hpp>

#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/results/compare_results.h"
#include "assay/results/results_json.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

void compare(const ResultSet& a, const ResultSet& b) {
  const ComparedResults compared = compare_results(a, b, 0.03);
  report::to_terminal(report::document_of(compared), 80);
  report::to_markdown(report::document_of(compared));
  for (const FailureRule& rule :
       failure_rules("latency:3%,faster:3%,throughput:3%,memory:0%,size:0%,perplexity:1%"))
    is_accepted([&] { judge_rule(compared, rule); });
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM((assay::fuzz::sections<2, false>()))

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  const auto parts = fuzz::split_sections(fuzz::text_of(data, size), 2, false);
  fuzz::is_accepted([&] {
    const ResultSet a = results_from_json(parse_ordered_json(parts[0].text, "a.json"), "a.json");
    const ResultSet b = results_from_json(parse_ordered_json(parts[1].text, "b.json"), "b.json");
    fuzz::is_accepted([&] { fuzz::compare(a, b); });
    fuzz::is_accepted([&] { fuzz::compare(b, a); });
  });
  return 0;
}
