// Generation: the same ids with and without a cache, alone or in a batch, with any number of threads;
// sampling.
#include "assay/generate/generator.h"

#include <gtest/gtest.h>

#include <cstring>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/session/calibrate.h"
#include "assay/tensor/half.h"
#include "support/fixtures.h"
#include "support/paths.h"
#include "support/safetensors_copy.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

// A tier and a precision; "bfloat16 int8" has its cache in int8.
using Case = std::tuple<Isa, const char*>;

Model load_from(const std::filesystem::path& path, const Case& c, int threads) {
  const auto folder = std::make_shared<const ModelFolder>(path);
  const auto backend = test::cpu_backend(std::get<Isa>(c), threads);
  const std::string text = std::get<1>(c);
  const std::size_t blank = text.find(' ');
  Precision precision = precision_from_name(text.substr(0, blank));
  if (blank != std::string::npos) precision.kv_cache = KvFormat::int8;
  Calibration calibration;
  if (precision.needs_calibration()) {  // with factors on the inputs that no norm can take
    precision.smooth_quant = 0.5;
    std::vector<TokenId> ids(80);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 5 % 90);
    calibration = calibrate(folder, backend, precision, ids);
  }
  return Model::load(folder, backend, precision, calibration);
}

Model load(const std::string& name, const Case& c, int threads = 2) {
  return load_from(test::fixture_model(name), c, threads);
}

std::vector<std::vector<TokenId>> ragged_prompts() {
  return {{3}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, {50, 60}, {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                          11, 12, 13, 14, 15, 16, 17, 18, 19, 20}};
}

std::vector<std::vector<TokenId>> ids_of(const GenerationTrace& trace) {
  std::vector<std::vector<TokenId>> ids;
  for (const SequenceTrace& s : trace.sequences) ids.push_back(s.ids);
  return ids;
}

class GeneratorTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Isa isa = std::get<Isa>(GetParam());
    if (!is_usable(isa)) GTEST_SKIP() << "this machine has no " << name_of(isa);
  }
};

