// Do verdicts hold on this machine? Studies of the trade-off between configurations that are equal in all but
// name show how often a difference is reported where there is none; then a configuration whose every step is
// slowed by the minimum detectable difference shows how often it is found. Pairs of whole runs, of which the
// later is the same program or one that is slowed, show what the gate of `assay compare` says (--gate), and
// pairs whose processes take turns what that of `assay interleave` says (--interleave). All processes start
// afresh.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <vector>

#include <CLI/CLI.hpp>

#include "assay/backend/backend.h"
#include "assay/harness/make_case.h"
#include "assay/harness/sweep.h"
#include "assay/harness/worker_protocol.h"
#include "assay/report/files.h"
#include "assay/report/prose/prose.h"
#include "assay/results/compare_results.h"
#include "assay/results/judge.h"
#include "assay/session/load_parts.h"
#include "assay/session/resolve.h"
#include "assay/studies/interleave.h"
#include "assay/studies/suite.h"

namespace {

using assay::Comparison;
using assay::Verdict;
using Clock = std::chrono::steady_clock;

constexpr int kSlowed = 1000;  // the replica whose steps are slowed

struct Options {
  std::string model = "demo", precision = "float32", output;
  double slowdown = 0, gate_slowdown = 0.05;
  std::string gate_rule = "latency:3%";
  int runs = 40, configurations = 4, processes = assay::kUsualProcesses;
  std::int64_t new_tokens = 32;
  bool has_aa_runs = true, has_slowed_runs = true, has_gate_runs = false, takes_turns = false,
       slows_all = false;
};

// Keeps the processor busy for `share` of the time since `begin`.
void spin(Clock::time_point begin, double share) {
  const Clock::time_point now = Clock::now();
  const auto end = now + std::chrono::duration_cast<Clock::duration>((now - begin) * share);
  while (Clock::now() < end) {
  }
}

class SlowedProgram : public assay::Program {
 public:
  SlowedProgram(std::unique_ptr<Program> program, double share) : own_(std::move(program)), share_(share) {}
  const assay::Plan& plan() const override { return own_->plan(); }
  std::unique_ptr<assay::KvCache> make_cache() override { return own_->make_cache(); }
  void run(const assay::Batch& batch, assay::KvCache& cache) override {
    const auto begin = Clock::now();
    own_->run(batch, cache);
    spin(begin, share_);
  }
  void head(std::span<const std::int64_t> rows, const assay::HeadSink& sink) override {
    const auto begin = Clock::now();
    own_->head(rows, sink);
    spin(begin, share_);
  }
  void exchange(assay::WeightId weight, const assay::Plan& other,
                const assay::WeightSource& source) override {
    own_->exchange(weight, other, source);
  }
  void observe_inputs(assay::InputObserver observer) override { own_->observe_inputs(std::move(observer)); }
  double outlier_share() const override { return own_->outlier_share(); }
  double exact_head_share() const override { return own_->exact_head_share(); }
  std::int64_t max_rows() const override { return own_->max_rows(); }
  assay::Bytes cache_bytes(std::int64_t length) const override { return own_->cache_bytes(length); }
  assay::MemoryReport memory() const override { return own_->memory(); }
  std::vector<std::span<const std::byte>> step_weights() const override { return own_->step_weights(); }
  void trim() override { own_->trim(); }
  void begin_profile() override { own_->begin_profile(); }
  assay::StepProfile end_profile() override { return own_->end_profile(); }

 private:
  std::unique_ptr<Program> own_;
  double share_;
};

class SlowedBackend : public assay::Backend {
 public:
  SlowedBackend(std::shared_ptr<Backend> backend, double share) : own_(std::move(backend)), share_(share) {}
  assay::Device device() const override { return own_->device(); }
  std::string kernels() const override { return own_->kernels(); }
  bool multiplies_bfloat16() const override { return own_->multiplies_bfloat16(); }
  int threads() const override { return own_->threads(); }
  assay::ThreadPool* pool() override { return own_->pool(); }
  std::unique_ptr<assay::Program> prepare(const assay::Plan& plan,
                                          const assay::WeightSource& source) override {
    return std::make_unique<SlowedProgram>(own_->prepare(plan, source), share_);
  }
  assay::PredictedMemory predict(const assay::Plan& plan, std::int64_t tokens) override {
    return own_->predict(plan, tokens);
  }
  void synchronize() override { own_->synchronize(); }
  assay::Event record() override { return own_->record(); }
  assay::Seconds between(const assay::Event& begin, const assay::Event& end) override {
    return own_->between(begin, end);
  }

