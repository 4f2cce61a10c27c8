// Damaged tokenizers, and such as ask for more than their size: an Error or a tokenizer, in little time and
// memory.
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/file.h"
#include "assay/base/random.h"
#include "assay/text/charsmap.h"
#include "assay/text/sentencepiece_model.h"
#include "small_tokenizer.h"
#include "support/paths.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

const fs::path kDamageFixtures = fs::path(source_folder()) / "tests/fixtures";

// The most memory that this process has held since the last call of forget_peak().
std::uint64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) << 10;
  return 0;
}

void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// `action` may throw Error and nothing else, and takes at most so much.
void expect_bounded(const std::function<void()>& action, double most_seconds, std::uint64_t most_bytes) {
  forget_peak();
  const std::uint64_t before = peak_bytes();
  const double begin = processor_seconds();
  try {
    action();
  } catch (const Error&) {
  }
  if (kIsSanitized) return;
  EXPECT_LT(processor_seconds() - begin, most_seconds);
  EXPECT_LT(peak_bytes(), before + most_bytes);  // memory may have been given back: less than before
}

constexpr std::uint64_t kMostBytes = 100'000'000;

std::size_t below(Random& random, std::size_t limit) {
  return static_cast<std::size_t>(random.uniform() * static_cast<double>(limit));
}

std::string damaged_bytes(std::string bytes, Random& random) {
  for (std::size_t changes = 1 + below(random, 4); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = below(random, bytes.size()), length = 1 + below(random, 16);
    switch (below(random, 6)) {
      case 0:
        bytes[at] = static_cast<char>(random.next());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(random, bytes.size()), length));
        break;
      case 4:
        bytes.replace(at, std::min(length, bytes.size() - at), length, '\xFF');
        break;
      default:
        if (below(random, 8) == 0) bytes.resize(at);
    }
  }
  return bytes;
}

// All values of a document, the vocabulary's and the merges' by a sample.
void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (!value.is_structured()) return;
  std::size_t taken = 0;
  for (Json& part : value)
    if (++taken <= 12) collect(part, all);
}

void damage_json(Json& file, Random& random) {
  for (std::size_t changes = 1 + below(random, 3); changes > 0; --changes) {
    std::vector<Json*> all;
    collect(file, all);
    Json& target = *all[1 + below(random, all.size() - 1)];
    const Json values[] = {nullptr,
                           true,
                           -1,
                           0,
                           1.5,
                           4294967295U,
                           1e300,
                           "",
                           "a",
                           std::string(5000, 'a'),
                           "\xE2\x96\x81",
                           Json::array(),
                           Json::object(),
                           Json::array({"a", 1})};
    const std::size_t choice = below(random, std::size(values) + 4);
    target = choice < std::size(values) ? values[choice] : Json(*all[1 + below(random, all.size() - 1)]);
  }
}

void use(const fs::path& folder) {
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const Ids ids =
      tokenizer.encode("  The ferry\xE2\x96\x81 at caf\xC3\xA9 <s></s>\t\xE4\xB8\xAD\xF0\x9F\x98\x80 ab1234");
  tokenizer.decode(ids);
  tokenizer.decode(Ids{0, 1, 2, 300, 400, 5, 77, 1 << 20});
}

class DamagedTokenizer : public testing::TestWithParam<std::string> {
 protected:
  fs::path source() const { return kDamageFixtures / "tokenizer_folders" / GetParam(); }
};

TEST_P(DamagedTokenizer, IsRefusedOrUsed) {
  Random random(2026);
  const bool is_model = fs::exists(source() / "tokenizer.model");
  const std::string name = is_model ? "tokenizer.model" : "tokenizer.json";
  const std::string whole = read_text_file(source() / name);
  const TemporaryFolder folder;
  folder.write("tokenizer_config.json", read_text_file(source() / "tokenizer_config.json"));
  int read = 0;
  for (int i = 0; i < 60; ++i) {
    std::string changed = whole;
    if (is_model || i % 4 == 0) {
      changed = damaged_bytes(std::move(changed), random);
    } else {
      Json file = Json::parse(whole);
      damage_json(file, random);
      changed = file.dump();
    }
    folder.write(name, changed);
    SCOPED_TRACE(fmt::format("change {}", i));
    expect_bounded(
        [&] {
          use(folder.path());
          ++read;
        },
        5, kMostBytes);
  }
  EXPECT_GT(read, 0);   // some changes do no harm,
  EXPECT_LT(read, 60);  // some do
}

INSTANTIATE_TEST_SUITE_P(Text, DamagedTokenizer,
                         testing::Values("unigram", "unigram_bytes", "word_piece", "llama", "gemma", "t5",
                                         "any_bpe", "any_unigram"),
                         [](const auto& of) { return of.param; });

std::string model_error(const std::string& bytes) {
  return error_of([&] { read_sentencepiece_model(bytes, "tokenizer.model"); });
}

