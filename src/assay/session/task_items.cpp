#include "assay/session/task_items.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/base/json_lines.h"
#include "assay/base/sha256.h"
#include "assay/text/python_text.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

constexpr std::int64_t kMaxChoices = 1000;

bool begins_with_space(std::string_view text) {
  return !text.empty() && stripped(text).data() != text.data();
}

std::string delimiter_of(const JsonReader& line) {
  return line.has("delimiter") ? line.at("delimiter").text() : " ";
}

std::vector<std::string> choices_at(const JsonReader& at) {
  std::vector<std::string> choices = at.texts();
  if (choices.size() < 2) at.fail(fmt::format("expected two choices or more, found {}", choices.size()));
  if (std::ssize(choices) > kMaxChoices)
    at.fail(fmt::format("expected at most {} choices, found {}", kMaxChoices, choices.size()));
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (choices[i].empty()) at.at(i).fail("expected a choice, found an empty text");
  return choices;
}

// A place from `first` on, or one of the texts.
std::int64_t answer_at(const JsonReader& at, const std::vector<std::string>& choices,
                       std::int64_t first = 0) {
  const auto count = std::ssize(choices);
  if (at.is_number()) {
    const std::int64_t answer = at.integer(-kMaxChoices, kMaxChoices);
    if (answer < first || answer >= first + count)
      at.fail(fmt::format("expected {} to {}, the place of a choice, found {}", first, first + count - 1,
                          answer));
    return answer - first;
  }
  if (!at.is_text()) at.refuse("a choice or its place");
  const std::string text = at.text();
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (!text.empty() && found != choices.end()) return found - choices.begin();
  for (std::int64_t i = 0; i < count; ++i)
    if (text == std::to_string(first + i)) return i;
  at.fail(fmt::format("expected one of the choices or its place, found '{}'", text.substr(0, 64)));
}

// `request_of` makes what is scored of each choice.
template <typename RequestOf>
TaskItem item_of(std::vector<std::string> choices, std::int64_t answer, RequestOf request_of) {
  TaskItem item;
  for (const std::string& choice : choices) item.requests.push_back(request_of(choice));
  item.choices = std::move(choices);
  item.answer = answer;
  return item;
}

// One context, and a choice after each delimiter.
TaskItem item_of_choices(const std::string& prompt, std::vector<std::string> choices, std::int64_t answer,
                         const std::string& delimiter = " ") {
  return item_of(std::move(choices), answer, [&](const std::string& choice) {
    return TaskRequest{prompt, delimiter + choice};
  });
}

TaskItem read_choices(const JsonReader& line) {
  std::vector<std::string> choices = choices_at(line.at("choices"));
  const std::int64_t answer = answer_at(line.at("answer"), choices);
  return item_of_choices(line.at("prompt").text(), std::move(choices), answer, delimiter_of(line));
}

TaskItem item_of_contexts(std::vector<std::string> contexts, const std::string& continuation,
                          std::int64_t answer, const std::string& delimiter = " ") {
  return item_of(std::move(contexts), answer, [&](const std::string& context) {
    return TaskRequest{context, delimiter + continuation};
  });
}

TaskItem read_contexts(const JsonReader& line) {
  std::vector<std::string> contexts = choices_at(line.at("contexts"));
  const std::int64_t answer = answer_at(line.at("answer"), contexts);
  const std::string continuation = line.at("continuation").text();
  if (continuation.empty()) line.at("continuation").fail("expected a text, found an empty one");
  return item_of_contexts(std::move(contexts), continuation, answer, delimiter_of(line));
}

TaskItem read_completion(const JsonReader& line) {
  const std::string completion = line.at("completion").text();
  if (completion.empty()) line.at("completion").fail("expected a text, found an empty one");
  TaskItem item;
  item.requests.push_back({line.at("prompt").text(), begins_with_space(completion) && !line.has("delimiter")
                                                         ? completion
                                                         : delimiter_of(line) + completion});
  return item;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// lm-eval's hellaswag/utils.py: `[...]` are artifacts of WikiHow. A bracket may hold no line break.
std::string without_artifacts(std::string_view raw) {
  const std::string text = replaced(std::string(stripped(raw)), " [title]", ". ");
  std::string kept;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[') {
      const std::size_t end = text.find_first_of("]\n", at);
      if (end != std::string::npos && text[end] == ']') {
        at = end;
        continue;
      }
    }
    kept += text[at];
  }
  return replaced(kept, "  ", " ");
}

TaskItem read_hellaswag(const JsonReader& line) {
  const std::string context = line.at("ctx_a").text() + " " + capitalized(line.at("ctx_b").text());
  std::vector<std::string> endings;
  for (const std::string& ending : choices_at(line.at("endings")))
    endings.push_back(without_artifacts(ending));
  std::vector<std::string> places(endings.size(), "");
  const std::int64_t answer = answer_at(line.at("label"), places);
  return item_of_choices(without_artifacts(line.at("activity_label").text() + ": " + context),
                         std::move(endings), answer);
}

