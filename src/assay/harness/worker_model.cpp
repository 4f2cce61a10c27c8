#include "assay/harness/worker_model.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/generate/generator.h"
#include "assay/generate/greedy_step.h"
#include "assay/model/model.h"
#include "assay/plan/operation_groups.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

using Sequences = std::vector<std::vector<TokenId>>;

std::vector<TokenId> token_ids_from_json(const JsonReader& json) {
  std::vector<TokenId> ids;
  for (const JsonReader& id : json.items())
    ids.push_back(static_cast<TokenId>(id.integer(0, std::numeric_limits<TokenId>::max())));
  return ids;
}

Sequences sequences_of(const JsonReader& request) {
  Sequences sequences;
  for (const JsonReader& ids : request.at("ids").items()) sequences.push_back(token_ids_from_json(ids));
  return sequences;
}

GenerationTrace generated(const Model& model, const Sequences& sequences, std::int64_t new_tokens,
                          const ShouldStop& should_stop) {
  GenerationOptions options;
  options.max_new_tokens = new_tokens;
  return generate(model.backend(), model.program(), sequences, options, {}, should_stop);
}

// Decode steps of all sequences after their prefill, or the prefill alone where there are no new tokens.
class ProfiledSteps {
 public:
  ProfiledSteps(Program& program, Sequences tokens, std::int64_t new_tokens, const ShouldStop& should_stop)
      : program_(program),
        should_stop_(should_stop),
        cache_(program.make_cache()),
        tokens_(std::move(tokens)),
        new_tokens_(new_tokens) {
    for (const std::vector<TokenId>& ids : tokens_) {
      past_ = std::max(past_, std::ssize(ids));
      items_.push_back({.sequence = cache_->add_sequence(), .ids = ids});
    }
    if (items_.empty()) throw Error("request: ids: expected a sequence or more, found none");
    for (std::size_t i = 0; i < items_.size(); ++i)
      if (tokens_[i].empty()) throw Error("request: ids[{}]: expected a token or more, found none", i);
    if (past_ + new_tokens > program.plan().context)
      throw Error("a sequence has {} tokens and {} new ones: at most {} fit the model's context", past_,
                  new_tokens, program.plan().context);
    next_.resize(items_.size());
  }

  OrderedJson profile() {
    if (new_tokens_ > 0) {
      step();
      if (const auto graph = program_.profile_graph(next_batch(), *cache_)) return of_graph(*graph);
    }
    program_.begin_profile();
    for (std::int64_t i = 0; i < steps(); ++i) step();
    const StepProfile profile = program_.end_profile();
    return {{"ok", true}, {"operations", operations_of(profile)}, {"phases", phases_of(profile, steps())}};
  }

 private:
  std::int64_t steps() const { return std::max<std::int64_t>(new_tokens_, 1); }

