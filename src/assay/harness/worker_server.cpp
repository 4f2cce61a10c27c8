// The worker's side of worker_protocol.h.
#include <sys/resource.h>

#include <istream>
#include <map>
#include <new>
#include <system_error>

#include <nlohmann/json.hpp>

#include "assay/base/json_bytes.h"
#include "assay/base/memory.h"
#include "assay/config/fields.h"
#include "assay/config/fields_json.h"
#include "assay/harness/divergence_json.h"
#include "assay/harness/prepared_device.h"
#include "assay/harness/worker_model.h"
#include "assay/harness/worker_protocol.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr const char* kRequest = "request";
constexpr const char* kOperations =
    "prepare, load, prefill, decode, logits, profile, roofline, facts, first_run, run, score, audit, task, "
    "diverge or "
    "quit";

// The limit ends this process and not the machine. A later load may raise it again.
void limit_memory(Bytes bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = static_cast<rlim_t>(bytes.value);
  if (setrlimit(RLIMIT_DATA, &limit) != 0) throw Error("the memory limit cannot be set");
}

OrderedJson failure(const std::string& reason) {
  return {{"ok", false}, {"error", reason}};
}

}  // namespace

struct WorkerServer::State {
  ShouldStop should_stop;
  Load load_model;
  // By key, in the order in which the keys were first loaded; null where the last load failed.
  std::vector<std::pair<std::string, std::unique_ptr<HeldModel>>> models;
  PreparedDevice prepared;
  std::optional<Bytes> memory_limit;
  bool is_open = true, has_failed = false;

  OrderedJson reply_to(const std::string& line);
  OrderedJson out_of_memory(const std::string& reason) const;
  OrderedJson load(const OrderedJson& json, const JsonReader& request);
  OrderedJson diverge(const JsonReader& request);
  OrderedJson load_configuration(std::unique_ptr<HeldModel>& place, const JsonReader& request);
  OrderedJson load_named(std::unique_ptr<HeldModel>& place, OrderedJson json, const JsonReader& request);
  std::unique_ptr<HeldModel>& place_of(const std::optional<std::string>& key);
  HeldModel& model_of(const std::optional<std::string>& key);
  void hold(std::unique_ptr<HeldModel>& place, const std::vector<std::string>& candidates,
            const RunConfig& config, const LoadOptions& options);
};

namespace {

std::optional<std::string> key_of(const JsonReader& request) {
  return request.has("key") ? std::optional(request.at("key").text()) : std::nullopt;
}

}  // namespace

OrderedJson WorkerServer::State::reply_to(const std::string& line) {
  OrderedJson json = parse_ordered_json(line, kRequest);
  restore_bytes(json);
  const JsonReader request(json, kRequest);
  std::string op = request.at("op").text();
  if (op == "roof") op = "roofline";  // its name in earlier builds
  if (op == "load") return load(json, request);
  if (op == "prepare") {
    require_known_keys(request, {"configuration"});
    prepared = prepare_device(run_config_from_json(request.at("configuration")));
    return {{"ok", true}};
  }
  if (op == "quit") {
    require_known_keys(request, {});
    is_open = false;
    return {{"ok", true}};
  }
  const bool is_about_session =
      op == "facts" || op == "first_run" || op == "run" || op == "score" || op == "audit" || op == "task";
  if (is_about_session) return answer_request(model_of(key_of(request)).session(), op, request);
  const bool is_about_ids =
      op == "prefill" || op == "decode" || op == "logits" || op == "profile" || op == "roofline";
  if (is_about_ids) return model_of(key_of(request)).answer(op, request);
  if (op == "diverge") return diverge(request);
  throw Error("{}: unknown op '{}': expected {}", kRequest, op, kOperations);
}

OrderedJson WorkerServer::State::diverge(const JsonReader& request) {
  require_known_keys(request, {"candidates", "file", "ids", "context", "stride", "max_tokens",
                               "greedy_prompt", "greedy_tokens", "sample_tokens"});
  std::vector<Session*> candidates;
  for (const std::string& key : request.at("candidates").texts())
    candidates.push_back(&model_of(key).session());
  return {
      {"ok", true},
      {"divergence",
       to_json(model_of(key_of(request)).session().diverge(candidates, diverge_request_from_json(request)))}};
}

// Where the model of a key belongs; a new key gets a place.
std::unique_ptr<HeldModel>& WorkerServer::State::place_of(const std::optional<std::string>& key) {
  if (!key && !models.empty()) return models.front().second;
  for (auto& [own, place] : models)
    if (own == key) return place;
  return models.emplace_back(key.value_or(""), nullptr).second;
}

HeldModel& WorkerServer::State::model_of(const std::optional<std::string>& key) {
  if (!key) {
    if (models.empty() || models.front().second == nullptr)
      throw Error("no model is loaded: the op 'load' comes first");
    return *models.front().second;
  }
  for (const auto& [own, place] : models)
    if (own == *key && place != nullptr) return *place;
  throw Error("{}: key: no model is loaded as '{}': the op 'load' comes first", kRequest, *key);
}