// Each way in which weights, activations and the cache are held. Of the scalar tier, which is slow, one of
// each kind of kernel: what is around them is the same for all. Sanitizers see every tier's kernels in the
// tests of kernels, so here the best one.
std::vector<Case> generator_cases() {
  std::vector<Case> cases;
  for (const Isa isa : kAllIsas) {
    if (kIsSanitized && isa != best_usable_isa()) continue;
    for (const char* precision : {"float32", "nf4", "int8-static", "float32 int8", "bfloat16", "int8", "int4",
                                  "bfloat16 int8", "int8-static int8"}) {
      cases.emplace_back(isa, precision);
      if (isa == Isa::scalar && std::string_view(precision) == "float32 int8") break;
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Isas, GeneratorTest, testing::ValuesIn(generator_cases()), [](const auto& p) {
  std::string name = std::string(name_of(std::get<Isa>(p.param))) + "_" + std::get<1>(p.param);
  for (char& c : name) c = c == '-' || c == ' ' ? '_' : c;
  return name;
});

// Texts that outgrow a block of the cache.
TEST_P(GeneratorTest, CacheBatchAndThreadsChangeNoId) {
  GenerationOptions options{.max_new_tokens = 50, .end_tokens = {}, .uses_cache = true, .sampling = {}};
  const Model model = load("odd_heads", GetParam());
  const auto batched = ids_of(generate(model.backend(), model.program(), ragged_prompts(), options));
  options.uses_cache = false;
  EXPECT_EQ(ids_of(generate(model.backend(), model.program(), ragged_prompts(), options)), batched);
  options.uses_cache = true;
  for (const int threads : {1, 7}) {
    const Model other = load("odd_heads", GetParam(), threads);
    std::vector<std::vector<TokenId>> alone;
    for (const auto& prompt : ragged_prompts())
      alone.push_back(ids_of(generate(other.backend(), other.program(), {prompt}, options))[0]);
    EXPECT_EQ(alone, batched) << threads << " threads";
  }
}

// Not only the ids: the logits are the same bits.
TEST_P(GeneratorTest, LogitsAreEqualBitForBit) {
  const SafetensorsFile file(test::fixture_model("odd_heads") / "expected.safetensors");
  const std::vector<TokenId> ids = test::read_ids(file, "input_ids");
  const Model model = load("odd_heads", GetParam(), 2), single = load("odd_heads", GetParam(), 1);
  Program& program = model.program();
  const auto whole = test::all_logits(program, ids);
  EXPECT_EQ(test::all_logits(single.program(), ids), whole) << "one thread";
  // Token by token, beside sequences that are elsewhere in their text: one, or so many that the heads of each
  // are attended together.
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  for (const std::int64_t others : {1, std::get<Isa>(GetParam()) == Isa::scalar ? 8 : 40}) {
    const auto cache = program.make_cache();
    std::vector<int> sequences;
    for (std::int64_t i = 0; i <= others; ++i) sequences.push_back(cache->add_sequence());
    std::vector<float> logits(vocab);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Batch batch;
      for (std::int64_t row = 0; row <= others; ++row) {
        batch.ids.push_back(row == others ? ids[i] : ids[ids.size() - 1 - i]);
        batch.positions.push_back(static_cast<std::int32_t>(i));
        batch.sequences.push_back(
            {.sequence = sequences[static_cast<std::size_t>(row)], .first_row = row, .rows = 1});
      }
      program.run(batch, *cache);
      program.head(std::span(&others, 1), LogitsSink{logits});
      ASSERT_TRUE(
          std::equal(logits.begin(), logits.end(), whole.begin() + static_cast<std::ptrdiff_t>(i * vocab)))
          << "token " << i << ", " << others << " others";
    }
  }
}

// So many rows that threads keep to shares of them.
TEST_P(GeneratorTest, RowsInSharesKeepTheirBits) {
  constexpr std::int64_t kSequences = 4, kLength = 120;
  const Model model = load("odd_heads", GetParam(), 2), single = load("odd_heads", GetParam(), 1);
  Program& program = model.program();
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  const auto cache = program.make_cache();
  Batch batch;
  std::vector<std::vector<TokenId>> texts;
  for (std::int64_t i = 0; i < kSequences; ++i) {
    texts.emplace_back();
    for (std::int64_t j = 0; j < kLength; ++j) {
      texts.back().push_back(static_cast<TokenId>((i * 31 + j * 7) % 90));
      batch.positions.push_back(static_cast<std::int32_t>(j));
    }
    batch.ids.insert(batch.ids.end(), texts.back().begin(), texts.back().end());
    batch.sequences.push_back({.sequence = cache->add_sequence(), .first_row = i * kLength, .rows = kLength});
  }
  program.run(batch, *cache);
  std::vector<float> logits(vocab);
  for (std::int64_t i = 0; i < kSequences; ++i) {
    const auto alone = test::all_logits(single.program(), texts[static_cast<std::size_t>(i)]);
    for (const std::int64_t at : {0, 7, 40, 119}) {
      const std::int64_t row = i * kLength + at;
      program.head(std::span(&row, 1), LogitsSink{logits});
      ASSERT_TRUE(
          std::equal(logits.begin(), logits.end(),
                     alone.begin() + static_cast<std::ptrdiff_t>(at * static_cast<std::int64_t>(vocab))))
          << "sequence " << i << ", token " << at;
    }
  }
}

// Three texts in two steps, the rest of each row's hidden state left out where `wanted` says so.
void expect_wanted_rows_keep_their_bits(Program& program, Program& other) {
  constexpr std::array<std::int64_t, 3> kLengths{50, 3, 70}, kFirst{20, 1, 70};
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  std::vector<std::vector<TokenId>> texts;
  std::vector<std::vector<float>> whole;
  for (const std::int64_t length : kLengths) {
    std::vector<TokenId>& text = texts.emplace_back();
    for (std::int64_t j = 0; j < length; ++j)
      text.push_back(static_cast<TokenId>((length * 31 + j * 7) % 90));
    whole.push_back(test::all_logits(other, text));
  }
  struct Wish {
    const char* what;
    std::vector<std::int64_t> first, second;  // rows of the two steps
  };
  const std::vector<Wish> wishes{{"the last of each", {19, 20, 90}, {29, 31}},
                                 {"nothing, then one", {}, {31}},
                                 {"one, so that others must go with it", {90}, {29}},
                                 {"the first row, then its neighbours too", {0}, {0, 1, 2}},
                                 {"some from the middle of texts", {5, 9, 22, 40}, {3, 30}},
                                 {"too many to leave any out", {0, 19, 20, 21, 60, 90}, {0, 31}}};
  for (const Wish& wish : wishes) {
    SCOPED_TRACE(wish.what);
    const auto cache = program.make_cache();
    std::array<std::int64_t, 3> known{};
    const std::array sequences{cache->add_sequence(), cache->add_sequence(), cache->add_sequence()};
    for (const auto* wanted : {&wish.first, &wish.second}) {
      Batch batch;
      batch.wants_all = false;
      batch.wanted = *wanted;
      std::vector<std::pair<std::size_t, std::int64_t>>
          tokens;  // one for each row: the text, and its number there
      for (std::size_t i = 0; i < kLengths.size(); ++i) {
        const std::int64_t end = wanted == &wish.first ? kFirst[i] : kLengths[i];
        if (end == known[i]) continue;
        batch.sequences.push_back({.sequence = sequences[i],
                                   .first_row = static_cast<std::int64_t>(tokens.size()),
                                   .rows = end - known[i]});
        for (; known[i] < end; ++known[i]) {
          batch.ids.push_back(texts[i][static_cast<std::size_t>(known[i])]);
          batch.positions.push_back(static_cast<std::int32_t>(known[i]));
          tokens.emplace_back(i, known[i]);
        }
      }
      program.run(batch, *cache);
      std::vector<float> logits(wanted->size() * vocab);
      program.head(*wanted, LogitsSink{logits});
      for (std::size_t j = 0; j < wanted->size(); ++j) {
        const auto [text, token] = tokens[static_cast<std::size_t>((*wanted)[j])];
        const auto own = logits.begin() + static_cast<std::ptrdiff_t>(j * vocab);
        EXPECT_TRUE(std::equal(
            own, own + static_cast<std::ptrdiff_t>(vocab),
            whole[text].begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(token) * vocab)))
            << "text " << text << ", token " << token;
      }
    }
  }
}

