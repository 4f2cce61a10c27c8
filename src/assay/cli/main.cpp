// assay: what a language model costs, and what it loses when it is made smaller and faster.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <span>
#include <system_error>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/cli/commands.h"
#include "assay/cli/config.h"
#include "assay/cli/console.h"
#include "assay/cli/help.h"
#include "assay/cli/options.h"
#include "assay/config/fields.h"
#include "assay/report/table.h"

namespace {

// One line whatever a file's names contain.
int fail(int code, const std::string& sentence) {
  constexpr std::size_t kLongestSentence = 2000;
  assay::cli::note("error: " + assay::report::one_line(sentence, kLongestSentence));
  return code;
}

// The first word is a command or one of the program's own flags, and where a command is of two words the next
// is the second.
void check_command(const CLI::App& parent, const std::string& name, std::span<char*> words) {
  const std::string word = words.front();
  std::vector<std::string> names;
  const CLI::App* found = nullptr;
  for (const CLI::App* command : parent.get_subcommands({})) {
    names.push_back(command->get_name());
    if (command->get_name() == word) found = command;
  }
  for (const char* flag : {"-h", "--help", "--version"})
    if (word == flag) return;
  if (found == nullptr)
    throw assay::UsageError("unknown {} '{}'{}: expected one of {}; the nearest is {}",
                            word.rfind('-', 0) == 0 ? "flag" : "command", word,
                            name.empty() ? "" : " behind " + name, fmt::join(names, ", "),
                            assay::nearest_name(word, names));
  if (found->get_subcommands({}).empty()) return;
  if (words.size() < 2) {
    names.clear();
    for (const CLI::App* command : found->get_subcommands({})) names.push_back(command->get_name());
    throw assay::UsageError("{}: expected one of {} behind it", word, fmt::join(names, ", "));
  }
  check_command(*found, word, words.subspan(1));
}

// "assay sweep lengths", as far as the command line was understood.
std::string command_of(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string name = "assay";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return name;
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

std::string help_of(const CLI::App& app) {
  return fmt::format(" ({} --help shows what is expected)", command_of(app));
}

// What a command has no place for; the flag, of a flag and its value.
std::string unexpected_sentence(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const std::string name = command_of(app);
  std::vector<std::string> words = app.remaining(true), flags;
  const auto flag = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (flag == words.end())
    return fmt::format("{}: expected no '{}'", name, words.empty() ? "" : words.front());
  for (const CLI::Option* option : command->get_options())
    for (const std::string& known : option->get_lnames()) flags.push_back("--" + known);
  return fmt::format("{}: unknown flag '{}': the nearest is {}", name, *flag,
                     assay::nearest_name(*flag, flags));
}

// A flag that stands too often, or without its value.
std::string mismatch_sentence(const std::string& said) {
  constexpr std::string_view kTooOften = ": At Most 1 required but received ", kMissing = " missing";
  if (const std::size_t at = said.find(kTooOften); at != std::string::npos)
    return fmt::format("{}: expected once, found {} times", said.substr(0, at),
                       said.substr(at + kTooOften.size()));
  if (said.ends_with(kMissing)) return said.substr(0, said.find(": ")) + ": expected a value, found none";
  return said;
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
  app.parse_complete_callback([&app] { assay::cli::refuse_empty_values(app); });
  if (argc > 1) check_command(app, "", std::span(argv + 1, static_cast<std::size_t>(argc) - 1));
  assay::cli::CommandLine line =
      assay::cli::with_config(app, assay::cli::with_optional_values({argv + 1, argv + argc}));
  try {
    std::reverse(line.words.begin(), line.words.end());  // as CLI11 takes them
    app.parse(line.words);
  } catch (const CLI::Success& e) {
    app.exit(e);
    return std::cout.flush() ? 0 : fail(assay::cli::kFailed, "cannot write to standard output");
  } catch (const CLI::ExtrasError&) {
    return fail(assay::cli::kUsage, line.with_place(unexpected_sentence(app)) + help_of(app));
  } catch (const CLI::ArgumentMismatch& e) {
    return fail(assay::cli::kUsage, line.with_place(mismatch_sentence(e.what())) + help_of(app));
  } catch (const CLI::ParseError& e) {
    return fail(assay::cli::kUsage, line.with_place(e.what()) + help_of(app));
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