 private:
  std::shared_ptr<Backend> own_;
  double share_;
};

// `assay worker`, but the replica kSlowed is slowed by `slowdown`, or all are.
int serve(double slowdown, bool slows_all) {
  const auto load = [&](const std::vector<std::string>& candidates, const assay::RunConfig& config,
                        assay::LoadOptions options) {
    assay::ResolvedRun run = assay::resolve(config, {.pins_caller = true});
    if (options.constants != nullptr) run.backend.constants = *options.constants;
    options.shared_backend = assay::make_backend(run.device, run.backend);
    if (slows_all || config.replica == kSlowed)
      options.shared_backend = std::make_shared<SlowedBackend>(options.shared_backend, slowdown);
    return assay::load_model_and_tokenizer(candidates, config, options);
  };
  assay::WorkerServer server({}, load);
  server.serve(std::cin, [](const std::string& answer) { std::cout << answer << std::endl; });
  return 0;
}

class Check {
 public:
  Check(std::string self, Options options) : self_(std::move(self)), options_(std::move(options)) {}

  int run() {
    int code = 0;
    if (options_.has_aa_runs) code |= equal_configurations();
    if (options_.has_slowed_runs) code |= slowed_configuration();
    if (options_.has_gate_runs)
      code |= gate([this](int i, double slowdown) {
        return std::pair(whole_run(2 * i, 0), whole_run(2 * i + 1, slowdown));
      });
    if (options_.takes_turns) code |= gate([this](int i, double slowdown) { return in_turns(i, slowdown); });
    return code;
  }

 private:
  std::vector<std::string> worker(double slowdown, bool slows_all) const {
    std::vector<std::string> program = {self_, "--slowdown", fmt::format("{}", slowdown), "worker"};
    if (slows_all) program.insert(program.begin() + 1, "--slow-all");
    return program;
  }

  assay::WorkerExperimentOptions experiment_options(int run) const {
    assay::WorkerExperimentOptions options;
    options.candidates = {options_.model};
    options.baseline = options.common = assay::run_config_from_text(options_.precision);
    options.common.precision.reset();
    options.sweep.seed = static_cast<std::uint64_t>(run) + 1;
    return options;
  }

  assay::WorkerExperiment experiment(int run, double slowdown, bool slows_all = false) const {
    assay::WorkerExperimentOptions options = experiment_options(run);
    options.program = worker(slowdown, slows_all);
    options.sweep.processes = options_.processes;
    options.sweep.repeats = assay::kMinRounds;
    return assay::WorkerExperiment(options);
  }

  int equal_configurations() {
    assay::TradeoffOptions tradeoff{.precisions = {options_.precision}, .new_tokens = options_.new_tokens};
    tradeoff.prompts.resize(1);
    for (int i = 1; i < options_.configurations; ++i)
      tradeoff.precisions.push_back(fmt::format("{}+replica:{}", options_.precision, i));
    int false_runs = 0;
    std::size_t comparisons = 0;
    for (int i = 0; i < options_.runs; ++i) {
      const assay::WorkerExperiment workers = experiment(i, 0);
      const assay::ExperimentContext& context = workers;
      assay::ExperimentResult found = run_quantization_tradeoff(context, tradeoff);
      bool is_false = false;
      for (const auto* list : {&found.comparisons, &found.other_comparisons}) {
        for (const Comparison& each : *list) {
          if (each.verdict != Verdict::lower && each.verdict != Verdict::higher) continue;
          is_false = true;
          fmt::print("run {}: {}\n", i + 1, assay::report::sentence_of(each));
        }
        comparisons += list->size();
      }
      false_runs += is_false ? 1 : 0;
      for (const Comparison& each : found.comparisons)
        if (each.metric == "total_latency_s" && each.effect) errors_.push_back(each.effect->error);
      if (!options_.output.empty())
        assay::report::write_reports(results_of(context, std::move(found)),
                                     fmt::format("{}/run-{:02}", options_.output, i + 1));
      std::cout.flush();
    }
    fmt::print(
        "{} of {} runs of {} equal configurations report a difference in any of {} comparisons ({} may)\n",
        false_runs, options_.runs, options_.configurations, comparisons, allowed(0.08));
    return false_runs <= allowed(0.08) ? 0 : 1;
  }