TEST_P(GeneratorTest, RowsThatNobodyWantsChangeNoBit) {
  const Model model = load("odd_heads", GetParam(), 2), single = load("odd_heads", GetParam(), 1);
  expect_wanted_rows_keep_their_bits(model.program(), single.program());
}

// Two layers, 128 tokens and as many positions of the model that ships, whose heads fill whole strips.
const std::filesystem::path& part_of_demo() {
  static const test::TemporaryFolder folder;
  static const bool is_new = [] {
    constexpr std::int64_t kRows = 128;
    test::TensorList all(test::demo_model() / "model.safetensors");
    std::erase_if(all.tensors, [](const test::WrittenTensor& tensor) {
      return tensor.name.find("h.2.") != std::string::npos || tensor.name.find("h.3.") != std::string::npos;
    });
    for (const char* name : {"transformer.wte.weight", "transformer.wpe.weight"}) {
      test::WrittenTensor& tensor = all[name];
      tensor.bytes.resize(tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0]) * kRows);
      tensor.shape[0] = kRows;
    }
    auto config = nlohmann::ordered_json::parse(test::read_file(test::demo_model() / "config.json"));
    config["n_layer"] = 2;
    config["vocab_size"] = config["n_positions"] = config["n_ctx"] = kRows;
    test::write_file(folder.path() / "config.json", config.dump());
    test::write_file(folder.path() / "model.safetensors", all.file());
    return true;
  }();
  EXPECT_TRUE(is_new);
  return folder.path();
}

