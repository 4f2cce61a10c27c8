// standard output carries the answer alone, as whole characters; notes go to standard error, plain in a pipe.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/paths.h"
#include "support/program.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

bool is_utf8(const std::string& text) {
  // A JSON string may hold any valid UTF-8; quotes and control characters are not what is asked about here.
  std::string plain;
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') plain += c;
  return nlohmann::json::accept("\"" + plain + "\"");
}

TEST(CliStreams, GeneratedTextIsWholeUtf8) {
  for (const char* seed : {"1", "2", "3", "4", "5", "6"}) {
    const std::vector<std::string> arguments{"generate",      kModel, "-p",     "hello", "-n",          "50",
                                             "--temperature", "3",    "--seed", seed,    "--ignore-end"};
    const ProgramResult streamed = run_program(arguments);
    EXPECT_EQ(streamed.exit_code, 0) << streamed.err;
    EXPECT_TRUE(is_utf8(streamed.out)) << streamed.out;
    std::vector<std::string> as_json = arguments;
    as_json.emplace_back("--json");
    const ProgramResult whole = run_program(as_json);
    EXPECT_EQ(streamed.out, nlohmann::json::parse(whole.out)["text"].get<std::string>() + "\n");
  }
}

TEST(CliStreams, FiguresAreOnStandardError) {
  const ProgramResult result = run_program({"generate", kModel, "-p", "hello", "-n", "5", "--ignore-end"});
  expect_success(result);
  EXPECT_NE(result.err.find("5 new tokens"), std::string::npos);
  EXPECT_EQ(result.out.find("tokens/s"), std::string::npos);
}

TEST(CliStreams, QuietIsQuiet) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"generate", kModel, "-p", "hello", "-n", "5"},
        {"perplexity", kModel, kModel + "/prompt.txt"},
        {"tokenize", kModel, "--text", "hi"}}) {
    std::vector<std::string> quiet = command;
    quiet.emplace_back("--quiet");
    const ProgramResult result = run_program(quiet);
    expect_success(result);
    EXPECT_EQ(result.err, "");
    EXPECT_NE(result.out, "");
  }
}

TEST(CliStreams, NoProgressInAPipe) {
  TemporaryFolder folder;
  const std::string corpus = folder / "corpus.txt";
  std::string text;
  for (int i = 0; i < 200; ++i) text += "one more line of text\n";
  write_file(corpus, text);
  const std::vector<std::vector<std::string>> commands = {
      {"perplexity", kModel, corpus, "--stride", "8"},
      {"run", kModel, "-p", "hi", "-n", "5", "-r", "1", "--processes", "2", "--skip",
       "noise,trade-off,ablation", "--corpus", corpus, "-o", folder / "out"}};
  for (const auto& command : commands) {
    const ProgramResult result = run_program(command);
    expect_success(result);
    EXPECT_EQ(result.err.find('\r'), std::string::npos);
    EXPECT_LE(lines_of(result.err).size(), 6U) << result.err;
  }
}

TEST(CliStreams, JsonIsOneDocumentAlone) {
  TemporaryFolder folder;
  const std::vector<std::vector<std::string>> commands = {
      {"generate", kModel, "-p", "hi", "-n", "3"},
      {"generate", kModel, "-p", "hi", "-p", "there", "-n", "3"},
      {"perplexity", kModel, kModel + "/prompt.txt"},
      {"tokenize", kModel, "--text", "hi"},
      {"logits", kModel, "--ids", "1,2", "-o", folder / "x.npy"},
      {"inspect", kModel},
      {"kernels"},
      {"run", kModel, "-p", "hi", "-n", "2", "-r", "1", "--processes", "1", "--skip",
       "noise,lengths,ablation,batches,batched-precisions,edge", "--corpus", kModel + "/prompt.txt", "-o",
       folder / "out"}};
  for (std::vector<std::string> command : commands) {
    command.emplace_back("--json");
    const ProgramResult result = run_program(command);
    SCOPED_TRACE(command.front());
    expect_success(result);
    EXPECT_TRUE(nlohmann::json::accept(result.out)) << result.out;
  }
}

