// Commands and flags that are unknown, or have values that they cannot have: exit code 2, the flag by its
// name.
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

// `flag value` is refused by the command, in one sentence that names the flag.
void expect_flag_refused(std::vector<std::string> command, const std::string& flag, const std::string& value,
                         std::initializer_list<std::string> words = {}) {
  SCOPED_TRACE(command.front() + " " + flag + " " + value);
  command.push_back(flag);
  command.push_back(value);
  const ProgramResult result = run_program(command);
  expect_failure(result, 2, words);
}

const std::vector<std::string> kGenerate{"generate", kModel, "-p", "hi"};

TEST(CliBadFlags, NoCommand) {
  expect_failure(run_program({}), 2, {"--help"});
}

TEST(CliBadFlags, UnknownCommand) {
  expect_failure(run_program({"genrate", kModel, "-p", "hi"}), 2, {"genrate"});
  expect_failure(run_program({"--bogus"}), 2, {"--bogus"});
}

TEST(CliBadFlags, Mask) {
  for (const char* mask : {"0x", "g", "1,2", "-1", "0x1ffffffffffffffffz"})
    expect_flag_refused(kGenerate, "--cpu-mask", mask, {"--cpu-mask", "hexadecimal"});
  expect_flag_refused(kGenerate, "--cpu-mask", "0", {"--cpu-mask", "none of the processors"});
}

TEST(CliBadFlags, KvCacheAndMatmul) {
  expect_flag_refused(kGenerate, "--kv-cache", "float16", {"--kv-cache", "float16", "bfloat16", "int8"});
  expect_flag_refused(kGenerate, "--float32-matmul", "bf16x2", {"--float32-matmul", "bf16x3"});
  expect_flag_refused({"generate", kModel, "-p", "hi", "--precision", "bfloat16"}, "--float32-matmul",
                      "bf16x3", {"--float32-matmul", "bfloat16"});
  expect_flag_refused({"generate", kModel, "-p", "hi", "--isa", "avx2"}, "--float32-matmul", "bf16x3",
                      {"AMX"});
}

TEST(CliBadFlags, OutlierThreshold) {
  const std::vector<std::string> command{"generate", kModel, "-p", "hi", "--precision", "llm-int8"};
  for (const char* threshold : {"-1", "-3.5", "nan", "inf", "six"})
    expect_flag_refused(command, "--llm-int8-threshold", threshold,
                        {"--llm-int8-threshold", "0 (none) or more", threshold});
}

