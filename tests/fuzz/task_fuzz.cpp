// Items of a task, one JSON object a line: every form, the tokens of each request, and figures of made-up
// scores.
#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/base/tokenizer_files.h"
#include "assay/session/task_score.h"
#include "assay/text/tokenizer.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

// It has bytes and one merge, so that tokens span the border of context and continuation.
const Tokenizer& byte_tokenizer() {
  static const Tokenizer made = [] {
    Json vocab = {{"a", 256}, {" ", 257}, {" a", 258}};
    for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = byte;
    TokenizerFiles files{.where = "folder", .source = "tokenizer.json"};
    files.tokenizer = {Json{{"model",
                             {{"type", "BPE"},
                              {"byte_fallback", true},
                              {"vocab", vocab},
                              {"merges", Json::array({Json::array({" ", "a"})})}}}},
                       "tokenizer.json"};
    return Tokenizer::from_files(std::move(files));
  }();
  return made;
}

void use_request(const TaskRequest& request) {
  constexpr std::int64_t kContext = 24;
  is_accepted([&] {
    const TaskTokens tokens = task_tokens(byte_tokenizer(), 0, request, kContext, "task.jsonl:1");
    expect(!tokens.continuation.empty(), "a continuation has no token");
    expect(std::ssize(tokens.inputs) <= kContext, "inputs exceed the context");
    expect(tokens.first_row() >= 0 && tokens.cut >= 0, "a token has no input that predicts it");
  });
}

void use_items(const TaskItems& items) {
  expect(!items.items.empty() && !items.form.empty(), "a task without items or form was accepted");
  std::vector<ItemScore> scores;
  std::int64_t line = 0;
  for (const TaskItem& item : items.items) {
    expect(!item.requests.empty(), "an item has nothing to score");
    expect(item.line > line, "lines of items do not grow");
    line = item.line;
    const bool is_choice = items.kind == TaskKind::choices;
    expect(item.choices.size() == (is_choice ? item.requests.size() : 0), "requests are not the choices");
    expect(item.answer >= 0 && item.answer < std::ssize(item.requests), "the answer is no choice");
    ItemScore& score = scores.emplace_back();
    for (const TaskRequest& request : item.requests) {
      use_request(request);
      score.log_likelihoods.push_back(-static_cast<double>(score.log_likelihoods.size() + line));
      score.tokens.push_back(1);
    }
  }
  const TaskFigures figures = figures_of(items, scores);
  expect(figures.acc >= 0 && figures.acc <= 1, "an accuracy is no share");
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM(assay::fuzz::lines())

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  fuzz::byte_tokenizer();  // here, where a refusal of its own files is a finding
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::is_accepted([&] {
    check_utf8(text, "task.jsonl");
    fuzz::use_items(parse_task_items(text, "task.jsonl"));
  });
  return 0;
}