  int allowed(double share) const { return static_cast<int>(share * options_.runs); }

  // One comparison of two equal configurations, the second slowed.
  std::optional<Comparison> compared(int run, double slowdown) const {
    const assay::WorkerExperiment workers = experiment(run, slowdown);
    const assay::ExperimentContext& context = workers;
    assay::Case what = baseline_case(context, assay::Scenario::noise, "as it is",
                                     {"Once upon a time, in a land far, far away,"}, options_.new_tokens);
    assay::Case slowed = what;
    slowed.label = "slowed";
    slowed.configuration.replica = kSlowed;
    const auto swept =
        run_sweep(*context.sessions, fmt::format("run {}", run), {what, slowed}, context.sweep);
    if (swept.cases.size() != 2) return std::nullopt;
    Comparison found = assay::compare_processes(
        log_ratios(swept.cases[1], swept.cases[0], &assay::Sample::total_latency_s), 0);
    found.scenario = what.scenario;
    found.subject = slowed.label;
    found.baseline = what.label;
    found.metric = "total_latency_s";
    judge(found);
    return found;
  }

  int slowed_configuration() {
    for (int i = 0; errors_.size() < 10; ++i) {
      const auto equal = compared(i, 0);
      if (!equal || !equal->effect) return 1;
      errors_.push_back(equal->effect->error);
    }
    // What a comparison of equals says of itself, in the median.
    std::vector<double> detectable;
    for (const double error : errors_)
      detectable.push_back(std::expm1(assay::statistics::detectable_difference(
          {.error = error,
           .degrees = static_cast<double>(options_.processes - 1),
           .replicates = static_cast<std::size_t>(options_.processes)},
          0.95)));
    const double slowdown = assay::statistics::median(detectable);
    int found = 0;
    for (int i = 0; i < options_.runs; ++i) {
      const auto slowed = compared(1000 + i, slowdown);
      found += slowed && slowed->verdict == Verdict::higher ? 1 : 0;
    }
    fmt::print("slowed by {:.1f} %: found in {} of {} runs ({} to {} are expected)\n", 100 * slowdown, found,
               options_.runs, std::ceil(0.85 * options_.runs), std::floor(0.95 * options_.runs));
    return found >= 0.85 * options_.runs ? 0 : 1;
  }

  // A run as another would be made a day later.
  assay::ResultSet whole_run(int number, double slowdown) const {
    assay::TradeoffOptions tradeoff{.precisions = {options_.precision}, .new_tokens = options_.new_tokens};
    tradeoff.prompts.resize(1);
    const assay::WorkerExperiment workers = experiment(number, slowdown, true);
    const assay::ExperimentContext& context = workers;
    return results_of(context, run_quantization_tradeoff(context, tradeoff));
  }

  // As many processes as the rule needs.
  std::pair<assay::ResultSet, assay::ResultSet> in_turns(int number, double slowdown) {
    assay::WorkerExperimentOptions options = experiment_options(number);
    options.program = worker(0, true);
    options.other_program = worker(slowdown, true);
    const assay::WorkerExperiment workers(options);
    assay::Interleaved both =
        run_interleaved(workers, {.new_tokens = options_.new_tokens,
                                  .scores_text = false,
                                  .detectable = assay::failure_rules(options_.gate_rule).front().margin});
    for (const assay::Row& row : both.a.rows) pairs_.push_back(row.processes());
    return {std::move(both.a), std::move(both.b)};
  }

