// Items of a task's file: each form, and what of a file is refused.
#include "assay/session/task_items.h"

#include <gtest/gtest.h>

#include "assay/base/error.h"

namespace assay {
namespace {

TaskItem only_item(const std::string& line) {
  const TaskItems items = parse_task_items(line + "\n", "t.jsonl");
  EXPECT_EQ(items.items.size(), 1U);
  return items.items.at(0);
}

using Requests = std::vector<TaskRequest>;

TEST(TaskItems, OfChoices) {
  const TaskItem item = only_item(R"({"prompt": "Two and", "choices": ["two", "three"], "answer": 1})");
  EXPECT_EQ(item.requests, (Requests{{"Two and", " two"}, {"Two and", " three"}}));
  EXPECT_EQ(item.answer, 1);
  EXPECT_EQ(item.line, 1);
  EXPECT_EQ(only_item(R"({"prompt": "", "choices": ["two", "three"], "answer": "three"})").answer, 1);
  EXPECT_EQ(only_item(R"({"prompt": "", "choices": ["1", "0"], "answer": "0"})").answer, 1)
      << "a choice first";
  EXPECT_EQ(only_item(R"({"prompt": "p", "choices": ["a", "b"], "answer": 0, "delimiter": ""})").requests,
            (Requests{{"p", "a"}, {"p", "b"}}));
}

TEST(TaskItems, OfContexts) {
  const TaskItem item =
      only_item(R"({"contexts": ["The cat", "The dog"], "continuation": "barked.", "answer": 1})");
  EXPECT_EQ(item.requests, (Requests{{"The cat", " barked."}, {"The dog", " barked."}}));
  EXPECT_EQ(item.choices, (std::vector<std::string>{"The cat", "The dog"}));
}

TEST(TaskItems, OfCompletions) {
  const TaskItems items = parse_task_items(
      "\n{\"prompt\": \"To be or not to\", \"completion\": \"be\"}\n{\"prompt\": \"a\", \"completion\": \" "
      "b\"}\n",
      "t.jsonl");
  EXPECT_EQ(items.kind, TaskKind::completion);
  EXPECT_EQ(items.items[0].requests, (Requests{{"To be or not to", " be"}}));
  EXPECT_EQ(items.items[1].requests, (Requests{{"a", " b"}})) << "no second blank";
  EXPECT_EQ(items.items[0].line, 2);
}

TEST(TaskItems, OfTheAuthorsOfArc) {
  const TaskItem item = only_item(
      R"({"id": "x", "question": {"stem": "Why?", "choices": [{"text": "a", "label": "A"}, {"text": "b", "label": "B"}]}, "answerKey": "B"})");
  EXPECT_EQ(item.requests, (Requests{{"Question: Why?\nAnswer:", " a"}, {"Question: Why?\nAnswer:", " b"}}));
  EXPECT_EQ(item.answer, 1);
}

TEST(TaskItems, OfMmluTakeLettersToo) {
  const TaskItem item = only_item(
      R"({"question": "Q ", "subject": "world_religions", "choices": ["w", "x", "y", "z"], "answer": "C"})");
  EXPECT_EQ(item.answer, 2);
  EXPECT_EQ(item.requests[3],
            (TaskRequest{"The following are multiple choice questions (with answers) about world "
                         "religions.\n\nQ\nA. w\nB. x\nC. y\nD. z\nAnswer:",
                         " D"}));
}

TEST(TaskItems, OfABadLineSayWhichAndWhy) {
  const std::string good = R"({"prompt": "p", "choices": ["a", "b"], "answer": 0})";
  for (const auto& [line, words] : std::vector<std::pair<std::string, std::string>>{
           {R"({"prompt": "p", "choices": ["a", "b"]})", "t.jsonl:2: the key 'answer' is missing"},
           {R"({"prompt": "p", "choices": ["a"], "answer": 0})",
            "t.jsonl:2: choices: expected two choices or more, found 1"},
           {R"({"prompt": "p", "choices": ["a", "b"], "answer": 2})",
            "t.jsonl:2: answer: expected 0 to 1, the place of a choice, found 2"},
           {R"({"prompt": "p", "choices": ["a", "b"], "answer": -1})", "t.jsonl:2: answer: expected 0 to 1"},
           {R"({"prompt": "p", "choices": ["a", "b"], "answer": "c"})",
            "t.jsonl:2: answer: expected one of the choices or its place, found 'c'"},
           {R"({"prompt": "p", "choices": ["a", ""], "answer": 0})",
            "t.jsonl:2: choices[1]: expected a choice, found an empty text"},
           {R"({"prompt": 3, "choices": ["a", "b"], "answer": 0})", "t.jsonl:2: prompt: expected"},
           {R"({"prompt": "p", "completion": "a"})",
            "t.jsonl:2: expected items of one form, choices as before, found completion"},
           {R"({"question": "p"})", "t.jsonl:2: expected keys prompt, choices and answer"},
           {R"({"prompt": "p")", "t.jsonl:2"},
           {"7",
            "t.jsonl:2: expected an object, as in {\"prompt\": ..., \"choices\": [...], \"answer\": 0}, "
            "found"}})
    try {
      parse_task_items(good + "\n" + line + "\n", "t.jsonl");
      FAIL() << line;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(words)) << error.what();
    }
  EXPECT_THROW(parse_task_items("\n", "t.jsonl"), Error);
  const auto refuses = [](const std::string& line, std::string_view words) {
    try {
      only_item(line);
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refuses(R"({"sentence": "no gap", "option1": "a", "option2": "b", "answer": "1"})", "expected a gap '_'");
  refuses(R"({"sentence": "a _", "option1": "a", "option2": "b", "answer": "3"})", "answer: expected one of");
  refuses(R"({"sentence": "a _", "option1": "a", "option2": "b", "answer": ""})", "answer: expected one of");
  refuses(R"({"goal": "g", "sol1": "a", "sol2": "b"})", "the key 'label' is missing");
  refuses(R"({"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "C"})",
          "answerKey: expected one of the labels A, B, found 'C'");
}

}  // namespace
}  // namespace assay
