#include "assay/harness/context.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/config/fields_json.h"
#include "assay/harness/sweep.h"
#include "assay/harness/worker_protocol.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/session/load_parts.h"
#include "assay/session/resolve.h"
#include "assay/text/tokenizer.h"

namespace assay {

std::vector<std::pair<std::string, std::string>> configuration_of(const ExperimentContext& context) {
  const SweepOptions& sweep = context.sweep;
  const auto or_none = [](const auto& value) {
    return value ? fmt::format("{}", *value) : std::string("none");
  };
  std::vector<std::pair<std::string, std::string>> all = {
      {"seed", fmt::format("{}", sweep.seed)},
      {"processes", or_none(sweep.processes)},
      {"repeats", or_none(sweep.repeats)},
      {"narrow", fmt::format("{}", sweep.narrow)},
      {"time_s", fmt::format("{}", sweep.time_s)},
      {"max_time_s", or_none(sweep.max_time_s)},
      {"margin", fmt::format("{}", context.margin)},
      {"context_length", fmt::format("{}", context.context_length)}};
  for (const auto& [prefix, config] :
       {std::pair("baseline.", &context.baseline), {"common.", &context.common}}) {
    const nlohmann::ordered_json fields = to_json(*config);
    for (const auto& [key, value] : fields.items())
      all.emplace_back(prefix + key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return all;
}

ContextModel ExperimentContext::model_of(const RunConfig& configuration) const {
  if (!configuration.model)
    return {"", nullptr, tokenizer, context_length, is_quantized_already, can_be_dequantized};
  for (const ContextModel& each : models)
    if (each.name == *configuration.model) return each;
  throw std::logic_error("no model of the run: " + *configuration.model);
}

RunConfig ExperimentContext::with_origin(RunConfig configuration) const {
  configuration.is_dequantized =
      (configuration.precision || configuration.recipe) && model_of(configuration).can_be_dequantized;
  return configuration;
}

Bytes usable_share(Bytes free) {
  return {free.value / 10 * 9};
}

Bytes allowed_on_device(const std::optional<DeviceMemory>& memory, const std::optional<Bytes>& given) {
  const Bytes own = memory ? usable_share(memory->free) : Bytes{};
  return given ? std::min(own, *given) : own;
}

LocalExperiment::LocalExperiment(const LoadedModel& loaded, SweepOptions sweep) {
  ShouldStop should_stop = sweep.should_stop;
  context_.baseline = loaded.config;
  context_.common = context_.baseline;
  context_.tokenizer = loaded.tokenizer;
  context_.context_length = loaded.model->spec().context;
  context_.sweep = std::move(sweep);
  const RunConfig own = context_.baseline;
  sessions_ = std::make_unique<Sessions>([loaded, should_stop, own](const RunConfig& configuration) {
    if (!(configuration == own))
      throw Error("{}: this experiment runs only configuration {}", configuration.label(), own.label());
    return local_session(loaded, should_stop);
  });
  context_.sessions = sessions_.get();
}

LocalExperiment::LocalExperiment(LocalExperiment&&) noexcept = default;
LocalExperiment& LocalExperiment::operator=(LocalExperiment&&) noexcept = default;
LocalExperiment::~LocalExperiment() = default;

LocalExperiment::LocalExperiment(const std::vector<std::string>& candidates, const RunConfig& baseline,
                                 SweepOptions sweep) {
  ShouldStop should_stop = sweep.should_stop;
  context_.common = context_.baseline = baseline;
  context_.sweep = std::move(sweep);
  sessions_ = std::make_unique<Sessions>([candidates, should_stop](const RunConfig& configuration) {
    const Bytes before = read_process_memory().anonymous;
    const LoadOptions options{.needs_tokenizer = false, .pins_caller = true};
    return local_session(load_model_and_tokenizer(candidates, configuration, options), should_stop, before);
  });
  context_.sessions = sessions_.get();
  const auto source =
      first_candidate(candidates, [](const std::string& c) { return open_source(locate_model(c)); });
  context_.tokenizer = tokenizer_of(*source, false);
  context_.context_length = sessions_->facts(baseline).context;
}

namespace {

// What a worker takes beside weights, activations and cache: code, tokenizer, stacks.
constexpr std::int64_t kProcess = std::int64_t{40} << 20;

// What a GPU keeps of each process: its context and the code of the kernels.
constexpr std::int64_t kGpuProcess = std::int64_t{600} << 20;

// A model whose files were read, and no weights.
struct OpenedModel {
  std::string id, name;  // the candidate that was used; what configurations call it
  std::shared_ptr<const ModelSource> source;
  ModelSpec spec;
};

OpenedModel opened(const std::vector<std::string>& candidates) {
  OpenedModel model;
  model.source = first_candidate(candidates, [&](const std::string& candidate) {
    auto source = open_source(locate_model(candidate));
    model.spec = spec_from_source(*source);  // what is wrong is said before a worker loads it
    check_tensors(model.spec, stored_precision(*source, model.spec).value_or(Precision{}), *source);
    model.id = candidate;
    return source;
  });
  return model;
}

// The last part of a path tells models apart where no two have the same.
void name_models(std::vector<OpenedModel>& models) {
  const auto last_part = [](const OpenedModel& model) {
    std::filesystem::path path(model.id);
    if (!path.has_filename()) path = path.parent_path();
    const bool is_name = path.filename() != "." && path.filename() != "..";
    return (is_name ? path : std::filesystem::canonical(path)).filename().string();
  };
  std::map<std::string, int> times;
  for (const OpenedModel& model : models) ++times[last_part(model)];
  for (OpenedModel& model : models) model.name = times[last_part(model)] == 1 ? last_part(model) : model.id;
}

// The model of the run, and those beside it. Throws UsageError for one that is given twice.
std::vector<OpenedModel> opened_models(const WorkerExperimentOptions& options) {
  std::vector<OpenedModel> models{opened(options.candidates)};
  // A link and a relative path lead to the same files.
  const auto place_of = [](const OpenedModel& model) {
    return std::filesystem::canonical(model.source->path());
  };
  std::map<std::filesystem::path, std::string> seen{{place_of(models.front()), models.front().id}};
  for (const std::vector<std::string>& candidates : options.other_models) {
    models.push_back(opened(candidates));
    const OpenedModel& model = models.back();
    if (const auto [at, is_new] = seen.emplace(place_of(model), model.id); !is_new)
      throw FieldError("with", "expected a model that is not given yet, found '{}', the same files as '{}'",
                       model.id, at->second);
  }
  name_models(models);
  return models;
}

// Plans each configuration and asks its backend what the plan takes.
class MemoryPredictor {
 public:
  explicit MemoryPredictor(std::vector<OpenedModel> models) : models_(std::move(models)) {}

  std::optional<DeviceMemory> device_memory(const RunConfig& configuration) {
    return known(configuration).backend->memory();
  }
  bool has_own_memory(const RunConfig& configuration) {
    return known(configuration).backend->device().kind == Device::Kind::cuda;
  }

  Bytes operator()(const RunConfig& configuration, std::int64_t sequences, std::int64_t tokens) {
    const Known& known = this->known(configuration);
    const PredictedMemory memory = known.backend->predict(known.plan, tokens);
    return {(memory.program.weights + memory.program.packing + memory.program.workspace).value +
            sequences * memory.kv_cache.value};
  }
  bool stored_takes_activations(const RunConfig& configuration) const {
    const OpenedModel& model = model_of(configuration);
    const std::optional<Precision> stored = stored_precision(*model.source, model.spec);
    return stored && takes_activations(*stored);
  }
  // Eight sequences as long as studies usually need, and the roofline's buffer, which may be as large as the
  // weights. What a case really takes is checked when it runs. 0 where the model cannot be planned: loading
  // will say why.
  Bytes usual(const RunConfig& configuration) {
    constexpr std::int64_t kSequences = 8, kLength = 4096;
    try {
      const std::int64_t own = has_own_memory(configuration) ? kGpuProcess : kProcess,
                         length = std::min(model_of(configuration).spec.context, kLength);
      return {(*this)(configuration, kSequences, length).value + (*this)(configuration, 0, 1).value + own};
    } catch (const Error&) {
      return {};
    }
  }

 private:
  struct Known {
    std::shared_ptr<Backend> backend;
    Plan plan;
  };
  const Known& known(const RunConfig& configuration) {
    Known& known = known_[configuration.key()];
    if (known.backend == nullptr) {
      const OpenedModel& model = model_of(configuration);
      const ResolvedRun run =
          resolve(resolve(configuration), *model.source, model.spec, model.source->path().string());
      known.backend = backend_of(run);
      known.plan = plan_forward(model.spec, run.dtype.precision);
    }
    return known;
  }
  const OpenedModel& model_of(const RunConfig& configuration) const {
    for (const OpenedModel& each : models_)
      if (each.name == configuration.model) return each;
    return models_.front();
  }

  // One for all configurations that run in the same place: each holds threads, or pinned memory.
  std::shared_ptr<Backend> backend_of(const ResolvedRun& run) {
    RunConfig place;
    place.device = run.device;
    place.threads = run.asked.threads;
    place.isa = run.asked.isa;
    place.cpu_mask = run.asked.cpu_mask;
    place.cuda_gemm = run.asked.cuda_gemm;
    place.tune = run.asked.tune;
    std::shared_ptr<Backend>& backend = backends_[place.key()];
    if (backend == nullptr) backend = make_backend(run.device, run.backend);
    return backend;
  }

  std::vector<OpenedModel> models_;
  std::map<std::string, Known> known_;
  std::map<std::string, std::shared_ptr<Backend>> backends_;
};

// One process holds them all, with the memory of as many workers. `ids` are the models' by name.
SessionGroup group_of_workers(WorkerOptions worker, const std::map<std::string, std::string>& ids,
                              const std::vector<RunConfig>& configurations) {
  std::vector<WorkerModel> models;
  for (const RunConfig& configuration : configurations) {
    WorkerModel& model = models.emplace_back(
        WorkerModel{fmt::format("model {}", models.size() + 1), worker.candidates, configuration});
    if (configuration.model) model.candidates = {ids.at(*configuration.model)};
    model.configuration.model.reset();
  }
  if (worker.memory_limit) worker.memory_limit->value *= std::ssize(models);
  SessionGroup group;
  group.sessions = worker_sessions(worker, models, group.failures);
  return group;
}

bool is_on_gpu(const RunConfig& configuration) {
  return chosen_device(device_of(configuration)).kind == Device::Kind::cuda;
}

constexpr std::string_view kStoredWithInt8 = "stored+activations:int8";

// One of each kind, those first that tell a reader most: the widest, whose weights are the file's own
// numbers, is last. What is free changes from run to run, and a run that is resumed must choose the same: so
// all of the memory counts.
std::vector<std::string> precisions_that_fit(MemoryPredictor& predictor, const RunConfig& common,
                                             const std::optional<Bytes>& given) {
  const Bytes host = given && given->value > 0 ? *given : usable_share(total_memory());
  std::vector<std::string_view> texts = {name_of(Preset::bfloat16), name_of(Preset::int8_dynamic),
                                         name_of(Preset::nf4), name_of(baseline_preset(device_of(common)))};
  // The blocks as llama.cpp multiplies them on a CPU, which costs no memory.
  if (!is_on_gpu(common) && !common.activations && predictor.stored_takes_activations(common))
    texts.insert(texts.begin(), kStoredWithInt8);
  std::vector<std::string> all;
  for (const std::string_view text : texts) {
    RunConfig configuration = common;
    configuration.recipe.reset();
    configuration = resolved_for_device(run_config_from_text(text, configuration));
    const Bytes needed = predictor.usual(configuration);  // 0: not known, and loading will say why
    const std::optional<DeviceMemory> device = predictor.device_memory(configuration);
    if (needed.value <= (device ? usable_share(device->total) : host).value) all.emplace_back(text);
  }
  return all;
}

std::function<std::vector<std::string>()> once_asked_for(std::shared_ptr<MemoryPredictor> predictor,
                                                         const RunConfig& common,
                                                         const std::optional<Bytes>& given) {
  return [predictor = std::move(predictor), common, given,
          made = std::optional<std::vector<std::string>>()]() mutable {
    if (!made) made = precisions_that_fit(*predictor, common, given);
    return *made;
  };
}

ContextModel context_model(const OpenedModel& model, bool needs_tokenizer) {
  const bool is_quantized = stored_precision(*model.source, model.spec).has_value();
  return {model.name,         model.source, tokenizer_of(*model.source, needs_tokenizer),
          model.spec.context, is_quantized, is_quantized && can_be_dequantized(*model.source)};
}

// What starts on a GPU mostly waits for the driver. On a CPU a load has work for all cores: a second one
// fills the gaps that files and single threads leave.
int most_at_once(const RunConfig& configuration) {
  constexpr int kOnGpu = 16, kOnCpu = 2;
  static const int cores = default_thread_count();
  return std::min(cores, is_on_gpu(configuration) ? kOnGpu : kOnCpu);
}

}  // namespace

WorkerExperiment::WorkerExperiment(WorkerExperiment&&) noexcept = default;
WorkerExperiment& WorkerExperiment::operator=(WorkerExperiment&&) noexcept = default;
WorkerExperiment::~WorkerExperiment() = default;

void WorkerExperiment::use_first() {
  const auto& [first, id] = models_.front();
  source_ = first.source;
  id_ = id;
  context_.context_length = first.context_length;
  context_.is_quantized_already = first.is_quantized_already;
  context_.can_be_dequantized = first.can_be_dequantized;
  context_.tokenizer = first.tokenizer;
  context_.models.clear();
  if (models_.size() == 1) return;
  for (const auto& [model, candidate] : models_) context_.models.push_back(model);
  context_.common.model = context_.baseline.model = first.name;
}

void WorkerExperiment::put_first(const std::string& model) {
  const auto at = std::find_if(models_.begin(), models_.end(),
                               [&](const auto& each) { return each.first.name == model; });
  if (at == models_.end()) throw std::logic_error("no model of the run: " + model);
  std::rotate(models_.begin(), at, at + 1);
  use_first();
}

WorkerExperiment::WorkerExperiment(const WorkerExperimentOptions& options) {
  const std::vector<OpenedModel> models = opened_models(options);
  for (const OpenedModel& model : models)
    models_.emplace_back(context_model(model, options.needs_tokenizer), model.id);
  context_.common = options.common;
  context_.baseline = options.baseline;
  context_.sweep = options.sweep;
  use_first();
  if (!options.baseline.precision && !options.baseline.recipe && !context_.is_quantized_already)
    context_.baseline.precision = baseline_preset(device_of(options.baseline));
  context_.baseline = context_.with_origin(std::move(context_.baseline));
  auto predictor = std::make_shared<MemoryPredictor>(models);
  context_.predicted_memory = [predictor](const RunConfig& configuration, std::int64_t sequences,
                                          std::int64_t tokens) {
    return (*predictor)(configuration, sequences, tokens);
  };
  if (models.size() == 1 && context_.can_be_dequantized)
    context_.made_of_stored = once_asked_for(predictor, options.common, options.memory_budget);
  WorkerOptions worker{.program = options.program,
                       .candidates = options.candidates,
                       .configuration = {},
                       .is_this_build = options.other_program.empty(),
                       .needs_tokenizer = options.needs_tokenizer,
                       .memory_limit = options.worker_memory_limit,
                       .time_limit = options.case_time_limit,
                       .should_stop = options.sweep.should_stop};
  std::map<std::string, std::string> ids;  // by name
  for (const OpenedModel& model : models) ids[model.name] = model.id;
  const auto start = [worker, ids, other = options.other_program](const RunConfig& configuration) {
    WorkerOptions own = worker;
    own.configuration = configuration;
    if (configuration.model) own.candidates = {ids.at(*configuration.model)};
    own.configuration.model.reset();
    if (!other.empty() && configuration.replica == kOtherProgram) {
      own.program = other;
      own.configuration.replica = 0;
    }
    return start_worker(own);
  };
  const auto make = [start](const RunConfig& configuration) { return start(configuration)->finish(); };
  const auto memory_of = [predictor](const RunConfig& c) { return predictor->usual(c); };
  const auto device_budget = [predictor, given = options.memory_budget](const RunConfig& configuration) {
    try {
      return allowed_on_device(predictor->device_memory(configuration), given);
    } catch (const Error&) {
      return Bytes{};  // loading will say why
    }
  };
  sessions_ = std::make_unique<Sessions>(
      make, memory_of, options.memory_budget.value_or(usable_share(available_memory())), true, device_budget);
  sessions_->set_group_maker([worker, ids](const std::vector<RunConfig>& configurations) {
    return group_of_workers(worker, ids, configurations);
  });
  sessions_->set_side_by_side({.start = start, .is_worth_preparing = is_on_gpu, .at_once = most_at_once});
  context_.sessions = sessions_.get();
}

}  // namespace assay
