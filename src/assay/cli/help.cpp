#include "assay/cli/help.h"

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/cli/console.h"
#include "assay/config/fields.h"

namespace assay::cli {

namespace {

constexpr std::string_view kUngrouped = "Options", kUnnamed = "TEXT";  // CLI11's own
constexpr std::string_view kMaxUsed = "Most used", kModel = "Model and text", kPrecisionGroup = "Precision",
                           kSampling = "Sampling", kMeasuring = "Measuring", kDevice = "Device",
                           kOutput = "Output";
constexpr std::array kGroupOrder{kMaxUsed, kModel, kPrecisionGroup, kSampling, kMeasuring, kDevice, kOutput};

struct Topic {
  std::string_view flag, group;
  std::string_view value = {};  // name of its value; a switch has none, and a number has one already
};

// Flags that no field of the configuration has: their groups come from config/fields.cpp. A flag that no
// command has yet does no harm here.
constexpr Topic kTopics[] = {
    {"--prompt", kModel, "TEXT"},
    {"--prompts-file", kModel, "FILE"},
    {"--ids", kModel, "LIST"},
    {"--with", kModel, "MODEL"},
    {"--baseline", kModel, "NAME"},
    {"--max-new-tokens", kModel, "N"},
    {"--n-prompt", kModel, "LIST"},
    {"--n-gen", kModel, "LIST"},
    {"--n-depth", kModel, "LIST"},
    {"--batch-size", kModel, "LIST"},
    {"--length", kModel, "N"},
    {"--lengths", kModel, "LIST"},
    {"--ablation-lengths", kModel, "LIST"},
    {"--base", kModel, "TEXT"},
    {"--padding", kModel, "SIDE"},
    {"--truncate", kModel, "SIDE"},
    {"--no-cache", kModel},
    {"--ignore-end", kModel},
    {"--corpus", kModel, "FILE"},
    {"--text", kModel, "FILE"},
    {"--sample", kModel, "TOKENS"},
    {"--max-tokens", kModel, "N"},
    {"--divergence-tokens", kModel, "N"},
    {"--held-out-tokens", kModel, "N"},
    {"--exchanges", kModel, "N"},
    {"--worst", kOutput, "N"},
    {"--no-noise-floor", kMeasuring},
    {"--context", kModel, "N"},
    {"--stride", kModel, "N"},
    {"--through", kModel, "PHASE"},
    {"--protocol", kModel, "NAME"},
    {"--bos", kModel, "RULE"},
    {"--sentences", kModel, "FILE"},
    {"--task", kModel, "FILE"},
    {"--form", kModel, "NAME"},
    {"--no-perplexity", kModel},
    {"--decode", kModel},
    {"--no-special-tokens", kModel},
    {"--rows", kModel, "N"},
    {"--past", kModel, "N"},
    {"--precision", kPrecisionGroup, "NAME"},
    {"--recipe", kPrecisionGroup, "FILE"},
    {"--candidates", kPrecisionGroup, "LIST"},
    {"--importance", kPrecisionGroup, "FILE"},
    {"--calibration", kPrecisionGroup, "FILE"},
    {"--temperature", kSampling, "X"},
    {"--top-k", kSampling, "K"},
    {"--top-p", kSampling, "P"},
    {"--repetition-penalty", kSampling, "X"},
    {"--generation-config", kSampling, "NAME"},
    {"--skip", kMeasuring, "LIST"},
    {"--processes", kMeasuring, "N"},
    {"--repeats", kMeasuring, "N"},
    {"--no-warm-up", kMeasuring},
    {"--noise-pairs", kMeasuring, "N"},
    {"--narrow", kMeasuring, "PERCENT"},
    {"--time", kMeasuring, "SECONDS"},
    {"--max-time", kMeasuring, "SECONDS"},
    {"--budget", kMeasuring, "TIME"},
    {"--limit", kMeasuring, "LIST"},
    {"--choice", kMeasuring, "JSON"},
    {"--case-timeout", kMeasuring, "SECONDS"},
    {"--seed", kMeasuring, "N"},
    {"--margin", kMeasuring, "PERCENT"},
    {"--metric", kMeasuring, "LIST"},
    {"--drift", kMeasuring, "PERCENT"},
    {"--against", kModel, "FILE"},
    {"--model-path", kModel, "DIR"},
    {"--fail-on", kMeasuring, "LIST"},
    {"--dry-run", kMeasuring},
    {"--resume", kMeasuring},
    {"--watch", kMeasuring, "DIR"},
    {"--config", kMeasuring, "FILE"},
    {"--max-memory", kDevice, "MB"},
    {"--worker-memory", kDevice, "MB"},
    {"--largest", kDevice, "MB"},
    {"--cpu-mask", kDevice, "MASK"},
    {"--gpu", kDevice, "NAME"},
    {"--output", kOutput, "DIR"},
    {"--format", kOutput, "NAME"},
    {"--force", kOutput},
    {"--json", kOutput},
    {"--quiet", kOutput},
    {"--no-progress", kOutput},
    {"--version", kOutput},
    {"--help", kOutput},
};

// What most runs are given, in the order in which their help shows it.
constexpr std::string_view kMaxUsedOfRun[] = {"--output", "--precision", "--prompt",  "--max-new-tokens",
                                              "--skip",   "--budget",    "--dry-run", "--resume",
                                              "--device", "--threads"};

// "--max-new-tokens", the first of an option's long names.
std::string long_flag(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : "--" + option.get_lnames().front();
}

template <typename List>
auto place_in(const List& list, std::string_view wanted) {
  return std::find(std::begin(list), std::end(list), wanted) - std::begin(list);
}

// The field's group too, for a flag that only a field has.
Topic topic_of(const std::string& flag) {
  Topic topic{flag, kUngrouped};
  for (const Field& each : fields())
    if (each.has_flag && flag_of(each.key) == flag) topic = {flag, each.group, "NAME"};
  for (const Topic& each : kTopics)
    if (each.flag == flag) topic = each;
  return topic;
}

// The lines of a text, broken between words.
std::string wrapped(const std::string& text, std::size_t width) {
  std::string lines, line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines + line;
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return wrapped(make_description(app), terminal_width()) + make_usage(app, std::move(name)) +
           make_positionals(app) + groups_text(*app) + make_subcommands(app, mode) + "\n" + make_footer(app);
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_positional() ? "" : CLI::Formatter::make_option_opts(option);
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), terminal_width() - column_width_);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_display_name(true),
                             wrapped(command->get_description(), terminal_width() - column_width_),
                             column_width_);
    return out.str();
  }

 private:
  std::string groups_text(const CLI::App& app) const {
    std::vector<std::string> groups = app.get_groups();
    std::stable_sort(groups.begin(), groups.end(), [](const std::string& a, const std::string& b) {
      return place_in(kGroupOrder, a) < place_in(kGroupOrder, b);
    });
    std::string text;
    for (const std::string& group : groups) {
      std::vector<const CLI::Option*> options = app.get_options([&group](const CLI::Option* option) {
        return option->get_group() == group && option->nonpositional();
      });
      if (group == kMaxUsed)
        std::sort(options.begin(), options.end(), [](const CLI::Option* a, const CLI::Option* b) {
          return place_in(kMaxUsedOfRun, long_flag(*a)) < place_in(kMaxUsedOfRun, long_flag(*b));
        });
      if (!options.empty()) text += make_group(group, false, options);
    }
    return text;
  }
};

void arrange(CLI::App& command, const std::shared_ptr<HelpFormatter>& formatter, bool is_run) {
  command.formatter(formatter);
  for (CLI::Option* option : command.get_options()) {
    const std::string flag = long_flag(*option);
    if (flag.empty()) continue;
    const Topic topic = topic_of(flag);
    const bool is_most_used = is_run && std::count(std::begin(kMaxUsedOfRun), std::end(kMaxUsedOfRun), flag);
    if (is_most_used || option->get_group() == kUngrouped)
      option->group(std::string(is_most_used ? kMaxUsed : topic.group));
    const std::string type = option->get_type_name();
    if (option->get_items_expected_max() > 0 && !topic.value.empty() && (type.empty() || type == kUnnamed))
      option->type_name(std::string(topic.value));
  }
  for (CLI::App* each : command.get_subcommands({})) arrange(*each, formatter, each->get_name() == "run");
}

}  // namespace

void arrange_help(CLI::App& app) {
  arrange(app, std::make_shared<HelpFormatter>(), false);
}

}  // namespace assay::cli