// The same, in another type: its values are those that bfloat16 can hold.
std::filesystem::path part_of_demo_in(DType dtype, const test::TemporaryFolder& folder) {
  test::TensorList all(part_of_demo() / "model.safetensors");
  for (test::WrittenTensor& tensor : all.tensors) {
    std::vector<std::uint16_t> halves(tensor.bytes.size() / 2);
    std::memcpy(halves.data(), tensor.bytes.data(), tensor.bytes.size());
    tensor.dtype = info(dtype).safetensors;
    tensor.bytes.clear();
    for (const std::uint16_t half : halves) {
      const std::uint16_t bits = float_to_bf16(f16_to_float(half));
      const float value = bf16_to_float(bits);
      if (dtype == DType::bf16)
        tensor.bytes.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
      else
        tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  test::write_file(folder.path() / "config.json", test::read_file(part_of_demo() / "config.json"));
  test::write_file(folder.path() / "model.safetensors", all.file());
  return folder.path();
}

// The largest weight of a block is one of the file's: its type holds the scale too, in half the bytes.
TEST(Generator, ScalesOfBfloat16FilesAreHeldInBfloat16WithoutLoss) {
  const test::TemporaryFolder first, second;
  const auto floats = part_of_demo_in(DType::f32, first), halves = part_of_demo_in(DType::bf16, second);
  std::vector<TokenId> ids(21);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 37 % 128);
  for (const Isa isa : kAllIsas)
    for (const char* format : {"nf4", "fp4", "int4", "nf4-dq"})
      for (const bool has_int8_activations : {false, true}) {
        if (!is_usable(isa)) continue;
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(isa), format, has_int8_activations));
        Precision precision = precision_from_name(format);
        precision.dtype = formats::kBfloat16;
        if (has_int8_activations) set_int8_activations(precision);
        const auto load_from_folder = [&](const std::filesystem::path& path) {
          return Model::load(std::make_shared<const ModelFolder>(path), test::cpu_backend(isa, 2), precision,
                             {});
        };
        const Model with_floats = load_from_folder(floats), with_halves = load_from_folder(halves);
        EXPECT_EQ(test::all_logits(with_halves.program(), ids), test::all_logits(with_floats.program(), ids));
        EXPECT_EQ(test::all_logits(with_halves.program(), {5}), test::all_logits(with_floats.program(), {5}));
        const auto bytes = [](const Model& model) {
          std::int64_t sum = 0;
          for (const WeightSpec& weight : model.program().plan().weights)
            if (is_four_bit(weight.format)) sum += stored_bytes(weight).value;
          return static_cast<double>(sum);
        };
        const double bits = bits_per_weight(precision.weights);
        EXPECT_NEAR(bytes(with_halves) / bytes(with_floats),
                    std::string_view(format) == "nf4-dq" ? 1 : (bits + 4) / 2 / bits, 1e-3);
      }
}

// One text in two steps: the queries that nobody reads are left out.
void expect_read_queries_keep_their_bits(Program& program, Program& other) {
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  constexpr std::size_t kFirst = 17, kAll = 45;
  std::vector<TokenId> text(kAll);
  for (std::size_t i = 0; i < kAll; ++i) text[i] = static_cast<TokenId>(i * 37 % 128);
  const std::vector<float> whole = test::all_logits(other, text);
  struct Wish {
    std::vector<std::int64_t> first, second;  // rows of the two steps
  };
  for (const Wish& wish : {Wish{{16}, {27}}, Wish{{0}, {4, 9}}, Wish{{6, 8}, {0}}, Wish{{}, {3, 4, 5, 6}}}) {
    const auto cache = program.make_cache();
    const int sequence = cache->add_sequence();
    for (const bool is_first : {true, false}) {
      const std::size_t begin = is_first ? 0 : kFirst, end = is_first ? kFirst : kAll;
      Batch batch;
      batch.wants_all = false;
      batch.wanted = is_first ? wish.first : wish.second;
      for (std::size_t i = begin; i < end; ++i) {
        batch.ids.push_back(text[i]);
        batch.positions.push_back(static_cast<std::int32_t>(i));
      }
      batch.sequences = {
          {.sequence = sequence, .first_row = 0, .rows = static_cast<std::int64_t>(end - begin)}};
      program.run(batch, *cache);
      std::vector<float> logits(vocab);
      for (const std::int64_t row : batch.wanted) {
        program.head(std::span(&row, 1), LogitsSink{logits});
        const std::size_t token = begin + static_cast<std::size_t>(row);
        EXPECT_TRUE(std::equal(logits.begin(), logits.end(),
                               whole.begin() + static_cast<std::ptrdiff_t>(token * vocab)))
            << "token " << token;
      }
    }
  }
}

