#include "assay/harness/run_case.h"

#include <sys/resource.h>

#include <algorithm>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/random.h"
#include "assay/harness/run_costs.h"
#include "assay/machine/energy.h"
#include "assay/machine/machine.h"
#include "assay/model/model.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

// The same ones in each run.
std::vector<TokenId> random_ids(const RandomPrompts& random, std::int64_t sequence, std::int64_t vocab) {
  constexpr std::uint64_t kSeed = 1;
  Random numbers(kSeed, static_cast<std::uint64_t>(sequence));
  std::vector<TokenId> ids(static_cast<std::size_t>(random.depth + random.tokens));
  for (TokenId& id : ids) id = static_cast<TokenId>(numbers.next() % static_cast<std::uint64_t>(vocab));
  return ids;
}

BatchShape shape_without_prompts(const LoadedModel& loaded, const Case& spec) {
  BatchShape shape{.prompt_tokens = {}, .new_tokens = spec.new_tokens, .uses_cache = spec.uses_cache};
  if (spec.random_prompts) {
    shape.depth = spec.random_prompts->depth;
    shape.rows_per_step = loaded.model->program().max_rows();
  }
  return shape;
}

struct CaseOutcome {
  Sample sample;
  std::vector<BatchShape> shapes;
  std::vector<std::vector<TokenId>> prompt_ids, ids;
  std::vector<std::string> texts;
  Bytes anonymous, kv_cache;  // at the last token
};

void check_counts(const Case& spec) {
  if (spec.sequences() < 1) throw Error("{}: no prompt was given", spec.label);
  if (spec.batch_size < 0) throw FieldError("batch_size", "expected 0 or more, found {}", spec.batch_size);
}

class CaseRun {
 public:
  CaseRun(const LoadedModel& loaded, const Case& spec, bool watches_memory, const ShouldStop& should_stop)
      : loaded_(loaded), what_(spec), watches_memory_(watches_memory), should_stop_(should_stop) {
    check_counts(spec);
  }

  CaseOutcome run() {
    const std::int64_t all = what_.sequences();
    const std::int64_t size = what_.batch_size == 0 ? all : what_.batch_size;
    const TimePoint begin = Clock::now();
    for (std::int64_t first = 0; first < all; first += size) add_batch(first, std::min(all, first + size));
    ran_.sample.end_to_end_s = elapsed(begin, Clock::now()).value;
    ran_.sample.ids_hash = hash_of(ran_.ids);
    ran_.sample.sequences = all;
    return std::move(ran_);
  }

 private:
  std::vector<std::vector<TokenId>> tokenize(std::int64_t first, std::int64_t end) {
    const TimePoint begin = Clock::now();
    std::vector<std::vector<TokenId>> prompts;
    for (std::int64_t i = first; i < end; ++i) {
      if (what_.random_prompts) {
        prompts.push_back(random_ids(*what_.random_prompts, i, loaded_.model->spec().vocab));
        continue;
      }
      prompts.push_back(prompt_ids(loaded_, what_.prompts[static_cast<std::size_t>(i)]));
      truncate(prompts.back(), loaded_.model->spec().context - what_.new_tokens, what_.truncation,
               loaded_.tokenizer.get());
    }
    ran_.sample.tokenize_s += elapsed(begin, Clock::now()).value;
    if (first == 0) ran_.sample.first_tokenize_s = ran_.sample.tokenize_s;
    return prompts;
  }

  GenerationOptions options() {
    GenerationOptions options;
    options.max_new_tokens = what_.new_tokens;
    options.uses_cache = what_.uses_cache;
    options.padding = what_.padding;
    options.pad_token = loaded_.pad_token;
    if (what_.random_prompts) options.depth = what_.random_prompts->depth;
    return options;
  }

  void add_batch(std::int64_t first, std::int64_t end) {
    const auto prompts = tokenize(first, end);
    std::int64_t tokens = 0;
    const std::int64_t last = (end - first) * what_.new_tokens;
    // Reading /proc takes longer than a token: only in the run that is not timed.
    const OnToken on_token = [&](std::size_t, TokenId) {
      if (++tokens == last) ran_.anonymous = std::max(ran_.anonymous, read_process_memory().anonymous);
    };
    const GenerationTrace trace = generate(loaded_.model->backend(), loaded_.model->program(), prompts,
                                           options(), watches_memory_ ? on_token : OnToken{}, should_stop_);
    if (should_stop_ && should_stop_()) throw Error("interrupted");
    add(trace, prompts);
    detokenize(trace, prompts);
  }

  void add(const GenerationTrace& trace, const std::vector<std::vector<TokenId>>& prompts) {
    Sample& s = ran_.sample;
    BatchShape shape = shape_without_prompts(loaded_, what_);
    Bytes kv_cache;
    for (const auto& prompt : prompts) {
      const auto known = static_cast<std::int64_t>(prompt.size());
      shape.prompt_tokens.push_back(known - shape.depth);
      s.prompt_tokens += known - shape.depth;
      kv_cache = kv_cache + loaded_.model->program().cache_bytes(known + what_.new_tokens - 1);
      if (!what_.random_prompts) ran_.prompt_ids.push_back(prompt);
    }
    ran_.kv_cache = std::max(ran_.kv_cache, kv_cache);
    ran_.shapes.push_back(std::move(shape));
    if (s.batches++ == 0) s.first_token_s = trace.step_end.front().value;
    s.total_latency_s += trace.total.value;
    s.prefill_s += trace.prefill.value;
    s.sampling_s += trace.sampling.value;
    for (const Seconds step : trace.decode) s.step_s.push_back(step.value);
    s.computed_prompt_tokens += trace.computed_prompt_tokens;
    s.new_tokens += trace.tokens_generated();
  }