// More threads than processors are allowed, with a word of warning.
TEST(CliBadFlags, ManyThreadsAreAllowed) {
  const ProgramResult result = run_program({"generate", kModel, "-p", "hi", "-n", "2", "-t", "300"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("300 threads on"), std::string::npos) << result.err;
}

TEST(CliBadFlags, UnknownFlag) {
  for (const std::string command : {"generate", "tokenize", "logits", "inspect", "run"})
    expect_failure(run_program({command, kModel, "--no-such-flag"}), 2, {"--no-such-flag"});
  for (const std::string command : {"kernels", "worker"})
    expect_failure(run_program({command, "--no-such-flag"}), 2, {"--no-such-flag"});
  expect_failure(run_program({"generate", kModel, "-p", "hi", "-z"}), 2, {"-z"});
  expect_failure(run_program({"generate", kModel, "surplus", "-p", "hi"}), 2, {"surplus"});
}

TEST(CliBadFlags, MissingArguments) {
  for (const std::string command : {"generate", "perplexity", "tokenize", "logits", "inspect"})
    expect_failure(run_program({command}), 2, {"MODEL"});
  expect_failure(run_program({"perplexity", kModel}), 2, {"FILE"});
  expect_failure(run_program({"report"}), 2, {"RESULTS"});
  expect_failure(run_program({"help"}), 2, {"TOPIC"});
  expect_failure(run_program({"help", "nothing"}), 2, {"metrics", "nothing"});
  expect_failure(run_program({"generate", kModel, "-p"}), 2, {"--prompt"});
  expect_failure(run_program({"logits", kModel}), 2, {"--ids"});
}

TEST(CliBadFlags, NewTokens) {
  for (const char* value : {"0", "-3", "abc", "1.5", "1e2", "nan", "inf", "99999999999999999999",
                            "-99999999999999999999", "5,6", "5x"})
    expect_flag_refused(kGenerate, "-n", value, {"--max-new-tokens", value});
  expect_flag_refused(kGenerate, "-n", "", {"--max-new-tokens"});
  expect_flag_refused({"run", kModel}, "-n", "0", {"--max-new-tokens", "0"});
}

// Numbers are decimal, as they look.
TEST(CliBadFlags, LeadingZeroIsNotOctal) {
  const ProgramResult result =
      run_program({"generate", kModel, "-p", "hi", "--ignore-end", "--json", "-n", "010"});
  if (result.exit_code == 2) return;  // to refuse it is as good
  EXPECT_EQ(nlohmann::json::parse(result.out)["tokens_generated"], 10);
}

TEST(CliBadFlags, NotANumber) {
  for (const char* flag : {"--max-new-tokens", "--threads", "--temperature", "--top-k", "--top-p",
                           "--repetition-penalty", "--seed"})
    for (const char* value : {"nan", "abc", "1,5", "0.5.1"})
      expect_flag_refused(kGenerate, flag, value, {flag});
  for (const char* flag : {"--context", "--stride", "--batch-size", "--threads"})
    for (const char* value : {"nan", "abc", "0.5"})
      expect_flag_refused({"perplexity", kModel, kModel + "/prompt.txt"}, flag, value, {flag});
  for (const char* flag : {"--repeats", "--context", "--stride", "--max-new-tokens"})
    for (const char* value : {"nan", "abc", "0.5"}) expect_flag_refused({"run", kModel}, flag, value, {flag});
}

TEST(CliBadFlags, Sampling) {
  for (const char* value : {"-1", "-0.001", "inf", "1e999"})
    expect_flag_refused(kGenerate, "--temperature", value, {"--temperature"});
  for (const char* value : {"0", "-0.5", "1.01", "inf"})
    expect_flag_refused(kGenerate, "--top-p", value, {"--top-p"});
  for (const char* value : {"-1", "99999999999999999999"})
    expect_flag_refused(kGenerate, "--top-k", value, {"--top-k"});
  for (const char* value : {"0", "-1", "inf"})
    expect_flag_refused(kGenerate, "--repetition-penalty", value, {"--repetition-penalty"});
  for (const char* value : {"-1", "1.5", "99999999999999999999999"})
    expect_flag_refused(kGenerate, "--seed", value, {"--seed"});
}

TEST(CliBadFlags, Windows) {
  const std::vector<std::string> command{"perplexity", kModel, kModel + "/prompt.txt"};
  for (const char* value : {"-1", "65", "1"}) expect_flag_refused(command, "--context", value, {"context"});
  for (const char* value : {"-1", "65"}) expect_flag_refused(command, "--stride", value, {"stride"});
  for (const char* value : {"0", "-4"}) expect_flag_refused(command, "--batch-size", value, {"--batch-size"});
  expect_flag_refused(command, "--protocol", "mine", {"--protocol", "mine", "hf"});
  expect_flag_refused(command, "--through", "both", {"--through", "both", "prefill", "decode"});
  expect_flag_refused({"tradeoff", kModel}, "--through", "both", {"--through", "both", "prefill", "decode"});
  expect_flag_refused({"run", kModel}, "-r", "0", {"--repeats"});
  expect_flag_refused({"run", kModel}, "--context", "-1", {"--context"});
}

TEST(CliBadFlags, Threads) {
  for (const char* value : {"0", "-1", "1025", "99999999999"})
    expect_flag_refused(kGenerate, "-t", value, {"--threads", value});
}

TEST(CliBadFlags, InstructionSets) {
  for (const char* value : {"amx9", "AVX3"})
    expect_flag_refused(kGenerate, "--isa", value, {"--isa", "scalar", "avx2", "avx512"});
  expect_flag_refused({"kernels"}, "--isa", "amx9", {"--isa", "amx9", "scalar", "avx2", "avx512"});
}

TEST(CliBadFlags, Devices) {
  for (const char* value : {"tpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:99999999999", "cpu:0"})
    expect_flag_refused(kGenerate, "--device", value, {"--device", "cpu", "cuda"});
}

// Without a device, or built without support for it: a sentence, no crash. Where there is one, it works.
TEST(CliBadFlags, DeviceThatIsNotThere) {
  expect_failure(run_program({"generate", kModel, "-p", "hi", "-n", "2", "--device", "cuda:9"}), 1,
                 {"cuda:9"});
  const ProgramResult first = run_program({"generate", kModel, "-p", "hi", "-n", "2", "--device", "cuda"});
  if (first.exit_code != 0) expect_failure(first, 1, {"cuda", "the device cpu"});
}

TEST(CliBadFlags, UnknownPrecision) {
  for (const char* value : {"fp8", "float8", "nan"})
    expect_flag_refused(kGenerate, "--precision", value,
                        {"precision", value, "float32", "float16", "bfloat16", "nearest"});
  expect_flag_refused(kGenerate, "--precision", "bfloat61", {"the nearest is bfloat16"});
}

TEST(CliBadFlags, FlagGivenTwice) {
  expect_failure(run_program({"generate", kModel, "-p", "hi", "-n", "2", "-n", "3"}), 2,
                 {"--max-new-tokens: expected once, found 2 times"});
  expect_failure(run_program({"generate", kModel, "-p", "hi", "--seed"}), 2,
                 {"--seed: expected a value, found none"});
}

// An empty variable of a script must not stand for a default.
TEST(CliBadFlags, EmptyValues) {
  const std::string text = kModel + "/prompt.txt";
  for (const auto& [command, name] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"generate", kModel, "-p", "hi", "--prompts-file", ""}, "--prompts-file"},
           {{"generate", kModel, "-p", "hi", "--ids", ""}, "--ids"},
           {{"diverge", kModel, "nf4", "--text", ""}, "--text"},
           {{"logits", kModel, "--ids", "1", "-o", ""}, "--output"},
           {{"tradeoff", kModel, "--corpus", ""}, "--corpus"},
           {{"perplexity", kModel, ""}, "FILE"},
           {{"corpus", text, ""}, "OUT"},
           {{"compare", "", "b"}, "A"},
           {{"report", ""}, "RESULTS"},
           {{"verify", ""}, "RESULTS"},
           {{"history", ""}, "DIR"}})
    expect_failure(run_program(command), 2, {name + ": expected a value, found an empty one"});
}