// For one text the queries that nobody reads are left out too, where they fill whole strips: 256 columns
// here.
TEST_P(GeneratorTest, QueriesThatNobodyReadsChangeNoBit) {
  const Model model = load_from(part_of_demo(), GetParam(), 2),
              single = load_from(part_of_demo(), GetParam(), 1);
  expect_read_queries_keep_their_bits(model.program(), single.program());
}

// The rows that are read have codes and scales of their own, which lie behind those of the others.
TEST(Generator, QueriesThatNobodyReadsChangeNoBitOfInt8ActivationsBesideFourBitWeights) {
  for (const Isa isa : test::usable_isas()) {
    SCOPED_TRACE(name_of(isa));
    Precision precision = precision_from_name("nf4");
    set_int8_activations(precision);
    const Model model = Model::load(std::make_shared<const ModelFolder>(part_of_demo()),
                                    test::cpu_backend(isa, 2), precision, {});
    expect_read_queries_keep_their_bits(model.program(), model.program());
  }
}

// For several texts the rows that are read lie apart: all their queries are computed.
TEST_P(GeneratorTest, QueriesOfSeveralTextsChangeNoBit) {
  const Model model = load_from(part_of_demo(), GetParam(), 2),
              single = load_from(part_of_demo(), GetParam(), 1);
  expect_wanted_rows_keep_their_bits(model.program(), single.program());
}

// Activations of two or three parts: a row that moves up takes all of them along.
TEST(Generator, RowsThatNobodyWantsChangeNoBitOfSplitProducts) {
  for (const Isa isa : {Isa::avx512bf16, Isa::amx})
    for (const Float32Matmul how : {Float32Matmul::bf16x3, Float32Matmul::bf16x6}) {
      if (!is_usable(isa)) continue;
      SCOPED_TRACE(fmt::format("{} {}", name_of(isa), how == Float32Matmul::bf16x3 ? "bf16x3" : "bf16x6"));
      Precision precision = precision_from_name("float32");
      set_float32_matmul(precision, how);
      const Model model = Model::load(std::make_shared<const ModelFolder>(part_of_demo()),
                                      test::cpu_backend(isa, 2), precision, {});
      expect_wanted_rows_keep_their_bits(model.program(), model.program());
    }
}

// Beside bfloat16 one or two rows of 4-bit weights are multiplied as bytes, which a prompt's never are.
TEST(Generator, RowsThatNobodyWantsChangeNoBitOfFourBitWeightsBesideBfloat16) {
  for (const Isa isa : kAllIsas) {
    if (!is_usable(isa)) continue;
    SCOPED_TRACE(name_of(isa));
    Precision precision = precision_from_name("nf4");
    precision.dtype = formats::kBfloat16;
    const Model model = Model::load(std::make_shared<const ModelFolder>(test::fixture_model("odd_heads")),
                                    test::cpu_backend(isa, 2), precision, {});
    expect_wanted_rows_keep_their_bits(model.program(), model.program());
  }
}