  void detokenize(const GenerationTrace& trace, const std::vector<std::vector<TokenId>>& prompts) {
    const TimePoint begin = Clock::now();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      ran_.ids.push_back(trace.sequences[i].ids);
      if (what_.random_prompts) continue;
      ran_.texts.push_back(
          loaded_.tokenizer == nullptr ? "" : loaded_.tokenizer->decode_after(prompts[i], ran_.ids.back()));
    }
    ran_.sample.detokenize_s += elapsed(begin, Clock::now()).value;
  }

  const LoadedModel& loaded_;
  const Case& what_;
  const bool watches_memory_;
  const ShouldStop& should_stop_;
  CaseOutcome ran_;
};

// Not empty.
std::vector<BatchShape> expected_shapes(const LoadedModel& loaded, const Case& spec) {
  check_counts(spec);
  std::vector<BatchShape> shapes;
  const std::int64_t all = spec.sequences();
  const std::int64_t size = spec.batch_size == 0 ? all : spec.batch_size;
  for (std::int64_t i = 0; i < all; ++i) {
    if (i % size == 0) shapes.push_back(shape_without_prompts(loaded, spec));
    if (spec.random_prompts) {
      shapes.back().prompt_tokens.push_back(spec.random_prompts->tokens);
      continue;
    }
    std::vector<TokenId> ids = prompt_ids(loaded, spec.prompts[static_cast<std::size_t>(i)]);
    truncate(ids, loaded.model->spec().context - spec.new_tokens, spec.truncation, loaded.tokenizer.get());
    shapes.back().prompt_tokens.push_back(static_cast<std::int64_t>(ids.size()));
  }
  return shapes;
}

}  // namespace

Sample run_case(const LoadedModel& loaded, const Case& spec, Roofline* roofline,
                const ShouldStop& should_stop, DisturbanceWatch* watch, GpuSensors* sensors) {
  Roofline::Peaks peaks;
  Bytes working_set;
  const auto measure = [&] {
    return roofline->measure(working_set, roofline->window_beside_run(working_set));
  };
  if (roofline != nullptr) {
    working_set =
        working_set_of(step_costs(loaded.model->program().plan(), expected_shapes(loaded, spec).front()));
    peaks = measure();
  }
  std::optional<DisturbanceWatch> own;
  if (watch == nullptr) watch = &own.emplace();
  const bool is_on_gpu = loaded.model->backend().device().kind == Device::Kind::cuda;
  const EnergyWatch energy;
  const GpuWatch gpu(sensors);
  watch->begin_run();
  CaseOutcome ran = CaseRun(loaded, spec, false, should_stop).run();
  ran.sample.disturbance = watch->so_far();
  if (sensors != nullptr) ran.sample.gpu = gpu.use();
  if (is_on_gpu) {
    ran.sample.energy_j = gpu.joules(ran.sample.energy_why_not);
  } else {
    ran.sample.energy_j = energy.joules();
    ran.sample.energy_why_not = energy.why_not();
  }
  if (roofline == nullptr) return std::move(ran.sample);
  const Plan& plan = loaded.model->program().plan();
  roofline->note_run(working_set, {ran.sample.total_latency_s});
  repeat_impossible(plan, ran.shapes, ran.sample, peaks, measure);
  set_roofline(plan, ran.shapes, peaks, ran.sample);
  return std::move(ran.sample);
}

FirstRun first_run(const LoadedModel& loaded, const Case& spec, Roofline& roofline, Bytes held_before,
                   const ShouldStop& should_stop) {
  Program& program = loaded.model->program();
  program.trim();
  const Bytes working_set = working_set_of(step_costs(program.plan(), expected_shapes(loaded, spec).front()));
  const Roofline::Peaks peaks = roofline.measure(working_set);
  Backend& backend = loaded.model->backend();
  backend.reset_peak_memory();
  program.begin_profile();
  CaseOutcome ran;
  try {
    ran = CaseRun(loaded, spec, true, should_stop).run();
  } catch (...) {
    program.end_profile();
    throw;
  }
  FirstRun first;
  const StepProfile profile = program.end_profile();
  const bool is_of_all = ran.shapes.front().depth == 0;  // else it holds the filling of the KV cache too
  if (is_of_all)
    first.profile = profile_of(profile, ran.sample.total_latency_s, program.plan(), ran.shapes, peaks);
  rusage own{};
  const std::int64_t highest = getrusage(RUSAGE_SELF, &own) == 0 ? std::int64_t{own.ru_maxrss} * 1024 : 0;
  set_memory(first, {.anonymous = ran.anonymous,
                     .held_before = held_before,
                     .held_by_probes = roofline.held(),
                     .kv_cache = ran.kv_cache,
                     .process = read_process_memory(),
                     .highest = {highest},
                     .device = backend.memory()});
  first.seconds = ran.sample.total_latency_s;
  roofline.note_run(working_set, {first.seconds});
  first.prompt_ids = std::move(ran.prompt_ids);
  first.ids = std::move(ran.ids);
  first.texts = std::move(ran.texts);
  return first;
}

}  // namespace assay
