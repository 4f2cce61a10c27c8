// assay worker: holds one configuration, and answers each JSON line on standard input with one on standard
// output.
#include <sys/resource.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/generate/generator.h"
#include "assay/generate/steps.h"
#include "assay/harness/roofline.h"
#include "assay/harness/worker_session.h"

namespace assay::cli {

namespace {

using Answer = nlohmann::ordered_json;
constexpr const char* kRequest = "request";

// A misspelt key must not quietly mean its default.
void check_keys(const JsonView& request, std::vector<std::string> known) {
  known.insert(known.begin(), "op");
  for (const auto& [key, value] : request.raw().items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw Error("{}: unknown key '{}': expected {}", request.where(), key, fmt::join(known, ", "));
}

std::vector<TokenId> ids_from_json(const Json& json) {
  if (!json.is_array()) throw Error("ids: expected a list of token ids, found {}", json.type_name());
  std::vector<TokenId> ids;
  for (const Json& id : json) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<TokenId>::max())
      throw Error("ids: expected whole numbers from 0, found {}", id.dump().substr(0, 80));
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

const Json& ids_of(const JsonView& request) {
  if (!request.has("ids")) throw Error("{}: the key 'ids' is missing", request.where());
  return request.raw()["ids"];
}

std::vector<std::vector<TokenId>> sequences_of(const JsonView& request) {
  const Json& json = ids_of(request);
  if (!json.is_array()) throw Error("ids: expected a list of sequences, found {}", json.type_name());
  std::vector<std::vector<TokenId>> sequences;
  for (const Json& ids : json) sequences.push_back(ids_from_json(ids));
  return sequences;
}

class Worker {
 public:
  // False once there is nothing left to do.
  bool is_open() const { return is_open_; }

  Answer reply_to(const std::string& line) {
    const Json json = parse_json_object(line, kRequest);
    const JsonView request(json, kRequest);
    const std::string op = request.text("op");
    if (op == "load") return load(request);
    if (op == "prefill") return prefill(request);
    if (op == "decode") return decode(request);
    if (op == "logits") return logits(request);
    if (op == "roofline") return roofline(request);
    if (op == "quit") return quit(request);
    if (op == "facts" || op == "first_run" || op == "run" || op == "score" || op == "audit") {
      model();
      try {
        return answer_request(*session_, op, Answer::parse(line));
      } catch (const Answer::exception& error) {
        throw Error("{}: {}", kRequest, error.what());
      }
    }
    throw Error(
        "{}: unknown op '{}': expected load, prefill, decode, logits, roofline, facts, first_run, run, "
        "score, "
        "audit or quit",
        kRequest, op);
  }

 private:
  const Model& model() const {
    if (!loaded_) throw Error("no model is loaded: the op 'load' comes first");
    return *loaded_->model;
  }

  GenerationTrace run(const std::vector<std::vector<TokenId>>& sequences, std::int64_t new_tokens) const {
    GenerationOptions options;
    options.max_new_tokens = new_tokens;
    return generate(model().backend(), model().program(), sequences, options, {}, is_interrupted);
  }

  // As experiments ask for it: a whole configuration, and a limit that ends this process and not the machine.
  Answer load_configuration(const JsonView& request) {
    check_keys(request, {"candidates", "configuration", "needs_tokenizer", "memory_limit"});
    const Answer json = Answer::parse(request.raw().dump());
    forget();
    try {
      const auto limit = json.at("memory_limit").get<std::int64_t>();
      if (limit > 0) {
        const rlimit bytes{static_cast<rlim_t>(limit), static_cast<rlim_t>(limit)};
        if (setrlimit(RLIMIT_DATA, &bytes) != 0) throw Error("the memory limit cannot be set");
      }
      const Bytes before = read_process_memory().anonymous;
      loaded_ = load_model_and_tokenizer(
          json.at("candidates").get<std::vector<std::string>>(),
          run_config_from_json(json.at("configuration")),
          {.needs_tokenizer = json.at("needs_tokenizer").get<bool>(), .pins_caller = true});
      session_ = local_session(*loaded_, is_interrupted, before);
    } catch (const Answer::exception& error) {
      throw Error("{}: {}", kRequest, error.what());
    }
    return answer_request(*session_, "facts", {});
  }

  Answer load(const JsonView& request) {
    if (request.has("configuration")) return load_configuration(request);
    std::vector<std::string> known{"model"};
    for (const Field& each : fields()) known.emplace_back(each.key);
    check_keys(request, known);
    Answer json = Answer::parse(request.raw().dump());
    for (const char* key : {"op", "model", "precision"}) json.erase(key);
    ModelFlags flags;
    flags.model = request.text("model");
    flags.precision = request.text_or("precision", flags.precision);
    flags.config = run_config_from_json(json);
    forget();  // never two models in memory; after a failed load there is none
    loaded_ = flags.load(false);
    session_ = local_session(*loaded_, is_interrupted);
    const Program& program = model().program();
    return {{"ok", true},
            {"label", loaded_->dtype_label},
            {"kernels", model().backend().kernels()},
            {"threads", model().backend().threads()},
            {"weight_bytes", program.memory().weights.value},
            {"vocab", program.plan().vocab},
            {"context", program.plan().context},
            {"load_s", model().load_time().value}};
  }

  // All tokens of all sequences through the model, the last of each through the LM head.
  Answer prefill(const JsonView& request) const {
    check_keys(request, {"ids"});
    const GenerationTrace trace = run(sequences_of(request), 1);
    std::vector<TokenId> next;
    for (const SequenceTrace& sequence : trace.sequences) next.push_back(sequence.ids.front());
    return {{"ok", true}, {"seconds", trace.step_end.front().value}, {"next", next}};
  }

  // The prefill gives each sequence's first id and is not timed; N steps follow.
  Answer decode(const JsonView& request) const {
    check_keys(request, {"ids", "new_tokens"});
    const std::int64_t steps = request.integer("new_tokens", 1, std::int64_t{1} << 30);
    const GenerationTrace trace = run(sequences_of(request), steps + 1);
    if (is_interrupted()) throw Error("interrupted");
    std::vector<double> step_s;
    for (std::size_t i = 1; i < trace.step_end.size(); ++i)
      step_s.push_back((trace.step_end[i] - trace.step_end[i - 1]).value);
    Answer ids = Answer::array();
    for (const SequenceTrace& sequence : trace.sequences) ids.push_back(sequence.ids);
    return {{"ok", true},
            {"seconds", (trace.step_end.back() - trace.step_end.front()).value},
            {"step_s", step_s},
            {"ids", ids}};
  }

  Answer logits(const JsonView& request) const {
    check_keys(request, {"ids"});
    Program& program = model().program();
    const std::vector<TokenId> ids = ids_from_json(ids_of(request));
    if (ids.empty()) throw Error("the prompt is empty: logits need at least one token");
    const auto tokens = static_cast<std::int64_t>(ids.size());
    if (tokens > program.plan().context)
      throw Error("{} tokens exceed the model's context of {}", tokens, program.plan().context);
    std::vector<float> logits(static_cast<std::size_t>(program.plan().vocab));
    const auto cache = program.make_cache();
    const StepItem item{.sequence = cache->add_sequence(), .ids = ids, .wanted = tokens - 1};
    run_in_steps(program, *cache, std::span(&item, 1), [&](std::span<const StepPart> parts) {
      const StepPart& part = parts.front();
      if (part.first + part.rows != tokens) return;
      const std::int64_t last = part.first_row + part.rows - 1;
      program.head(std::span(&last, 1), LogitsSink{logits});
    });
    return {{"ok", true}, {"logits", logits}};
  }

  // What this moment's machine reaches at most on the model's threads; 0 where nothing measures it.
  Answer roofline(const JsonView& request) {
    check_keys(request, {"working_set_bytes"});
    const std::int64_t bytes = request.integer("working_set_bytes", 1, std::int64_t{1} << 50);
    if (!roofline_) roofline_.emplace(model());
    const Roofline::Peaks peaks = roofline_->measure({bytes});
    return {{"ok", true},
            {"read_bytes_per_s", peaks.bytes_per_second},
            {"operations_per_s", peaks.operations_per_second}};
  }

  Answer quit(const JsonView& request) {
    check_keys(request, {});
    is_open_ = false;
    return {{"ok", true}};
  }

  void forget() {
    roofline_.reset();
    session_.reset();
    loaded_.reset();
  }

  std::optional<LoadedModel> loaded_;
  std::unique_ptr<Session> session_;
  std::optional<Roofline> roofline_;  // of the loaded model
  bool is_open_ = true;
};

int run_worker() {
  let_interrupts_end_reads();
  Worker worker;
  for (std::string line; worker.is_open() && !is_interrupted() && std::getline(std::cin, line);) {
    Answer reply;
    try {
      reply = worker.reply_to(line);
    } catch (const std::bad_alloc&) {
      reply = {{"ok", false}, {"error", "not enough memory"}};
    } catch (const std::exception& error) {
      reply = {{"ok", false}, {"error", error.what()}};
    }
    try {
      answer(reply.dump(-1, ' ', false, Answer::error_handler_t::replace) + "\n");
    } catch (const ReaderGone&) {
      return is_interrupted() ? kInterrupted : kFailed;  // who asked has gone, and says why itself
    }
  }
  return is_interrupted() ? kInterrupted : 0;
}

}  // namespace

void add_worker(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "worker", "Answer requests, one line of JSON each, with a resident model: for interleaved measuring");
  command->footer(
      "Requests: {\"op\":\"load\",\"model\":DIR,\"precision\":P,\"threads\":N,\"isa\":TIER}, "
      "{\"op\":\"prefill\",\"ids\":[[...],...]},\n"
      "{\"op\":\"decode\",\"ids\":[[...],...],\"new_tokens\":N}, {\"op\":\"logits\",\"ids\":[...]},\n"
      "{\"op\":\"roofline\",\"working_set_bytes\":N}, {\"op\":\"quit\"}; a failure is answered with\n"
      " {\"ok\":false,\"error\":...}\n"
      "Example: assay worker < requests.jsonl");
  command->callback([&exit_code] { exit_code = run_worker(); });
}

}  // namespace assay::cli