// With int8 activations every token is multiplied alike: alone, in a prompt, and where few rows are wanted.
TEST(Generator, Int8ActivationsBesideFourBitWeightsGiveTheSameBitsForAnyNumberOfTokens) {
  const std::size_t count = 31;
  std::vector<TokenId> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<TokenId>(3 + i * 7 % 60);
  for (const Isa isa : kAllIsas)
    for (const WeightFormat dtype : {formats::kFloat32, formats::kBfloat16})
      for (const auto& folder : {test::demo_model(), test::fixture_model("llama_minimal")}) {
        if (!is_usable(isa) || (isa == Isa::scalar && folder == test::demo_model())) continue;
        SCOPED_TRACE(fmt::format("{} {}", name_of(isa), folder.string()));
        Precision precision = precision_from_name("nf4");
        precision.dtype = dtype;
        set_quantized_lm_head(precision, formats::kNf4);
        const auto load_with = [&](const Precision& wanted) {
          return Model::load(std::make_shared<const ModelFolder>(folder), test::cpu_backend(isa, 2), wanted,
                             {});
        };
        const Model plain = load_with(precision);
        set_int8_activations(precision);
        const Model model = load_with(precision);
        const auto whole = test::all_logits(model.program(), ids);
        EXPECT_NE(test::all_logits(plain.program(), ids), whole);
        const auto cache = model.program().make_cache();
        const int sequence = cache->add_sequence();
        const auto vocab = static_cast<std::size_t>(model.program().plan().vocab);
        std::vector<float> logits(vocab);
        for (std::size_t i = 0; i < count; ++i) {
          model.program().run({.ids = {ids[i]},
                               .positions = {static_cast<std::int32_t>(i)},
                               .sequences = {{.sequence = sequence, .first_row = 0, .rows = 1}},
                               .wanted = {}},
                              *cache);
          const std::int64_t row = 0;
          model.program().head(std::span(&row, 1), LogitsSink{logits});
          ASSERT_TRUE(std::equal(logits.begin(), logits.end(),
                                 whole.begin() + static_cast<std::ptrdiff_t>(i * vocab)))
              << "token " << i;
        }
        if (vocab > 100) expect_wanted_rows_keep_their_bits(model.program(), model.program());
      }
}

TEST(Generator, RowsThatWereNotWantedHaveNoLogits) {
  const Model model = load("odd_heads", {best_usable_isa(), "float32"});
  Program& program = model.program();
  std::vector<TokenId> chosen(1);
  const auto ask = [&](std::int64_t row) { program.head(std::span(&row, 1), ArgmaxSink{chosen}); };
  Batch batch{.ids = std::vector<TokenId>(20, 3), .positions = {}, .sequences = {}, .wanted = {19}};
  for (std::int32_t i = 0; i < 20; ++i) batch.positions.push_back(i);
  for (const bool wants_all : {false, true}) {
    const auto cache = program.make_cache();
    batch.wants_all = wants_all;
    batch.sequences = {{.sequence = cache->add_sequence(), .first_row = 0, .rows = 20}};
    program.run(batch, *cache);
    ask(19);
    for (const std::int64_t row : {-1, 0, 20}) {
      if (wants_all && row == 0)
        ask(row);
      else
        EXPECT_THROW(ask(row), Error) << row;
    }
  }
}

// What is right of the text is padding that comes after the row which is wanted.
TEST_P(GeneratorTest, PaddingOnTheRightChangesNoId) {
  const Model model = load("odd_heads", GetParam());
  GenerationOptions options{.max_new_tokens = 8, .end_tokens = {}, .uses_cache = true, .sampling = {}};
  const auto plain = ids_of(generate(model.backend(), model.program(), ragged_prompts(), options));
  options.padding = Padding::right;
  EXPECT_EQ(ids_of(generate(model.backend(), model.program(), ragged_prompts(), options)), plain);
}

// Nor does it count as text where tokens that were there are penalized.
TEST(Generator, PaddingOnTheRightIsNotPenalized) {
  const Model model = load("odd_heads", {Isa::scalar, "float32"});
  GenerationOptions options{.max_new_tokens = 4, .end_tokens = {}, .uses_cache = true, .sampling = {}};
  options.sampling.repetition_penalty = 1.5;
  const auto plain = ids_of(generate(model.backend(), model.program(), ragged_prompts(), options));
  options.padding = Padding::right;
  options.pad_token = plain[0][0];  // which the first prompt would go on with
  EXPECT_EQ(ids_of(generate(model.backend(), model.program(), ragged_prompts(), options)), plain);
}

