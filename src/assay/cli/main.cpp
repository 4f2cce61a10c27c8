// assay: what a language model costs, and what it loses when it is made smaller and faster.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/cli/commands.h"
#include "assay/cli/config.h"
#include "assay/cli/console.h"
#include "assay/cli/help.h"
#include "assay/config/fields.h"
#include "assay/report/table.h"

namespace {

// One line whatever a file's names contain.
int fail(int code, const std::string& sentence) {
  constexpr std::size_t kLongestSentence = 2000;
  assay::cli::note("error: " + assay::report::one_line(sentence, kLongestSentence));
  return code;
}

// The first word is a command or one of the program's own flags.
void check_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  for (const char* flag : {"-h", "--help", "--version"})
    if (word == flag) return;
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  throw assay::UsageError("unknown {} '{}': expected one of {}; the nearest is {}",
                          word.rfind('-', 0) == 0 ? "flag" : "command", word, fmt::join(names, ", "),
                          assay::nearest_name(word, names));
}

// As a shell would read it back.
std::string quoted(const std::string& word) {
  const bool is_plain =
      !word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=+-@") ==
          std::string::npos;
  if (is_plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

int run_program(int argc, char** argv) {
  int exit_code = 0;
  std::string command_line = "assay";
  for (int i = 1; i < argc; ++i) command_line += " " + quoted(argv[i]);
  CLI::App app{"assay " ASSAY_VERSION
               ": measures what a language model costs in time and memory, and what quantization changes"};
  app.name("assay");
  app.require_subcommand(1);
  app.set_version_flag("--version", "assay " ASSAY_VERSION);
  app.footer(
      "Try: assay run demo -o results\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 some cases failed, "
      "4 a rule of --fail-on is broken, 130 interrupted");
  assay::cli::add_run(app, exit_code, command_line);
  assay::cli::add_studies(app, exit_code, command_line);
  assay::cli::add_compare(app, exit_code);
  assay::cli::add_interleave(app, exit_code, command_line);
  assay::cli::add_history(app, exit_code);
  assay::cli::add_verify(app, exit_code);
  assay::cli::add_generate(app, exit_code);
  assay::cli::add_perplexity(app, exit_code);
  assay::cli::add_task(app, exit_code, command_line);
  assay::cli::add_corpus(app, exit_code);
  assay::cli::add_diverge(app, exit_code);
  assay::cli::add_sensitivity(app, exit_code);
  assay::cli::add_mix(app, exit_code);
  assay::cli::add_bench(app, exit_code, command_line);
  assay::cli::add_quantize(app, exit_code);
  assay::cli::add_tokenize(app, exit_code);
  assay::cli::add_logits(app, exit_code);
  assay::cli::add_inspect(app, exit_code);
  assay::cli::add_kernels(app, exit_code);
  assay::cli::add_machine(app, exit_code);
  assay::cli::add_worker(app, exit_code);
  assay::cli::add_report(app, exit_code);
  assay::cli::add_help(app, exit_code);
  assay::cli::arrange_help(app);
  if (argc > 1) check_command(app, argv[1]);
  assay::cli::CommandLine line = assay::cli::with_config(app, {argv + 1, argv + argc});
  try {
    std::reverse(line.words.begin(), line.words.end());  // as CLI11 takes them
    app.parse(line.words);
  } catch (const CLI::Success& e) {
    app.exit(e);
    return std::cout.flush() ? 0 : fail(assay::cli::kFailed, "cannot write to standard output");
  } catch (const CLI::ParseError& e) {
    return fail(assay::cli::kUsage, line.with_place(e.what()) + " (assay --help shows what is expected)");
  } catch (const assay::FieldError& e) {
    return fail(assay::cli::kUsage, line.with_place(assay::flag_of(e.field()) + ": " + e.problem()));
  } catch (const assay::UsageError& e) {
    return fail(assay::cli::kUsage, line.with_place(e.what()));
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) try {
  assay::cli::keep_standard_streams();
  assay::cli::watch_interrupts();
  return run_program(argc, argv);
} catch (const assay::FieldError& error) {
  return fail(assay::cli::kUsage, assay::flag_of(error.field()) + ": " + error.problem());
} catch (const assay::UsageError& error) {
  return fail(assay::cli::kUsage, error.what());
} catch (const assay::Error& error) {
  return fail(assay::cli::is_interrupted() ? assay::cli::kInterrupted : assay::cli::kFailed, error.what());
} catch (const std::bad_alloc&) {
  return fail(assay::cli::kFailed, "not enough memory");
} catch (const std::filesystem::filesystem_error& error) {
  return fail(assay::cli::kFailed,
              "cannot open " + assay::printable(error.path1().string()) + ": " + error.code().message());
} catch (const std::system_error& error) {
  return fail(assay::cli::kFailed, std::string("the system refused a thread, a process or memory (") +
                                       error.what() +
                                       "): see ulimit, the limits of the container and --worker-memory");
} catch (const std::exception& error) {
  return fail(assay::cli::kFailed, error.what());
}