// Bytes come back as they were, line ends and characters of every length included.
TEST(CliStreams, TokenizeGivesTheBytesBack) {
  for (const std::string& text :
       {std::string("hello world"), std::string("  two\r\n\tlines \n\n"),
        std::string("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"), std::string("a\0b", 3),
        std::string("<|endoftext|>x"), std::string(5000, 'x'),
        std::string("\xEF\xBB\xBF"
                    "bom")}) {
    const ProgramResult ids = run_program({"tokenize", kModel}, {.input = text});
    expect_success(ids);
    const ProgramResult back = run_program({"tokenize", kModel, "--decode"}, {.input = ids.out});
    expect_success(back);
    EXPECT_EQ(back.out, text);
    const ProgramResult dash = run_program({"tokenize", kModel, "-"}, {.input = text});
    EXPECT_EQ(dash.out, ids.out);
  }
}

TEST(CliStreams, NoTextHasNoTokens) {
  const ProgramResult result = run_program({"tokenize", kModel, "--json"});
  expect_success(result);
  EXPECT_EQ(nlohmann::json::parse(result.out)["ids"].size(), 0U);
  const ProgramResult back = run_program({"tokenize", kModel, "--decode"});
  expect_success(back);
  EXPECT_EQ(back.out, "");
}

TEST(CliStreams, HalfACharacterIsDecodedAsItsBytes) {
  const ProgramResult ids = run_program({"tokenize", kModel, "--text", "\xF0\x9F\x98\x80", "--json"});
  const auto first = nlohmann::json::parse(ids.out)["ids"][0].get<int>();
  const ProgramResult half = run_program({"tokenize", kModel, "--ids", std::to_string(first)});
  expect_success(half);
  EXPECT_TRUE(std::string("\xF0\x9F\x98\x80").starts_with(half.out)) << half.out;
  EXPECT_FALSE(half.out.empty());
}

// `assay generate ... | head -c 1`: an error of the write, at once; not a signal, not a wait for the end.
TEST(CliStreams, ReaderThatLeaves) {
  TemporaryFolder folder;
  const std::string model = TinyModel(1 << 18).write(folder.path());
  const ProgramResult result =
      run_program({"generate", model, "--ids", "1", "-n", "200000", "--ignore-end", "--no-warm-up"},
                  {.closes_stdout_early = true, .timeout = std::chrono::seconds(20)});
  EXPECT_FALSE(result.is_timed_out);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("error: cannot write to standard output"), std::string::npos) << result.err;
}

TEST(CliStreams, ClosedOnesEndNothingByASignal) {
  const std::string program = program_path();
  const auto code_of = [](const std::string& command) {
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(code_of(program + " no-such-command <&- >&- 2>&-"), 2);
  EXPECT_EQ(code_of(program + " tokenize " + kModel + " --text hi <&- >&- 2>&-"), 1);  // its answer is lost
  EXPECT_EQ(code_of(program + " sweep lengths " + kModel + " --lengths 4 -n 2 -r 1 >/dev/null <&- 2>&-"), 0);
}

TEST(CliStreams, AWorkerWhoseReaderHasGoneSaysNothing) {
  // On a busy machine the baseline's answer may be there before its time is looked at; then the cases fail.
  const ProgramResult result = run_program({"sweep", "lengths", kModel, "--lengths", "4", "-n", "4",
                                            "--processes", "1", "-r", "3", "--case-timeout", "0.000001"});
  EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 3) << result.exit_code;
  EXPECT_NE((result.out + result.err).find("timed out"), std::string::npos) << result.out << result.err;
  EXPECT_EQ(result.err.find("cannot write"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace assay::test
