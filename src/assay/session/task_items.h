// Items of a task that is scored by log-likelihood, from a file with one JSON object on each line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// What lm-eval asks a model for: the log-likelihood of a continuation, delimiter included, given a context.
struct TaskRequest {
  std::string context, continuation;
  bool operator==(const TaskRequest&) const = default;
};

struct TaskItem {
  std::int64_t line = 0;              // in the file, from 1
  std::vector<TaskRequest> requests;  // one for each choice; a completion has one
  std::vector<std::string> choices;   // whose lengths normalize; empty for a completion
  std::int64_t answer = 0;            // the place of the right choice
};

enum class TaskKind {
  choices,     // the most probable continuation is the answer
  completion,  // the model is right where greedy decoding gives the completion
};

struct TaskItems {
  TaskKind kind = TaskKind::choices;
  std::string form;    // "choices", "contexts", "completion", or a data set's: "HellaSwag", "ARC", ...
  std::string sha256;  // the hash of the file
  std::vector<TaskItem> items;
};

// Items of one form; keys beside those named here are ignored, and a "delimiter" stands between prompt and
// choice or completion instead of a blank:
//   {"prompt", "choices": [...], "answer": INDEX}   the answer counts from 0, or is the text of a choice
//   {"contexts": [...], "continuation", "answer"}   the contexts differ, and one continuation is scored
//   {"prompt", "completion"}                        a completion that begins with a blank gets no delimiter
// and files as data sets are downloaded, which get the prompts of lm-eval without examples: HellaSwag
// (activity_label, ctx_a, ctx_b, endings, label), ARC (question with choices and answerKey, of either file),
// PIQA (goal, sol1, sol2, label), WinoGrande (sentence, option1, option2, answer), MMLU (question, subject,
// choices, answer), LAMBADA (text).
//   Throws Error naming file and line for a missing key, items of several forms, fewer than two choices, an
// empty choice, and an answer that is none of them.
TaskItems parse_task_items(std::string_view content, const std::string& file);
// Reads them from a file, which must be valid UTF-8. Throws Error.
TaskItems read_task_items(const std::filesystem::path& file);

}  // namespace assay