// {"text": [...], "label": [...]} as on the Hub, or [{"text", "label"}, ...] as in the authors' files.
TaskItem read_arc(const JsonReader& line) {
  const JsonReader question = line.at("question");
  const JsonReader choices = question.is_object() ? question.at("choices") : line.at("choices");
  const std::string text = question.is_object() ? question.at("stem").text() : question.text();
  std::vector<std::string> texts, labels;
  if (choices.is_array()) {
    for (const JsonReader& choice : choices.items()) {
      texts.push_back(choice.at("text").text());
      labels.push_back(choice.at("label").text());
    }
    if (texts.size() < 2) choices.fail(fmt::format("expected two choices or more, found {}", texts.size()));
  } else {
    texts = choices_at(choices.at("text"));
    labels = choices.at("label").texts();
  }
  const std::string key = line.at("answerKey").text();
  const auto found = std::find(labels.begin(), labels.end(), key);
  if (found == labels.end() || labels.size() != texts.size())
    line.at("answerKey")
        .fail(fmt::format("expected one of the labels {}, found '{}'", fmt::join(labels, ", "),
                          key.substr(0, 64)));
  return item_of_choices("Question: " + text + "\nAnswer:", std::move(texts), found - labels.begin());
}

TaskItem read_piqa(const JsonReader& line) {
  std::vector<std::string> choices{line.at("sol1").text(), line.at("sol2").text()};
  const std::int64_t answer = answer_at(line.at("label"), std::vector<std::string>(2, ""));
  return item_of_choices("Question: " + line.at("goal").text() + "\nAnswer:", std::move(choices), answer);
}

TaskItem read_winogrande(const JsonReader& line) {
  const std::string sentence = line.at("sentence").text();
  const std::size_t gap = sentence.find('_');
  if (gap == std::string::npos) line.at("sentence").fail("expected a gap '_' in the sentence, found none");
  std::vector<std::string> contexts;
  for (const char* key : {"option1", "option2"})
    contexts.push_back(sentence.substr(0, gap) + line.at(key).text());
  const std::int64_t answer = answer_at(line.at("answer"), std::vector<std::string>(2, ""), 1);
  return item_of_contexts(std::move(contexts),
                          std::string(stripped(std::string_view(sentence).substr(gap + 1))), answer);
}

TaskItem read_mmlu(const JsonReader& line) {
  const std::vector<std::string> texts = choices_at(line.at("choices"));
  if (texts.size() != 4)
    line.at("choices").fail(fmt::format("expected four choices, found {}", texts.size()));
  std::vector<std::string> letters{"A", "B", "C", "D"};
  const std::int64_t answer = answer_at(line.at("answer"), letters);
  std::string prompt =
      fmt::format("The following are multiple choice questions (with answers) about {}.\n\n{}\n",
                  replaced(line.at("subject").text(), "_", " "), stripped(line.at("question").text()));
  for (std::size_t i = 0; i < 4; ++i) prompt += fmt::format("{}. {}\n", letters[i], texts[i]);
  return item_of_choices(prompt + "Answer:", std::move(letters), answer);
}

// Python's text.split(" "): the last word, and what is before the blank in front of it.
TaskItem read_lambada(const JsonReader& line) {
  const std::string text = line.at("text").text();
  const std::size_t blank = text.rfind(' ');
  TaskItem item;
  item.requests.push_back(blank == std::string::npos
                              ? TaskRequest{"", " " + text}
                              : TaskRequest{text.substr(0, blank), text.substr(blank)});
  return item;
}

struct Form {
  std::string_view name;
  TaskKind kind;
  std::array<std::string_view, 3> keys;  // that tell it from the others; the answer is not among them
  TaskItem (*read)(const JsonReader& line);
};
// The first whose keys are all there.
constexpr Form kForms[] = {
    {"contexts", TaskKind::choices, {"contexts", "continuation"}, read_contexts},
    {"completion", TaskKind::completion, {"prompt", "completion"}, read_completion},
    {"HellaSwag", TaskKind::choices, {"activity_label", "ctx_a", "endings"}, read_hellaswag},
    {"WinoGrande", TaskKind::choices, {"sentence", "option1", "option2"}, read_winogrande},
    {"PIQA", TaskKind::choices, {"goal", "sol1", "sol2"}, read_piqa},
    {"MMLU", TaskKind::choices, {"question", "subject", "choices"}, read_mmlu},
    {"ARC", TaskKind::choices, {"question", "answerKey"}, read_arc},
    {"choices", TaskKind::choices, {"prompt", "choices"}, read_choices},
    {"LAMBADA", TaskKind::completion, {"text"}, read_lambada},
};

const Form& form_of(const JsonReader& line) {
  for (const Form& form : kForms)
    if (std::all_of(form.keys.begin(), form.keys.end(),
                    [&](std::string_view key) { return key.empty() || line.has(key); }))
      return form;
  std::vector<std::string> found;
  for (const auto& [key, value] : line.members()) found.push_back(key.substr(0, 32));
  if (found.size() > 8) found.resize(8);
  line.fail(
      fmt::format("expected keys prompt, choices and answer; contexts, continuation and answer; prompt and "
                  "completion; or those of a known data set, found {}",
                  found.empty() ? "none" : fmt::format("{}", fmt::join(found, ", "))));
}

}  // namespace

TaskItems parse_task_items(std::string_view content, const std::string& file) {
  TaskItems items;
  items.sha256 = sha256_hex(content);
  const Form* form = nullptr;
  const auto use = [&](const JsonReader& line, std::int64_t number) {
    const Form& own = form_of(line);
    if (form == nullptr) form = &own;
    if (form != &own)
      line.fail(fmt::format("expected items of one form, {} as before, found {}", form->name, own.name));
    items.items.push_back(own.read(line));
    items.items.back().line = number;
  };
  for_json_lines(content, file, use, R"({"prompt": ..., "choices": [...], "answer": 0})");
  items.kind = form->kind;
  items.form = form->name;
  return items;
}

TaskItems read_task_items(const std::filesystem::path& file) {
  const std::string content = read_text_file(file);
  check_utf8(content, file.string());
  return parse_task_items(content, file.string());
}

}  // namespace assay