  void step() {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      items_[i].ids = tokens_[i];
      items_[i].wanted = std::ssize(tokens_[i]) - 1;
    }
    run_greedy_step(program_, *cache_, items_, next_, [&](std::span<const StepPart>) {
      if (should_stop_ && should_stop_()) throw Error("interrupted");
    });
    for (std::size_t i = 0; i < items_.size(); ++i) tokens_[i].assign(1, next_[i]);
  }

  Batch next_batch() const {
    Batch batch;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      batch.ids.push_back(next_[i]);
      batch.positions.push_back(static_cast<std::int32_t>(cache_->length(items_[i].sequence)));
      batch.sequences.push_back({.sequence = items_[i].sequence, .first_row = row, .rows = 1});
    }
    return batch;
  }

  // The step behind the prefill, as the device replays it.
  OrderedJson of_graph(const GraphProfile& graph) const {
    const Plan& plan = program_.plan();
    StepProfile phases;
    const auto add = [&](OpClass phase, Seconds time) {
      Seconds& to = phases.parts[static_cast<std::size_t>(phase)].time;
      to = to + time;
    };
    for (std::size_t i = 0; i < plan.ops.size(); ++i) add(plan.ops[i].phase, graph.operations[i].time);
    add(OpClass::head, graph.operations.back().time + graph.choice.time);
    OrderedJson operations = OrderedJson::array();
    if (items_.size() == 1) {
      for (const OperationGroup& group : operation_groups(plan, 1, past_, 1)) {
        GraphProfile::Part all;
        for (const std::size_t i : group.operations) {
          all.nodes += graph.operations[i].nodes;
          all.time = all.time + graph.operations[i].time;
        }
        operations.push_back(operation(group, all.time.value));
        operations.back()["nodes"] = all.nodes;
      }
      operations.push_back({{"name", "next_token"},
                            {"kind", "choice"},
                            {"count", 1},
                            {"seconds", graph.choice.time.value},
                            {"bytes", 0},
                            {"flops", 0},
                            {"nodes", graph.choice.nodes}});
    }
    return {{"ok", true},
            {"operations", operations},
            {"phases", phases_of(phases, 1)},
            {"step_s", graph.step.value}};
  }

  static OrderedJson operation(const OperationGroup& group, double seconds) {
    return {{"name", group.name},
            {"kind", group.kind},
            {"count", group.operations.size()},
            {"seconds", seconds},
            {"bytes", (group.cost.weight_bytes + group.cost.kv_bytes).value},
            {"flops", group.cost.flops.value}};
  }

  // Where the device times each operation by itself, what each kind took of a step with one sequence, beside
  // what it must read and compute.
  OrderedJson operations_of(const StepProfile& profile) const {
    OrderedJson operations = OrderedJson::array();
    if (profile.operations.empty() || items_.size() > 1) return operations;
    const std::int64_t rows = new_tokens_ > 0 ? 1 : past_, past = new_tokens_ > 0 ? past_ + steps() / 2 : 0;
    for (const OperationGroup& group : operation_groups(program_.plan(), rows, past, 1)) {
      double seconds = 0;
      for (const std::size_t i : group.operations) seconds += profile.operations[i].value;
      operations.push_back(operation(group, seconds / static_cast<double>(steps())));
    }
    return operations;
  }

  // What each phase took of a step, and how long a thread waited in it, in the mean.
  static OrderedJson phases_of(const StepProfile& profile, std::int64_t steps) {
    OrderedJson phases = OrderedJson::array();
    for (std::size_t i = 0; i < profile.parts.size(); ++i)
      phases.push_back({{"name", name_of(static_cast<OpClass>(i))},
                        {"seconds", profile.parts[i].time.value / static_cast<double>(steps)},
                        {"waiting_s", profile.parts[i].waiting.value / static_cast<double>(steps)}});
    return phases;
  }

  Program& program_;
  const ShouldStop& should_stop_;
  std::unique_ptr<KvCache> cache_;
  Sequences tokens_;
  const std::int64_t new_tokens_;
  std::int64_t past_ = 0;
  std::vector<StepItem> items_;
  std::vector<TokenId> next_;
};

}  // namespace

void require_known_keys(const JsonReader& request, std::vector<std::string_view> known) {
  known.insert(known.begin(), "op");
  known.emplace_back("key");
  request.require_known(known);
}

HeldModel::HeldModel(LoadedModel loaded, const ShouldStop& should_stop, Bytes held_before)
    : loaded_(std::move(loaded)),
      should_stop_(should_stop),
      session_(local_session(loaded_, should_stop, held_before)) {}

GpuSensors* HeldModel::sensors() {
  if (std::exchange(has_asked_sensors_, true)) return sensors_.get();
  std::string why_no_sensors;
  if (const std::string bus_id = loaded_.model->backend().bus_id(); !bus_id.empty())
    sensors_ = open_nvml(bus_id, why_no_sensors);
  return sensors_.get();
}

std::shared_ptr<Backend> HeldModel::gpu_for(const RunConfig& configuration) const {
  const RunConfig& own = loaded_.config;
  const bool is_same_place = own.device == configuration.device && own.cuda_gemm == configuration.cuda_gemm &&
                             own.tune == configuration.tune;
  const std::shared_ptr<Backend>& backend = loaded_.model->shared_backend();
  return is_same_place && backend->device().kind == Device::Kind::cuda ? backend : nullptr;
}