// The largest number is named where it is passed, and where it is small.
TEST(CliBadFlags, NumbersThatAreTooLarge) {
  for (const char* value : {"99999999999999999999", "1099511627777"})
    expect_flag_refused(kGenerate, "-n", value,
                        {"--max-new-tokens: expected a whole number from 1 to 1099511627776, found"});
  expect_flag_refused(kGenerate, "-n", "0", {"--max-new-tokens: expected a whole number from 1, found '0'"});
}

// The sentence comes before a model is looked for, not after minutes of loading.
TEST(CliBadFlags, UsageComesFirst) {
  for (const auto& [flag, value] : {std::pair{"-n", "0"},
                                    {"--temperature", "-1"},
                                    {"--top-p", "0"},
                                    {"--precision", "fp8"},
                                    {"--isa", "amx9"}})
    expect_failure(run_program({"generate", "no-such-model", "-p", "hi", flag, value}), 2, {value});
}

TEST(CliBadFlags, HelpOfEveryCommandHasAnExample) {
  const ProgramResult top = run_program({"--help"});
  expect_success(top);
  for (const std::string command :
       {"run", "generate", "perplexity", "tokenize", "logits", "inspect", "kernels", "worker", "report"}) {
    EXPECT_NE(top.out.find(command), std::string::npos) << command;
    const ProgramResult help = run_program({command, "--help"});
    expect_success(help);
    EXPECT_NE(help.out.find("Example: assay " + command), std::string::npos) << help.out;
    EXPECT_EQ(help.err, "");
  }
  expect_success(run_program({"help", "metrics"}));
  expect_success(run_program({"--version"}));
}

// The flag is named and not its value, with the command that has none of that name.
TEST(CliBadFlags, AnUnknownFlagOfACommand) {
  expect_failure(run_program({"inspect", kModel, "--thread", "1"}), 2,
                 {"assay inspect: unknown flag '--thread': the nearest is --"});
  expect_failure(run_program({"sweep", "lengths", kModel, "--length", "4"}), 2,
                 {"assay sweep lengths: unknown flag '--length': the nearest is --lengths"});
  expect_failure(run_program({"inspect", kModel, "more"}), 2,
                 {"assay inspect: expected no 'more'", "(assay inspect --help"});
  expect_failure(run_program({"sweep", "length", kModel}), 2,
                 {"unknown command 'length' behind sweep", "the nearest is lengths"});
  expect_failure(run_program({"sweep"}), 2, {"sweep: expected one of lengths, "});
  expect_success(run_program({"sweep", "--help"}));
}

}  // namespace
}  // namespace assay::test