  // Equal pairs must pass or be refused, slowed ones be found or refused; of processes in turns none is
  // refused.
  int gate(const std::function<std::pair<assay::ResultSet, assay::ResultSet>(int, double)>& make) {
    const assay::FailureRule rule = assay::failure_rules(options_.gate_rule).front();
    struct Count {
      int broken = 0, passed = 0, refused = 0;
    } equal, slowed;
    for (int i = 0; i < options_.runs; ++i)
      for (const double slowdown : {0.0, options_.gate_slowdown}) {
        Count& count = slowdown > 0 ? slowed : equal;
        const auto [before, after] = make(2 * i + (slowdown > 0 ? 1 : 0), slowdown);
        try {
          const assay::ComparedResults compared = assay::compare_results(before, after, 0.02);
          const assay::RuleOutcome outcome = assay::judge_rule(compared, rule);
          ++(outcome.is_broken() ? count.broken : count.passed);
          if (outcome.is_broken() != (slowdown > 0))
            fmt::print("pair {}, slowed by {:.1f} %: {}\n", i + 1, 100 * slowdown,
                       assay::report::sentence_of(compared.rows.front()));
        } catch (const assay::Error& error) {
          ++count.refused;
          fmt::print("pair {}: {}\n", i + 1, error.what());
        }
        std::cout.flush();
      }
    std::string pairs;
    if (!pairs_.empty())
      pairs = fmt::format("; {} pairs of processes in the median, {} at most",
                          assay::statistics::median(pairs_), *std::max_element(pairs_.begin(), pairs_.end()));
    fmt::print(
        "{}: of {} equal pairs {} raise an alarm and {} are refused; slowed by {:.1f} %: {} found, {} "
        "missed, {} refused{}\n",
        rule.text, options_.runs, equal.broken, equal.refused, 100 * options_.gate_slowdown, slowed.broken,
        slowed.passed, slowed.refused, pairs);
    pairs_.clear();
    return equal.broken <= allowed(0.05) && slowed.passed <= allowed(0.05) ? 0 : 1;
  }

  std::string self_;
  Options options_;
  std::vector<double> errors_;  // those of comparisons of equal configurations
  std::vector<double> pairs_;   // those of processes, of each pair of runs that took turns
};

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app(
      "Checks on this machine that verdicts are not given between equals, and found where they are due.");
  app.add_option("model", options.model, "Model, or 'worker'")->capture_default_str();
  app.add_option("--precision", options.precision, "Precision")->capture_default_str();
  app.add_option("--runs", options.runs, "Runs")->capture_default_str();
  app.add_option("--configurations", options.configurations, "Equal configurations in a run")
      ->capture_default_str();
  app.add_option("--processes", options.processes, "Processes of each")->capture_default_str();
  app.add_option("-n,--max-new-tokens", options.new_tokens, "New tokens")->capture_default_str();
  app.add_option("-o,--output", options.output, "Folder for the results of each run, for assay compare");
  app.add_option("--slowdown", options.slowdown, "Of a worker: by which it is slowed");
  app.add_flag("--aa,!--no-aa", options.has_aa_runs, "Compare equal configurations");
  app.add_flag("--slowed,!--no-slowed", options.has_slowed_runs, "Compare with a slowed configuration");
  app.add_flag("--gate", options.has_gate_runs, "Compare whole runs with equal and with slowed ones");
  app.add_flag("--interleave", options.takes_turns,
               "Compare runs that take turns with equal and slowed ones");
  app.add_option("--gate-rule", options.gate_rule, "As of --fail-on")->capture_default_str();
  app.add_option("--gate-slowdown", options.gate_slowdown, "Share by which they are slowed")
      ->capture_default_str();
  app.add_flag("--slow-all", options.slows_all, "Of a worker: whatever it loads is slowed");
  CLI11_PARSE(app, argc, argv);
  if (options.model == "worker") return serve(options.slowdown, options.slows_all);
  return Check(argv[0], options).run();
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << '\n';
  return 1;
}