OrderedJson HeldModel::summary() const {
  const Model& model = *loaded_.model;
  const Program& program = model.program();
  return {{"ok", true},
          {"label", loaded_.dtype_label},
          {"kernels", model.backend().kernels()},
          {"threads", model.backend().threads()},
          {"weight_bytes", program.memory().weights.value},
          {"vocab", program.plan().vocab},
          {"context", program.plan().context},
          {"load_s", model.load_time().value}};
}

OrderedJson HeldModel::answer(const std::string& op, const JsonReader& request) {
  if (op == "prefill") return prefill(request);
  if (op == "decode") return decode(request);
  if (op == "logits") return logits(request);
  if (op == "profile") return profile(request);
  if (op == "roofline") return roofline(request);
  return nullptr;
}

// All tokens of all sequences pass through the model, the last of each through the LM head.
OrderedJson HeldModel::prefill(const JsonReader& request) const {
  require_known_keys(request, {"ids"});
  const GenerationTrace trace = generated(*loaded_.model, sequences_of(request), 1, should_stop_);
  std::vector<TokenId> next;
  for (const SequenceTrace& sequence : trace.sequences) next.push_back(sequence.ids.front());
  return {{"ok", true}, {"seconds", trace.step_end.front().value}, {"next", next}};
}

// The prefill gives each sequence's first id and is not timed; the steps follow.
OrderedJson HeldModel::decode(const JsonReader& request) {
  require_known_keys(request, {"ids", "new_tokens"});
  const std::int64_t steps = request.at("new_tokens").integer(1, std::int64_t{1} << 30);
  const GpuWatch watch(sensors());
  const GenerationTrace trace = generated(*loaded_.model, sequences_of(request), steps + 1, should_stop_);
  std::string why_no_energy;
  const std::optional<double> joules = watch.joules(why_no_energy);
  if (should_stop_ && should_stop_()) throw Error("interrupted");
  std::vector<double> step_s;
  for (std::size_t i = 1; i < trace.step_end.size(); ++i)
    step_s.push_back((trace.step_end[i] - trace.step_end[i - 1]).value);
  OrderedJson ids = OrderedJson::array();
  for (const SequenceTrace& sequence : trace.sequences) ids.push_back(sequence.ids);
  OrderedJson answer = {{"ok", true},
                        {"seconds", (trace.step_end.back() - trace.step_end.front()).value},
                        {"step_s", step_s},
                        {"ids", ids}};
  if (joules) answer["joules"] = *joules;  // what the GPU took, prefill included
  return answer;
}

OrderedJson HeldModel::logits(const JsonReader& request) const {
  require_known_keys(request, {"ids"});
  Program& program = loaded_.model->program();
  const std::vector<TokenId> ids = token_ids_from_json(request.at("ids"));
  if (ids.empty()) throw Error("the prompt is empty: logits need at least one token");
  const std::int64_t tokens = std::ssize(ids);
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

OrderedJson HeldModel::profile(const JsonReader& request) const {
  require_known_keys(request, {"ids", "new_tokens"});
  Program& program = loaded_.model->program();
  Sequences tokens = sequences_of(request);
  const std::int64_t new_tokens = request.at("new_tokens").integer(0, program.plan().context);
  return ProfiledSteps(program, std::move(tokens), new_tokens, should_stop_).profile();
}

// What this moment's machine reaches at most on the model's threads; 0 where nothing measures it.
OrderedJson HeldModel::roofline(const JsonReader& request) {
  require_known_keys(request, {"working_set_bytes"});
  const std::int64_t bytes = request.at("working_set_bytes").integer(1, kMaxRequestBytes);
  if (!roofline_) roofline_.emplace(*loaded_.model);
  const Roofline::Peaks peaks = roofline_->measure({bytes});
  return {{"ok", true},
          {"read_bytes_per_s", peaks.bytes_per_second},
          {"operations_per_s", peaks.operations_per_second}};
}

}  // namespace assay
