// The commands. Each adds itself to the program and returns its exit code when it is run.
#pragma once

#include <CLI/CLI.hpp>

namespace assay::cli {

// Exit codes of the program, beside 0.
inline constexpr int kFailed = 1, kUsage = 2, kSomeCasesFailed = 3, kInterrupted = 130;

void add_run(CLI::App& app, int& exit_code, const std::string& command_line);
void add_generate(CLI::App& app, int& exit_code);
void add_perplexity(CLI::App& app, int& exit_code);
void add_diverge(CLI::App& app, int& exit_code);
void add_sensitivity(CLI::App& app, int& exit_code);
void add_mix(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code, const std::string& command_line);
void add_tokenize(CLI::App& app, int& exit_code);
void add_logits(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_kernels(CLI::App& app, int& exit_code);
void add_machine(CLI::App& app, int& exit_code);
void add_quantize(CLI::App& app, int& exit_code);
void add_worker(CLI::App& app, int& exit_code);
// One for each study that has a command: sweep lengths, ablate cache, ...
void add_studies(CLI::App& app, int& exit_code, const std::string& command_line);
void add_task(CLI::App& app, int& exit_code, const std::string& command_line);
void add_corpus(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_interleave(CLI::App& app, int& exit_code, const std::string& command_line);
void add_history(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_help(CLI::App& app, int& exit_code);

}  // namespace assay::cli