TEST(SentencePieceFile, NamesWhatIsWrong) {
  EXPECT_EQ(model_error(""), "tokenizer.model: not a SentencePiece model: it holds no pieces");
  EXPECT_EQ(model_error("IQ== 0\n"),
            "tokenizer.model: not a SentencePiece model: no field can stand at byte 1 of 7");
  EXPECT_EQ(model_error("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"),
            "tokenizer.model: not a SentencePiece model: no field can stand at byte 11 of 11");
  EXPECT_EQ(model_error("\x0A\x03\x0A\x01\xFF"),
            "tokenizer.model: piece: field 1: not valid UTF-8 at byte 0");
  EXPECT_EQ(model_error(std::string("\x0A\x08\x0A\x01"
                                    "a\x15\x00\x00\x80\x7F",
                                    10)),
            "tokenizer.model: piece: score of 'a': expected a finite number, found inf");
  EXPECT_EQ(model_error("\x0A\x05\x0A\x01"
                        "a\x18\x07"),
            "tokenizer.model: piece: type of 'a': expected 1 to 6, found 7");
  // A user-defined piece of nothing would cut texts within characters.
  EXPECT_EQ(model_error("\x0A\x02\x18\x04"), "tokenizer.model: piece: expected its text, found none");
  EXPECT_EQ(model_error(std::string("\x0A\x04\x0A\x00\x18\x04", 6)),
            "tokenizer.model: piece: expected its text, found none");
  EXPECT_EQ(model_error("\x12\x02\x18\x03"),
            "tokenizer.model: trainer_spec: model_type: expected 1 (Unigram) or 2 (BPE), found 3");
}

Json with_normalizers(std::size_t count, const std::string& pattern) {
  const Json replace = {
      {"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", std::string(250, 'x')}};
  Json file = small_tokenizer();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json(count, replace)}};
  return file;
}

// Eight steps that each make a text four times as long took 394 MB for 200 bytes.
TEST(TokenizerGrowth, IsBoundedOverAllNormalizers) {
  const Tokenizer tokenizer = load_json(with_normalizers(8, ".{1,64}"));
  EXPECT_TRUE(holds(error_of([&] { tokenizer.encode(std::string(4000, 'a')); }),
                    "the steps together make more than"));
  expect_bounded([&] { tokenizer.encode(std::string(100'000, 'a')); }, 5, kMostBytes);
}

// Loading normalizes added tokens: 680 MB for twenty.
TEST(TokenizerGrowth, IsBoundedWhereAddedTokensAreNormalized) {
  Json file = with_normalizers(8, ".{1,64}");
  for (int i = 0; i < 20; ++i)
    file["added_tokens"].push_back(
        added_token(std::string(200, static_cast<char>('a' + i)), 262 + i, {"normalized"}));
  expect_bounded([&] { load_json(file); }, 5, kMostBytes);
}

// Each of a hundred added tokens had ten seconds for a pattern that fails in many ways.
TEST(TokenizerGrowth, OneBudgetOfTimeIsForAllAddedTokens) {
  Json file = small_tokenizer();
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "(a|aa|aaa)+$"}}}, {"content", "x"}};
  for (int i = 0; i < 100; ++i)
    file["added_tokens"].push_back(
        added_token(std::string(28, 'a') + "b" + std::to_string(i), 262 + i, {"normalized"}));
  expect_bounded([&] { load_json(file); }, 6, kMostBytes);
}

// Sixteen ByteLevel steps took 2.6 GB for 4,000 bytes.
TEST(TokenizerGrowth, ByteLevelStandsAtMostTwice) {
  Json file = small_tokenizer();
  const Json step = file["pre_tokenizer"];
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json(3, step)}};
  EXPECT_TRUE(holds(error_of([&] { load_json(file); }),
                    "pre_tokenizer: expected ByteLevel at most 2 times, found it 3 times"));
  file["pre_tokenizer"]["pretokenizers"] = Json(2, step);
  expect_bounded([&] { load_json(file).encode(std::string(4000, '\x01')); }, 5, kMostBytes);
}

// A map whose one entry, for "a", is as long as the file.
TEST(TokenizerGrowth, OfAMapOfCharactersIsBounded) {
  std::string map;
  const auto put = [&](std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) map.push_back(static_cast<char>(value >> shift & 0xFF));
  };
  constexpr std::uint32_t kUnits = 512;
  put(kUnits * 4);
  for (std::uint32_t i = 0; i < kUnits; ++i) {
    // The root leads to 'a' at 256 ^ 'a', and that to its value at that place ^ 1.
    put(i == 0 ? 256U << 10 : i == (256U ^ 'a') ? (1U << 10 | 1U << 8 | 'a') : 0x80000000U);
  }
  map += std::string(100'000, 'x');
  const Charsmap charsmap(map, "map");
  EXPECT_EQ(charsmap.apply("a", 200'000), std::string(100'000, 'x'));
  EXPECT_EQ(charsmap.apply("b", 200'000), "b");
  EXPECT_EQ(error_of([&] { charsmap.apply("aaa", 200'000); }),
            "map: the map makes more than 200000 bytes of a text of 3");
}

}  // namespace
}  // namespace assay
