// assay worker: holds one configuration, and answers each JSON line on standard input with one on standard
// output.
#include <sys/resource.h>

#include <iostream>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/json_reader.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/config/fields_json.h"
#include "assay/generate/generator.h"
#include "assay/generate/greedy_step.h"
#include "assay/harness/roofline.h"
#include "assay/harness/session_json.h"
#include "assay/machine/gpu_sensors.h"
#include "assay/model/model.h"
#include "assay/plan/operation_groups.h"

namespace assay::cli {

namespace {

using Answer = nlohmann::ordered_json;
constexpr const char* kRequest = "request";
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

// A misspelt key must not quietly mean its default.
void check_keys(const JsonReader& request, std::vector<std::string_view> known) {
  known.insert(known.begin(), "op");
  request.require_known(known);
}

std::vector<TokenId> ids_from_json(const JsonReader& json) {
  std::vector<TokenId> ids;
  for (const JsonReader& id : json.items())
    ids.push_back(static_cast<TokenId>(id.integer(0, std::numeric_limits<TokenId>::max())));
  return ids;
}

std::vector<std::vector<TokenId>> sequences_of(const JsonReader& request) {
  std::vector<std::vector<TokenId>> sequences;
  for (const JsonReader& ids : request.at("ids").items()) sequences.push_back(ids_from_json(ids));
  return sequences;
}

class Worker {
 public:
  // False once there is nothing left to do.
  bool is_open() const { return is_open_; }

