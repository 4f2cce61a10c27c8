// assay kernels and assay help: what the program can run, and what its numbers mean.
#include <nlohmann/json.hpp>

#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/results/metric.h"

namespace assay::cli {

namespace {

struct KernelsFlags {
  std::string isa;
  OutputFlags output;
};

int run_kernels(const KernelsFlags& flags) {
  const Isa isa = flags.isa.empty() ? best_usable_isa() : isa_from_name(flags.isa);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::string text = fmt::format("{:<14}{:<16}{}\n", "op", "format", "kernel");
  for (const auto& [op, format, origin] : kernels_of(isa)) {
    json.push_back({{"op", op}, {"format", format}, {"kernel", origin}});
    text += fmt::format("{:<14}{:<16}{}\n", op, format, origin);
  }
  if (flags.output.is_json)
    answer_json("kernels", {{"isa", name_of(isa)}, {"rows", json}});
  else
    answer(text);
  return 0;
}

int run_help(const std::string& topic) {
  if (topic != "metrics")
    throw UsageError(
        "help: expected 'metrics', found '{}'; commands explain themselves: assay COMMAND --help", topic);
  for (const Metric& m : metric_catalogue())
    answer(fmt::format("{}{}\n    {}. {}\n", m.tag, m.unit.empty() ? "" : fmt::format(" [{}]", m.unit),
                       m.title, m.definition));
  return 0;
}

}  // namespace

void add_kernels(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<KernelsFlags>();
  CLI::App* command = app.add_subcommand("kernels", "Show which kernel runs each operation on this machine");
  command->add_option("--isa", flags->isa,
                      "Instruction set: scalar, avx2, avx512, avx512bf16 or amx [the best that runs here]");
  flags->output.add_to(*command);
  command->footer("Example: assay kernels --isa avx2");
  command->callback([flags, &exit_code] { exit_code = run_kernels(*flags); });
}

void add_help(CLI::App& app, int& exit_code) {
  auto topic = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("help", "Explain a topic; metrics prints the definition of each metric");
  command->add_option("TOPIC", *topic, "Topic: metrics")->required();
  command->callback([topic, &exit_code] { exit_code = run_help(*topic); });
}

}  // namespace assay::cli