// Padded on the left with masked keys and the same positions, a sequence keeps its bits, in one step or in
// several, beyond a block of keys.
TEST_P(GeneratorTest, PaddedKeysAreNotSeen) {
  const Model model = load("odd_heads", GetParam());
  Program& program = model.program();
  std::vector<TokenId> ids(70);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 7 % 90);
  const auto plain = test::all_logits(program, ids);
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  constexpr std::int64_t kPadding = 5;
  for (const std::int64_t first_rows : {75, 3, 5, 9}) {
    const auto cache = program.make_cache();
    const int sequence = cache->add_sequence();
    for (std::int64_t begin = 0; begin < kPadding + 70;) {
      const std::int64_t end = begin == 0 ? first_rows : kPadding + 70;
      Batch batch;
      std::vector<std::int64_t> rows;
      for (std::int64_t i = begin; i < end; ++i) {
        batch.ids.push_back(i < kPadding ? 9 : ids[static_cast<std::size_t>(i - kPadding)]);
        batch.positions.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(i - kPadding, 0)));
        if (i >= kPadding) rows.push_back(i - begin);
      }
      batch.sequences = {{.sequence = sequence, .first_row = 0, .rows = end - begin, .first_key = kPadding}};
      program.run(batch, *cache);
      std::vector<float> logits(vocab * rows.size());
      program.head(rows, LogitsSink{logits});
      const auto from = static_cast<std::size_t>(std::max<std::int64_t>(begin - kPadding, 0)) * vocab;
      EXPECT_TRUE(std::equal(logits.begin(), logits.end(), plain.begin() + static_cast<std::ptrdiff_t>(from)))
          << first_rows << " rows first, from " << begin;
      begin = end;
    }
  }
}

TEST_P(GeneratorTest, SameSeedSameText) {
  GenerationOptions options{
      .max_new_tokens = 40,
      .end_tokens = {},
      .uses_cache = true,
      .sampling = {.temperature = 1.2, .top_k = 50, .top_p = 0.95, .repetition_penalty = 1.1, .seed = 7}};
  const Model one = load("odd_heads", GetParam(), 1), three = load("odd_heads", GetParam(), 3);
  const auto first = ids_of(generate(one.backend(), one.program(), ragged_prompts(), options));
  EXPECT_EQ(ids_of(generate(three.backend(), three.program(), ragged_prompts(), options)), first);
  options.sampling.seed = 8;
  EXPECT_NE(ids_of(generate(three.backend(), three.program(), ragged_prompts(), options)), first);
}

TEST(Generator, StopsAtAnEndTokenOrAtTheLength) {
  const Model model = load("odd_heads", {best_usable_isa(), "float32"});
  GenerationOptions options{.max_new_tokens = 30, .end_tokens = {}, .uses_cache = true, .sampling = {}};
  const auto free_run = generate(model.backend(), model.program(), ragged_prompts(), options);
  const std::vector<TokenId>& ids = free_run.sequences[1].ids;
  ASSERT_EQ(ids.size(), 30u);
  options.end_tokens = {ids[4]};
  const auto stopped = generate(model.backend(), model.program(), ragged_prompts(), options);
  const auto first = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), ids[4]) - ids.begin());
  EXPECT_EQ(stopped.sequences[1].ids,
            std::vector<TokenId>(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first) + 1));
  EXPECT_EQ(stopped.sequences[1].stop, StopReason::end_token);
  for (std::size_t i = 0; i < stopped.sequences.size(); ++i) {  // the others go on as before
    const auto& got = stopped.sequences[i].ids;
    EXPECT_TRUE(std::equal(got.begin(), got.end(), free_run.sequences[i].ids.begin()));
  }
}

TEST(Generator, TimesAddUp) {
  const Model model = load("odd_heads", {best_usable_isa(), "float32"});
  const auto trace = generate(model.backend(), model.program(), {{1, 2, 3}},
                              {.max_new_tokens = 20, .end_tokens = {}, .uses_cache = true, .sampling = {}});
  ASSERT_EQ(trace.step_end.size(), 20u);
  ASSERT_EQ(trace.decode.size(), 19u);
  double sum = trace.prefill.value + trace.sampling.value;
  for (std::size_t i = 0; i < trace.decode.size(); ++i) {
    EXPECT_GT(trace.decode[i].value, 0);
    EXPECT_GE(trace.step_end[i + 1], trace.step_end[i]);
    sum += trace.decode[i].value;
  }
  EXPECT_LE(sum, trace.total.value);
  EXPECT_LE(trace.step_end.back(), trace.total);
}