  Answer reply_to(const std::string& line) {
    const Answer json = parse_ordered_json(line, kRequest);
    const JsonReader request(json, kRequest);
    const std::string op = request.at("op").text();
    if (op == "load") return load(json, request);
    if (op == "prefill") return prefill(request);
    if (op == "decode") return decode(request);
    if (op == "logits") return logits(request);
    if (op == "profile") return profile(request);
    if (op == "roofline") return roofline(request);
    if (op == "quit") return quit(request);
    if (op == "facts" || op == "first_run" || op == "run" || op == "score" || op == "audit") {
      model();
      return answer_request(*session_, op, request);
    }
    throw Error(
        "{}: unknown op '{}': expected load, prefill, decode, logits, profile, roofline, facts, first_run, "
        "run, "
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
  Answer load_configuration(const JsonReader& request) {
    check_keys(request, {"candidates", "configuration", "needs_tokenizer", "memory_limit", "constants"});
    forget();
    if (request.has("memory_limit")) {
      const auto limit = static_cast<rlim_t>(request.at("memory_limit").integer(1, kMaxBytes));
      const rlimit bytes{limit, limit};
      if (setrlimit(RLIMIT_DATA, &bytes) != 0) throw Error("the memory limit cannot be set");
    }
    LoadOptions options{.needs_tokenizer = request.at("needs_tokenizer").boolean(), .pins_caller = true};
    if (request.has("constants"))
      options.constants =
          std::make_shared<const KernelConstants>(constants_from_json(request.at("constants")));
    const Bytes before = read_process_memory().anonymous;
    loaded_ = load_model_and_tokenizer(request.at("candidates").texts(),
                                       run_config_from_json(request.at("configuration")), options);
    session_ = local_session(*loaded_, is_interrupted, before);
    return answer_request(*session_, "facts", request);
  }

  Answer load(Answer json, const JsonReader& request) {
    if (request.has("configuration")) return load_configuration(request);
    std::vector<std::string_view> known{"model"};
    for (const Field& each : fields()) known.push_back(each.key);
    check_keys(request, known);
    ModelFlags flags;
    flags.model = request.at("model").text();
    if (request.has("precision")) flags.precision = request.at("precision").text();
    for (const char* key : {"op", "model", "precision"}) json.erase(key);
    flags.config = run_config_from_json(JsonReader(json, kRequest));
    forget();  // never two models in memory; after a failed load there is none
    loaded_ = flags.load(false);
    std::string why_no_sensors;
    if (const std::string bus_id = model().backend().bus_id(); !bus_id.empty())
      sensors_ = open_nvml(bus_id, why_no_sensors);
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
  Answer prefill(const JsonReader& request) const {
    check_keys(request, {"ids"});
    const GenerationTrace trace = run(sequences_of(request), 1);
    std::vector<TokenId> next;
    for (const SequenceTrace& sequence : trace.sequences) next.push_back(sequence.ids.front());
    return {{"ok", true}, {"seconds", trace.step_end.front().value}, {"next", next}};
  }

  // The prefill gives each sequence's first id and is not timed; N steps follow.
  Answer decode(const JsonReader& request) const {
    check_keys(request, {"ids", "new_tokens"});
    const std::int64_t steps = request.at("new_tokens").integer(1, std::int64_t{1} << 30);
    const GpuWatch watch(sensors_.get());
    const GenerationTrace trace = run(sequences_of(request), steps + 1);
    std::string why_no_energy;
    const std::optional<double> joules = watch.joules(why_no_energy);
    if (is_interrupted()) throw Error("interrupted");
    std::vector<double> step_s;
    for (std::size_t i = 1; i < trace.step_end.size(); ++i)
      step_s.push_back((trace.step_end[i] - trace.step_end[i - 1]).value);
    Answer ids = Answer::array();
    for (const SequenceTrace& sequence : trace.sequences) ids.push_back(sequence.ids);
    Answer answer = {{"ok", true},
                     {"seconds", (trace.step_end.back() - trace.step_end.front()).value},
                     {"step_s", step_s},
                     {"ids", ids}};
    if (joules) answer["joules"] = *joules;  // of the GPU, prefill included
    return answer;
  }

  // Of decode steps of all sequences, or of their prefill where there are no new tokens: what each phase took
  // of a step and, of it, what a thread waited in the mean; where the device times each operation by itself,
  // what each kind took with one sequence, beside what it must read and compute.
  Answer profile(const JsonReader& request) const {
    check_keys(request, {"ids", "new_tokens"});
    Program& program = model().program();
    std::vector<std::vector<TokenId>> tokens = sequences_of(request);
    const std::int64_t new_tokens = request.at("new_tokens").integer(0, program.plan().context);
    const std::int64_t steps = std::max<std::int64_t>(new_tokens, 1);
    std::int64_t past = 0;
    const auto cache = program.make_cache();
    std::vector<StepItem> items;
    for (const std::vector<TokenId>& ids : tokens) {
      past = std::max(past, static_cast<std::int64_t>(ids.size()));
      items.push_back({.sequence = cache->add_sequence(), .ids = ids});
    }
    if (items.empty()) throw Error("{}: ids: expected a sequence or more, found none", kRequest);
    for (std::size_t i = 0; i < items.size(); ++i)
      if (tokens[i].empty()) throw Error("{}: ids[{}]: expected a token or more, found none", kRequest, i);
    if (past + new_tokens > program.plan().context)
      throw Error("a sequence has {} tokens and {} new ones: at most {} fit the model's context", past,
                  new_tokens, program.plan().context);
    std::vector<TokenId> next(items.size());
    const auto step = [&] {
      for (std::size_t i = 0; i < items.size(); ++i) {
        items[i].ids = tokens[i];
        items[i].wanted = static_cast<std::int64_t>(tokens[i].size()) - 1;
      }
      run_greedy_step(program, *cache, items, next, [&](std::span<const StepPart>) {
        if (is_interrupted()) throw Error("interrupted");
      });
      for (std::size_t i = 0; i < items.size(); ++i) tokens[i].assign(1, next[i]);
    };
    if (new_tokens > 0) step();
    program.begin_profile();
    for (std::int64_t i = 0; i < steps; ++i) step();
    const StepProfile profile = program.end_profile();
    Answer operations = Answer::array();
    for (const OperationGroup& group : operation_groups(program.plan(), new_tokens > 0 ? 1 : past,
                                                        new_tokens > 0 ? past + steps / 2 : 0, 1)) {
      if (profile.operations.empty() || items.size() > 1) break;
      double seconds = 0;
      for (const std::size_t i : group.operations) seconds += profile.operations[i].value;
      operations.push_back({{"name", group.name},
                            {"kind", group.kind},
                            {"count", group.operations.size()},
                            {"seconds", seconds / static_cast<double>(steps)},
                            {"bytes", (group.cost.weight_bytes + group.cost.kv_bytes).value},
                            {"flops", group.cost.flops.value}});
    }
    Answer phases = Answer::array();
    for (std::size_t i = 0; i < profile.parts.size(); ++i)
      phases.push_back({{"name", name_of(static_cast<OpClass>(i))},
                        {"seconds", profile.parts[i].time.value / static_cast<double>(steps)},
                        {"waiting_s", profile.parts[i].waiting.value / static_cast<double>(steps)}});
    return {{"ok", true}, {"operations", operations}, {"phases", phases}};
  }

  Answer logits(const JsonReader& request) const {
    check_keys(request, {"ids"});
    Program& program = model().program();
    const std::vector<TokenId> ids = ids_from_json(request.at("ids"));
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
  Answer roofline(const JsonReader& request) {
    check_keys(request, {"working_set_bytes"});
    const std::int64_t bytes = request.at("working_set_bytes").integer(1, kMaxBytes);
    if (!roofline_) roofline_.emplace(model());
    const Roofline::Peaks peaks = roofline_->measure({bytes});
    return {{"ok", true},
            {"read_bytes_per_s", peaks.bytes_per_second},
            {"operations_per_s", peaks.operations_per_second}};
  }

  Answer quit(const JsonReader& request) {
    check_keys(request, {});
    is_open_ = false;
    return {{"ok", true}};
  }

  void forget() {
    roofline_.reset();
    sensors_.reset();
    session_.reset();
    loaded_.reset();
  }

  std::optional<LoadedModel> loaded_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<GpuSensors> sensors_;  // of a GPU whose driver tells
  std::optional<Roofline> roofline_;     // of the loaded model
  bool is_open_ = true;
};

int run_worker() {
  let_interrupts_end_reads();
  Worker worker;
  bool has_failed = false;
  for (std::string line;
       worker.is_open() && !has_failed && !is_interrupted() && std::getline(std::cin, line);) {
    Answer reply;
    try {
      reply = worker.reply_to(line);
    } catch (const std::bad_alloc&) {
      reply = {{"ok", false}, {"error", "not enough memory"}};
    } catch (const DeviceFault& error) {
      // Nothing that this process asks of the device will work again: it ends, and another can take its
      // place.
      reply = {{"ok", false}, {"error", error.what()}, {"is_fatal", true}};
      has_failed = true;
    } catch (const std::exception& error) {
      reply = {{"ok", false}, {"error", error.what()}};
    }
    try {
      answer(reply.dump(-1, ' ', false, Answer::error_handler_t::replace) + "\n");
    } catch (const ReaderGone&) {
      return is_interrupted() ? kInterrupted : kFailed;  // who asked has gone, and says why itself
    }
  }
  return is_interrupted() ? kInterrupted : has_failed ? kFailed : 0;
}

}  // namespace

void add_worker(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "worker",
      "Keep a model loaded and answer requests, one line of JSON each, for interleaved measurement");
  command->footer(
      "Requests: {\"op\":\"load\",\"model\":DIR,\"precision\":P,\"threads\":N,\"isa\":ISA},\n"
      "{\"op\":\"prefill\",\"ids\":[[...],...]},\n"
      "{\"op\":\"decode\",\"ids\":[[...],...],\"new_tokens\":N}, {\"op\":\"logits\",\"ids\":[...]},\n"
      "{\"op\":\"profile\",\"ids\":[[...],...],\"new_tokens\":N}, "
      "{\"op\":\"roofline\",\"working_set_bytes\":N},\n"
      "{\"op\":\"quit\"}\n"
      "A request that fails is answered with {\"ok\":false,\"error\":...}.\n"
      "Example: assay worker < requests.jsonl");
  command->callback([&exit_code] { exit_code = run_worker(); });
}

}  // namespace assay::cli