OrderedJson WorkerServer::State::load(const OrderedJson& json, const JsonReader& request) {
  const std::optional<std::string> key = key_of(request);
  if (request.has("configuration")) {
    require_known_keys(request,
                       {"candidates", "configuration", "needs_tokenizer", "memory_limit", "constants"});
    return load_configuration(place_of(key), request);
  }
  std::vector<std::string_view> known{"model"};
  for (const Field& each : fields()) known.push_back(each.key);
  require_known_keys(request, known);
  return load_named(place_of(key), json, request);
}

void WorkerServer::State::hold(std::unique_ptr<HeldModel>& place, const std::vector<std::string>& candidates,
                               const RunConfig& config, const LoadOptions& options) {
  const Bytes before = read_process_memory().anonymous;
  place = std::make_unique<HeldModel>(load_model(candidates, config, options), should_stop, before);
}

// A whole configuration, as experiments ask for it.
OrderedJson WorkerServer::State::load_configuration(std::unique_ptr<HeldModel>& place,
                                                    const JsonReader& request) {
  place.reset();  // never two models of one key in memory
  if (request.has("memory_limit")) {
    memory_limit = Bytes{request.at("memory_limit").integer(1, kMaxRequestBytes)};
    limit_memory(*memory_limit);
  }
  LoadOptions options{.needs_tokenizer = request.at("needs_tokenizer").boolean(), .pins_caller = true};
  if (request.has("constants"))
    options.constants = std::make_shared<const KernelConstants>(constants_from_json(request.at("constants")));
  const RunConfig configuration = run_config_from_json(request.at("configuration"));
  options.shared_backend = prepared.take_backend(configuration);
  // Models of one process take turns: each with pinned memory and a library handle of its own only loads
  // longer.
  for (const auto& [key, held] : models)
    if (options.shared_backend == nullptr && held != nullptr)
      options.shared_backend = held->gpu_for(configuration);
  hold(place, request.at("candidates").texts(), configuration, options);
  return answer_request(place->session(), "facts", request);
}

// A model and fields of the configuration by their names, as on the command line.
OrderedJson WorkerServer::State::load_named(std::unique_ptr<HeldModel>& place, OrderedJson json,
                                            const JsonReader& request) {
  const std::vector<std::string> candidates = candidates_from_text(request.at("model").text());
  const std::string precision =
      request.has("precision") ? request.at("precision").text() : std::string(kAutoPrecision);
  for (const char* key : {"op", "key", "model", "precision"}) json.erase(key);
  const RunConfig config = run_config_to_load(precision, run_config_from_json(JsonReader(json, kRequest)));
  place.reset();
  hold(place, candidates, config,
       {.needs_tokenizer = false, .pins_caller = true, .should_stop = should_stop});
  return place->summary();
}

OrderedJson WorkerServer::State::out_of_memory(const std::string& reason) const {
  return failure(!memory_limit ? reason
                               : fmt::format("{}; a worker may take {:.0f} MiB (--worker-memory)", reason,
                                             memory_limit->megabytes()));
}

WorkerServer::WorkerServer(ShouldStop should_stop, Load load) : state_(std::make_unique<State>()) {
  state_->should_stop = std::move(should_stop);
  state_->load_model =
      load ? std::move(load) : [](const auto& candidates, const auto& config, const auto& options) {
        return load_model_and_tokenizer(candidates, config, options);
      };
}

WorkerServer::~WorkerServer() = default;

bool WorkerServer::is_open() const {
  return state_->is_open;
}

bool WorkerServer::has_failed() const {
  return state_->has_failed;
}

std::string WorkerServer::answer(const std::string& request) {
  OrderedJson reply;
  try {
    reply = state_->reply_to(request);
  } catch (const std::bad_alloc&) {
    reply = state_->out_of_memory("not enough memory");
  } catch (const NotEnoughMemory& error) {
    reply = state_->out_of_memory(error.what());
  } catch (const std::system_error& error) {
    // A thread that finds no memory for its stack says nothing else.
    reply = error.code() == std::errc::resource_unavailable_try_again
                ? state_->out_of_memory("not enough memory to start a thread, or too many threads")
                : failure(error.what());
  } catch (const DeviceFault& error) {
    // Nothing that this process asks of the device will work again: it ends, and another can take its place.
    reply = failure(error.what());
    reply["is_fatal"] = true;
    state_->is_open = false;
    state_->has_failed = true;
  } catch (const std::exception& error) {
    reply = failure(error.what());
  }
  hide_bytes(reply);
  return reply.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

void WorkerServer::serve(std::istream& requests, const std::function<void(const std::string&)>& write) {
  const ShouldStop& should_stop = state_->should_stop;
  for (std::string line; is_open() && !(should_stop && should_stop()) && std::getline(requests, line);)
    write(answer(line));
}

}  // namespace assay