TEST(Generator, RefusesWhatCannotBe) {
  const Model model = load("base", {best_usable_isa(), "float32"});  // context 64
  const auto run = [&](std::vector<TokenId> prompt, std::int64_t n) {
    return generate(model.backend(), model.program(), {prompt},
                    {.max_new_tokens = n, .end_tokens = {}, .uses_cache = true, .sampling = {}});
  };
  EXPECT_THROW(run({}, 1), Error);
  EXPECT_THROW(run({1}, 0), UsageError);
  EXPECT_THROW(run({1}, -5), UsageError);
  EXPECT_THROW(run({1}, 64), Error);
  EXPECT_THROW(run({101}, 1), Error);
  EXPECT_THROW(run({-1}, 1), Error);
  EXPECT_EQ(run({1}, 63).sequences[0].ids.size(), 63u);
  try {
    run(std::vector<TokenId>(60, 1), 10);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "60 tokens of the prompt and 10 new ones exceed the model's context of 64");
  }
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  std::vector<float> logits = {1, 5, 5, 2};
  EXPECT_EQ(Sampler({}, 0).next(logits, {}), 1);
}

TEST(Sampler, IsGreedyWhereItIsSoColdThatQuotientsOverflow) {
  for (const double temperature : {1e-37, 1e-38, 1e-44, 1e-60})
    for (const float sign : {1.0F, -1.0F})
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        std::vector<float> logits = {5 * sign, 5.5F * sign, 4 * sign, 7 * sign};
        EXPECT_EQ(Sampler({.temperature = temperature, .seed = seed}, 0).next(logits, {}), sign > 0 ? 3 : 2)
            << temperature;
      }
}

TEST(Sampler, TopKAndTopPKeepWhatTheyShould) {
  // Probabilities 0.5, 0.25, 0.125, ...: with top_p 0.6 the first two remain, with top_k 1 the first.
  const auto draw_all = [](SamplingOptions options) {
    std::vector<int> counts(5);
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
      std::vector<float> logits;
      for (int i = 0; i < 5; ++i) logits.push_back(-static_cast<float>(i) * std::log(2.0F));
      options.seed = seed;
      ++counts[static_cast<std::size_t>(Sampler(options, 0).next(logits, {}))];
    }
    return counts;
  };
  const auto p = draw_all({.temperature = 1, .top_p = 0.6});
  EXPECT_NEAR(p[0], 4000 * 2 / 3, 130);
  EXPECT_EQ(p[2] + p[3] + p[4], 0);
  EXPECT_EQ(draw_all({.temperature = 1, .top_k = 1})[0], 4000);
  const auto k = draw_all({.temperature = 1, .top_k = 3});
  EXPECT_NEAR(k[2], 4000 / 7, 100);
  EXPECT_EQ(k[3] + k[4], 0);
  const auto hot = draw_all({.temperature = 100});
  EXPECT_NEAR(hot[4], 800, 110);
}

// Tokens that have exactly that probability together are enough.
TEST(Sampler, TopPKeepsNoMoreThanItNeeds) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<float> logits = {1, 3, 3};
    logits[0] = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(Sampler({.temperature = 1, .top_p = 0.5, .seed = seed}, 0).next(logits, {}), 1);
  }
}

TEST(Sampler, RepetitionPenaltyWorksOnBothSigns) {
  std::vector<float> logits = {4, 3, -1, -3};
  Sampler sampler({.repetition_penalty = 2}, 0);
  const std::vector<TokenId> seen = {0, 2, 0};
  EXPECT_EQ(sampler.next(logits, seen), 1);
  EXPECT_EQ(logits, (std::vector<float>{2, 3, -2, -3}));
}

TEST(Sampler, RefusesNaN) {
  std::vector<float> logits = {1, std::nanf(""), 2};
  EXPECT_THROW(Sampler({}, 0).next(logits, {}), Error);
}

}  // namespace
}  // namespace assay
